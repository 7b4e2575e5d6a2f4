"""Many clients follow one job's output as it comes: is any line lost, and what does it cost?

The job writes numbered lines at a given rate on another host; each follower is `lbctl logs -f`.
Beside it as many `tail -f` follow a file that grows as fast.
"""

import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench.measure import cpu_s, summarise, wait_for
from tests.bench.row import Bound, Row
from tests.bench.stage import Lab, Stage

NAMES = ("followers",)
FOLLOWERS, LINES_A_SECOND = 20, 1000
WRITES_S, QUICK_WRITES_S = 20.0, 4.0
PATIENCE_S = 120.0
NONE_LOST = Bound(0.0, of_ratio=False)
# A chunk of a quarter MiB for each, as bytes and as text, on its way through two LBMs.
GROWTH_ASKED_MIB = Bound(1.5 * FOLLOWERS, of_ratio=False)
LINE = re.compile(rb"line (\d{9})\n")
WRITER = """
import sys, time
began_s, number = time.monotonic(), 0
while number < {lines}:
    due = min({lines}, int((time.monotonic() - began_s) * {rate}))
    sys.stdout.write("".join(f"line {{n:09d}}\\n" for n in range(number, due)))
    sys.stdout.flush()
    number = due
    time.sleep(0.01)
"""


def measure(stage: Stage, _wanted: set[str]) -> list[Row]:
    lines = int(LINES_A_SECOND * (QUICK_WRITES_S if stage.quick else WRITES_S))
    writer = [sys.executable, "-c", WRITER.format(lines=lines, rate=LINES_A_SECOND)]
    mark = stage.others.mark()
    with stage.new_lab("followers", 2, "dispatch.host=h1") as lab:
        missed, growth_mib, ours_s = by_logs(stage, lab, writer, lines)
    tail_s = by_tail(stage.directory, writer, lines)
    others = stage.others.share_since(mark)
    what = f"{FOLLOWERS} x logs -f, {LINES_A_SECOND:,} lines/s"
    return [
        Row(f"{what}: lost", "lines", summarise([missed]), asked=NONE_LOST, others=others),
        Row(f"{what}: daemons grow", "MiB", summarise([growth_mib]), asked=GROWTH_ASKED_MIB,
            others=others),
        Row(f"{what}: CPU", "s", summarise([ours_s]), "tail -f", summarise([tail_s]),
            others=others),
    ]  # fmt: skip


def by_logs(stage: Stage, lab: Lab, writer: list[str], lines: int) -> tuple[float, float, float]:
    """The lines that did not reach all, the rise of the daemons' peaks in MiB, and the CPU of
    all."""
    pids = [pid for host in ("h1", "h2") for pid in lab.pids(host).values()]
    of, environment = stage.installation, lab.environment("h1")
    submit = [str(of.lbrun), "-d", "-H", "h2", *writer]
    lbctl = [str(of.python), "-P", "-m", "lbd.cli.lbctl"]
    before_mib, before_s = sum(map(peak_mib, pids)), sum(map(cpu_s, pids)) + children_s()
    done = subprocess.run(submit, env=environment, check=True, capture_output=True, text=True)
    follow = [*lbctl, "logs", "-f", done.stdout.strip()]
    with followers(stage.directory, follow, environment) as (processes, files):
        for process in processes:
            process.wait(PATIENCE_S)
    missed = sum(lines - seen(file) for file in files)
    ours_s = sum(map(cpu_s, pids)) + children_s() - before_s
    return float(missed), sum(map(peak_mib, pids)) - before_mib, ours_s


def by_tail(directory: Path, writer: list[str], lines: int) -> float:
    """The followers' CPU."""
    grows = directory / "grows"
    tail = ["tail", "-n", "+1", "-f", str(grows)]
    with ExitStack() as stack:
        file = stack.enter_context(grows.open("wb"))
        writing = stack.enter_context(subprocess.Popen(writer, stdout=file))
        with followers(directory, tail, None) as (_, files):
            writing.wait()
            wait_for(lambda: all(seen(file) == lines for file in files), PATIENCE_S, "tail -f")
            before_s = children_s()  # without the writer's
    return children_s() - before_s


@contextmanager
def followers(
    directory: Path, argv: list[str], environment: dict[str, str] | None
) -> Iterator[tuple[list["subprocess.Popen[bytes]"], list[Path]]]:
    """Runs the followers, which have all ended afterwards."""
    files = [directory / f"follower-{number}" for number in range(FOLLOWERS)]
    with ExitStack() as stack:
        processes = []
        for file in files:
            out = stack.enter_context(file.open("wb"))
            process = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=out)
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        yield processes, files


def seen(file: Path) -> int:
    """The number of lines, in order and with none left out."""
    numbers = [int(number) for number in LINE.findall(file.read_bytes())]
    return len(numbers) if numbers == list(range(len(numbers))) else 0


def peak_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
