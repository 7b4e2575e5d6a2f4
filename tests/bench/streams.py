"""MiB a second of one long stream, out of and into a command on h2, by `lbrun` as it is installed:
the compiled front, whose time the ten milliseconds of a Python's start would hide."""

import subprocess
import time
from functools import partial

from tests.bench.measure import CannotMeasureError, Summary, in_turns, summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import Lab, Stage

MIB = 256
QUICK_MIB = 32


def measure(stage: Stage, wanted: set[str]) -> list[Row]:
    return measured(stage, stage.lab(), wanted, 2.0)


def measured(stage: Stage, lab: Lab, wanted: set[str], asked: float, how: str = "") -> list[Row]:
    """Measures those wanted of stdout and stdin."""
    ssh = stage.ssh()
    environment = lab.environment("h1")
    mib = QUICK_MIB if stage.quick else MIB
    source = ["head", "-c", f"{mib}M", "/dev/zero"]
    sink = ["sh", "-c", "cat >/dev/null"]
    lbrun = [str(stage.installation.front()), "-H", "h2"]
    ways = {
        "stdout": (
            partial(out_s, [*lbrun, *source], environment),
            partial(out_s, ssh.command(*source), environment),
        ),
        "stdin": (
            partial(in_s, source, [*lbrun, *sink], environment),
            partial(in_s, source, ssh.command("cat >/dev/null"), environment),
        ),
    }
    rows = []
    for name, (ours, theirs) in ways.items():
        if name in wanted:
            stage.others.wait_until_quiet(0 if stage.quick else 20)
            mark = stage.others.mark()
            samples = in_turns({"ours": ours, "ssh": theirs}, stage.runs, stage.rng, 1)
            others = stage.others.share_since(mark)
            found = {key: rate(mib, summarise(taken)) for key, taken in samples.items()}
            bound = Bound(asked, at_least=True)
            title = f"{how}{name} of {mib} MiB, lbrun -H h2"
            rows.append(
                Row(title, "MiB/s", found["ours"], "ssh, warm master", found["ssh"], bound, others)
            )
    return rows


def rate(mib: int, seconds: Summary) -> Summary:
    """The slow tail stays the tail: p95 is the rate of the 95th percentile of the durations."""
    return Summary(mib / seconds.median, mib / seconds.p95, mib / seconds.low, seconds.runs)


def out_s(argv: list[str], environment: dict[str, str]) -> float:
    """Into /dev/zero, which accepts all writes as /dev/null does: lbrun does not even send output
    that goes to /dev/null."""
    began_s = time.perf_counter()
    with open("/dev/zero", "wb") as sink:
        status = subprocess.call(argv, env=environment, stdin=subprocess.DEVNULL, stdout=sink)
    elapsed_s = time.perf_counter() - began_s
    if status:
        raise CannotMeasureError(f"{' '.join(argv)}: status {status}")
    return elapsed_s


def in_s(source: list[str], argv: list[str], environment: dict[str, str]) -> float:
    began_s = time.perf_counter()
    with subprocess.Popen(source, env=environment, stdout=subprocess.PIPE) as feeding:
        status = subprocess.call(argv, env=environment, stdin=feeding.stdout)
        assert feeding.stdout is not None
        feeding.stdout.close()
    elapsed_s = time.perf_counter() - began_s
    if status or feeding.returncode:
        raise CannotMeasureError(f"{' '.join(argv)}: status {status}, {feeding.returncode}")
    return elapsed_s
