"""`lbrun` with the compiled front: one command, a crowd of them, and what it adds to a compiler."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.bench.measure import (
    WARM_UP_ROUNDS,
    CannotMeasureError,
    Summary,
    in_turns,
    run_s,
    summarise,
)
from tests.bench.rivals import Started, reachable
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage
from tests.bench.warm_ssh import found, free_port

SSH = "ssh, warm master"
TRUE = "/usr/bin/true"
CROWD = 1000
CROWD_ROUNDS = 5
QUICK_CROWD = 40
DISTCCD_TIMEOUT_S = 10.0
SMALL_C = """#include <stdio.h>
#include <string.h>

int count(const char *text, char wanted)
{
    int found = 0;
    for (size_t i = 0; i < strlen(text); i++)
        found += text[i] == wanted;
    return printf("%d\\n", found);
}
"""


def measure(stage: Stage, wanted: set[str]) -> list[Row]:
    """Measures those wanted of front-local, front-remote, front-crowd and front-gcc."""
    rows = measure_true(stage, wanted)
    if "front-crowd" in wanted:
        rows.append(measure_crowd(stage))
    if "front-gcc" in wanted:
        rows.append(measure_gcc(stage))
    return rows


def measure_true(stage: Stage, wanted: set[str]) -> list[Row]:
    environment = stage.lab().environment("h1")
    front = str(stage.installation.front())
    cases = {}
    if "front-local" in wanted:
        cases["spawn"] = partial(run_s, [TRUE], environment)
        cases["front-local"] = partial(run_s, [front, "--local", TRUE], environment)
    if "front-remote" in wanted:
        cases["ssh"] = partial(run_s, stage.ssh().command("true"), environment)
        cases["front-remote"] = partial(run_s, [front, "-H", "h2", TRUE], environment)
    if not cases:
        return []
    samples, others = taken(stage, cases)
    figures = {
        "front-local": ("front: lbrun --local true", "posix_spawn of true", "spawn", 4.0),
        "front-remote": ("front: lbrun -H h2 true", SSH, "ssh", 0.42),
    }
    ms = {name: summarise([1e3 * s for s in each]) for name, each in samples.items()}
    return [
        Row(title, "ms", ms[name], rival_name, ms[rival], Bound(limit), others)
        for name, (title, rival_name, rival, limit) in figures.items()
        if name in wanted
    ]


def taken(stage: Stage, cases, rounds: int | None = None, warm_up: int = WARM_UP_ROUNDS):
    """The samples of each case, and the share of a core that other processes took meanwhile."""
    stage.others.wait_until_quiet(0 if stage.quick else 20)
    mark = stage.others.mark()
    samples = in_turns(cases, rounds or stage.runs, stage.rng, warm_up)
    return samples, stage.others.share_since(mark)


# Many of them, two at a time


def measure_crowd(stage: Stage) -> Row:
    environment = stage.lab().environment("h1")
    jobs = QUICK_CROWD if stage.quick else CROWD
    each = jobs // CROWD_ROUNDS
    commands = {
        "front": [str(stage.installation.front()), "-H", "h2", TRUE],
        "ssh": stage.ssh().command("true"),
    }
    cases = {name: partial(crowd_s, argv, each, environment) for name, argv in commands.items()}
    samples, others = taken(stage, cases, CROWD_ROUNDS, 1)
    rates = {name: rate(each, summarise(seconds)) for name, seconds in samples.items()}
    title = f"front: {jobs} x lbrun -H h2 true, xargs -P2"
    asked = Bound(1.3, at_least=True)
    return Row(title, "jobs/s", rates["front"], SSH, rates["ssh"], asked, others)


def crowd_s(argv: list[str], jobs: int, environment: dict[str, str]) -> float:
    numbers = "".join(f"{number}\n" for number in range(jobs))
    began_s = time.perf_counter()
    result = subprocess.run(
        [found("xargs"), "-P2", "-n1", *argv], input=numbers, env=environment, text=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    elapsed_s = time.perf_counter() - began_s
    if result.returncode:
        raise CannotMeasureError(f"xargs {' '.join(argv)}: status {result.returncode}")
    return elapsed_s


def rate(jobs: int, seconds: Summary) -> Summary:
    return Summary(jobs / seconds.median, jobs / seconds.p95, jobs / seconds.low, seconds.runs)


# What it adds to a compiler


def measure_gcc(stage: Stage) -> Row:
    """The differences to the same compilation with no wrapper, round by round."""
    environment = stage.lab().environment("h1")
    directory = stage.directory / "gcc"
    directory.mkdir()
    source, made = directory / "small.c", directory / "small.o"
    source.write_text(SMALL_C)
    gcc = [found("gcc"), "-c", str(source), "-o", str(made)]
    with distccd(directory / "distccd") as hosts:
        cases = {
            "gcc": partial(run_s, gcc, environment),
            "front": partial(
                run_s, [str(stage.installation.front()), "-H", "h2", *gcc], environment
            ),
            "distcc": partial(run_s, [found("distcc"), *gcc], environment | hosts),
        }
        samples, others = taken(stage, cases)
    added = {
        name: summarise(
            [1e3 * (s - plain) for s, plain in zip(samples[name], samples["gcc"], strict=True)]
        )
        for name in ("front", "distcc")
    }
    plain = summarise([1e3 * s for s in samples["gcc"]])
    return Row(
        "front: added to gcc -c, on h2", "ms", added["front"], "distcc to a distccd",
        added["distcc"], Bound(0.4), others, note=f"gcc -c alone takes {plain.median:.1f} ms",
    )  # fmt: skip


@contextmanager
def distccd(directory: Path) -> Iterator[dict[str, str]]:
    """Runs a distccd on loopback; yields the variables by which `distcc` uses only it."""
    program = shutil.which("distccd") or found("distccd")
    port = free_port()
    with Started(directory) as started:
        started.start(
            program, "--no-detach", "--daemon", "--listen", "127.0.0.1", "--port", str(port),
            "--allow", "127.0.0.1", "--enable-tcp-insecure", "--jobs", "4",
            "--user", "nobody", "--log-stderr",
        )  # fmt: skip
        deadline_s = time.monotonic() + DISTCCD_TIMEOUT_S
        while True:
            try:
                if reachable(port):
                    break
            except OSError:
                if time.monotonic() > deadline_s:
                    log = (directory / "log").read_text()[-300:]
                    raise CannotMeasureError(f"distccd does not listen: {log}") from None
                time.sleep(0.05)
        home = directory / "home"
        home.mkdir()
        yield {
            "DISTCC_HOSTS": f"127.0.0.1:{port}/4",
            "DISTCC_DIR": str(home),
            "DISTCC_FALLBACK": "0",
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
        }
