"""lbsh in real builds: what its shims cost `./configure`, and what `make SHELL=lbsh` gains."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from lbd.lab.record import load
from tests.bench.front import rate, taken
from tests.bench.measure import ENVIRONMENT, CannotMeasureError, descendants, summarise, wait_for
from tests.bench.rivals import Started
from tests.bench.row import Bound, Row
from tests.bench.stage import Lab, Stage
from tests.bench.warm_ssh import found
from tests.live.debian_source import fetch

CONFIGURES = "hello"
# Many files of much the same size. Of Lua's files, one is a sixth of the whole and comes late: the
# time that it takes on one host bounds any build.
BUILDS = "mbedtls"
TARGET = ("-C", "library", "static")
CONFIGURE_ROUNDS, MAKE_ROUNDS = 7, 3
HOSTS, CORES = 4, 0.5
SLOTS = "lbm.slots=3"  # as many as distcc is allowed, so that no host waits for the next job
# What no four hosts can exceed that share these cores: two threads of one core slow each other.
LIMIT = "the limit: make -j8, as many cores, one host"
AT_MOST = ("taskset", "-c", f"0-{int(HOSTS * CORES) - 1}")
DISTCCD_PORT = 3632
BUILD_TIMEOUT_S = 300


def measure(stage: Stage, wanted: set[str]) -> list[Row]:
    """Measures those wanted of lbsh-configure and lbsh-make."""
    if os.geteuid():
        raise CannotMeasureError("apt-get source and namespaces need root")
    rows = []
    if "lbsh-configure" in wanted:
        rows.append(measure_configure(stage))
    if "lbsh-make" in wanted:
        rows += measure_make(stage)
    return rows


def source_of(stage: Stage, package: str) -> Path:
    directory = stage.directory / f"source-{package}"
    directory.mkdir()
    return fetch(package, directory)


def measure_configure(stage: Stage) -> Row:
    """No command leaves: the compilations are too short."""
    script = source_of(stage, CONFIGURES) / "configure"
    build = stage.directory / "configured"
    environment = stage.lab().environment("h1")
    lbsh = stage.installation.lbsh()
    cases = {
        name: partial(configure_s, [str(shell), str(script)], build, environment)
        for name, shell in (("lbsh", lbsh), ("sh", "/bin/sh"))
    }
    rounds = 1 if stage.quick else CONFIGURE_ROUNDS
    warm_up = 1 if stage.quick else 3  # a new command is measured until it is known
    samples, others = taken(stage, cases, rounds, warm_up)
    ours, plain = summarise(samples["lbsh"]), summarise(samples["sh"])
    title = f"lbsh: ./configure of {CONFIGURES}"
    return Row(title, "s", ours, "/bin/sh", plain, Bound(1.15), others)


def configure_s(command: list[str], build: Path, environment: dict[str, str]) -> float:
    shutil.rmtree(build, ignore_errors=True)
    build.mkdir()
    return timed_s(command, build, environment)


def timed_s(command: list[str], directory: Path, environment: dict[str, str]) -> float:
    began_s = time.perf_counter()
    result = subprocess.run(
        command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        timeout=BUILD_TIMEOUT_S,
    )  # fmt: skip
    elapsed_s = time.perf_counter() - began_s
    if result.returncode:
        said = result.stderr.decode(errors="replace")[-300:]
        raise CannotMeasureError(f"{' '.join(command)}: status {result.returncode}: {said}")
    return elapsed_s


# A build on four hosts of half a core each


def measure_make(stage: Stage) -> list[Row]:
    source = source_of(stage, BUILDS)
    tree = stage.directory / "build"
    lbsh = stage.installation.lbsh()
    lab_of_four = stage.new_lab("four", HOSTS, SLOTS, cores=CORES)
    with lab_of_four as lab, distccds(stage, lab) as hosts:
        enter = str(lab.root / "h1/enter")
        make = [enter, "make", *TARGET]
        environment = lab.environment("h1")

        def case(*words: str, **more: str) -> Callable[[], float]:
            return partial(build_s, source, tree, [*make, *words], environment | more)

        cases = {
            "lbsh": case("-j8", f"SHELL={lbsh}"),
            "one, -j1": case("-j1"),
            "one, -j8": case("-j8"),
            "distcc": case("-j8", "CC=distcc gcc", **hosts),
            LIMIT: partial(build_s, source, tree, [*AT_MOST, "make", *TARGET, "-j8"], environment),
        }
        rounds = 1 if stage.quick else MAKE_ROUNDS
        samples, others = taken(stage, cases, rounds, 1)
    rates = {name: rate(60, summarise(seconds)) for name, seconds in samples.items()}
    asked = {"one, -j1": 3.3, "one, -j8": 3.3, "distcc": 1.25}
    title = f"lbsh: make -j8 of {BUILDS}, {HOSTS} x {CORES:g} core"
    return [
        Row(title, "builds/min", rates["lbsh"], f"make: {name}" if name != "distcc" else name,
            rates[name], Bound(limit, at_least=True), others)
        for name, limit in asked.items()
    ] + [Row(title, "builds/min", rates["lbsh"], LIMIT, rates[LIMIT], others=others)]  # fmt: skip


def build_s(source: Path, tree: Path, command: list[str], environment: dict[str, str]) -> float:
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(source, tree, symlinks=True)
    return timed_s(command, tree, environment)


@contextmanager
def distccds(stage: Stage, lab: Lab) -> Iterator[dict[str, str]]:
    """Runs distccd on each host; yields the variables by which `distcc` on h1 uses them, h1
    included."""
    program = found("distccd")
    record = load(lab.root)
    if record is None:
        raise CannotMeasureError("the lab has no record")
    addresses = [record.plan.address(host) for host in record.plan.hosts]
    with ExitStack() as stack:
        started = stack.enter_context(Started(stage.directory / "distccds"))
        for host, address in zip(record.plan.hosts, addresses, strict=True):
            pid = started.start(
                str(lab.root / host / "enter"), program, "--no-detach", "--daemon", "--listen",
                address, "--port", str(DISTCCD_PORT), "--allow-private", "--enable-tcp-insecure",
                "--jobs", "4", "--user", "nobody", "--log-stderr",
            )  # fmt: skip
            wait_for(lambda pid=pid: len(descendants(pid)) > 1, 20, f"distccd on {host}")
        home = stage.directory / "distcc-home"
        home.mkdir()
        yield {
            "DISTCC_HOSTS": " ".join(f"{address}:{DISTCCD_PORT}/3" for address in addresses),
            "DISTCC_DIR": str(home),
            "DISTCC_FALLBACK": "0",
            "TMPDIR": ENVIRONMENT.get("TMPDIR", "/tmp"),
        }
