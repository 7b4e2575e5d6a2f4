"""Python functions by `lbd.Executor` on four hosts, beside Dask, Ray and local processes.

Each library runs in a program of its own (functions_peer.py) with four warm workers. The rivals'
workers are processes of this machine behind loopback, as our hosts are. Dask and Ray are installed
from PyPI into directories that are removed afterwards, or taken from the Pythons named in
$LBD_BENCH_DASK and $LBD_BENCH_RAY.
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench.measure import ENVIRONMENT, CannotMeasureError, favour, in_turns, say, summarise
from tests.bench.rivals import install
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage

PEER = Path(__file__).with_name("functions_peer.py")
HOSTS = 4
TASKS, QUICK_TASKS = 1000, 200
CALLS = 50
SENT_BYTES, QUICK_SENT_BYTES = 64 << 20, 8 << 20
ROUNDS, QUICK_ROUNDS = 7, 2
# Here lbd takes nine tenths of Dask's time, and other work makes one round a third longer than the
# next. In samples from 50 rounds, 7 rounds gave the wrong verdict once in twenty times, 25 once in
# ten thousand.
SEND_ROUNDS = 25
TITLES = {"dask": "Dask distributed", "ray": "Ray", "processes": "local processes"}
PACKAGES = {"dask": "distributed", "ray": "ray"}
ASKED: dict[str, dict[str, Bound]] = {
    "functions-map": {"dask": Bound(2, at_least=True), "ray": Bound(1, at_least=True)},
    "functions-call": {"dask": Bound(0.7)},
    "functions-send": {"dask": Bound(1)},
}
NAMES = tuple(ASKED)


class Peer:
    """A library's program, warmed up."""

    def __init__(self, argv: list[str], environment: dict[str, str], log: Path) -> None:
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file,
                text=True, start_new_session=True,
            )  # fmt: skip
        favour(self.process.pid)
        if self._answer() != "READY":
            raise CannotMeasureError(log.read_text(errors="replace").strip()[-200:])

    def _answer(self) -> str:
        assert self.process.stdout
        while line := self.process.stdout.readline():
            if line.startswith("READY") or line[:1].isdigit():
                return line.strip()
        return ""

    def seconds(self, what: str, amount: int) -> float:
        assert self.process.stdin
        self.process.stdin.write(f"{what} {amount}\n")
        self.process.stdin.flush()
        answer = self._answer()
        if not answer:
            raise CannotMeasureError(f"{self.process.args} has ended")
        return float(answer)

    def end(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@contextmanager
def running(
    argv: list[str], environment: dict[str, str], log: Path
) -> Iterator[Peer]:  # fmt: skip
    peer = Peer(argv, environment, log)
    try:
        yield peer
    finally:
        peer.end()


def measure(stage: Stage, wanted: set[str]) -> list[Row]:
    count = QUICK_TASKS if stage.quick else TASKS
    size = QUICK_SENT_BYTES if stage.quick else SENT_BYTES
    rounds = dict.fromkeys(NAMES, ROUNDS) | {"functions-send": SEND_ROUNDS}
    questions = {
        "functions-map": ("map", count, f"{count} tasks a second", lambda s: count / s),
        "functions-call": ("call", CALLS, "ms a call", lambda s: s / CALLS * 1e3),
        "functions-send": ("send", size, f"ms for {size >> 20} MiB to 4 hosts", lambda s: s * 1e3),
    }
    rows: list[Row] = []
    with stage.new_lab("python", HOSTS, "lbm.slots=2") as lab, ExitStack() as stack:
        environment = lab.environment("h1")
        environment["PATH"] = f"{stage.installation.front().parent}:{environment['PATH']}"
        argv = [str(stage.installation.python), str(PEER), "lbd"]
        peers = {"lbd": stack.enter_context(running(argv, environment, stage.directory / "lbd"))}
        for name in TITLES:
            try:
                argv = [python_of(name, stage), str(PEER), name]
                log = stage.directory / f"{name}.log"
                peers[name] = stack.enter_context(running(argv, ENVIRONMENT, log))
            except CannotMeasureError as problem:
                say(f"no {TITLES[name]} beside us: {problem}")
        for figure in (name for name in NAMES if name in wanted):
            what, amount, unit, convert = questions[figure]
            mark = stage.others.mark()
            cases = {name: asking(peer, what, amount) for name, peer in peers.items()}
            often = QUICK_ROUNDS if stage.quick else rounds[figure]
            found = in_turns(cases, often, stage.rng, 1)
            others = stage.others.share_since(mark)
            samples = {name: [convert(s) for s in seconds] for name, seconds in found.items()}
            rows += rows_of(figure, unit, samples, others)
    return rows


def python_of(name: str, stage: Stage) -> str:
    """A Python that has the library. Raises CannotMeasureError."""
    if name not in PACKAGES:
        return stage.interpreter()
    given = os.environ.get(f"LBD_BENCH_{name.upper()}")
    return given or install(PACKAGES[name], stage.directory / f"{name}-venv")


def asking(peer: Peer, what: str, amount: int) -> Callable[[], float]:
    return lambda: peer.seconds(what, amount)


def rows_of(
    figure: str, unit: str, samples: dict[str, list[float]], others: float | None
) -> list[Row]:
    """A row for each rival that is available."""
    ours = summarise(samples.pop("lbd"))
    rows = [
        Row(figure, unit, ours, TITLES[name], summarise(theirs), ASKED[figure].get(name), others)
        for name, theirs in samples.items()
    ]
    return rows or [Row(figure, unit, ours, others=others)]
