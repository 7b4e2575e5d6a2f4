"""HyperQueue and Slurm as queues beside ours: an array of `true` on two slots.

Neither is as durable as ours: HyperQueue keeps its jobs in memory, Slurm saves its state every few
seconds. HyperQueue is installed from PyPI into a directory that is removed afterwards, or taken
from the Python named in $LBD_BENCH_HQ.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.measure import ENVIRONMENT, CannotMeasureError, run_s, wait_for
from tests.bench.rivals import START_TIMEOUT_S, Started, install, slurm
from tests.bench.warm_ssh import found

PEER = Path(__file__).with_name("hyperqueue_peer.py")
TELL_C = """
#include <fcntl.h>
#include <unistd.h>
int main(int c, char **v) { int f = open(v[1], O_WRONLY); return write(f, "x", 1) != 1; }
"""
TUNED = (
    "SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1\n"
    "MaxJobCount=20000\nMaxArraySize=10001\nMinJobAge=2\n"
)
ARRAY_TIMEOUT_S = 300.0


@contextmanager
def hyperqueue(directory: Path) -> Iterator[Callable[[int], float]]:
    """Yields a function from an array's size to its jobs a second."""
    with Started(directory) as started:
        python = os.environ.get("LBD_BENCH_HQ") or install("hyperqueue", directory / "venv")
        tell, fifo, log = directory / "tell", directory / "fifo", directory / "log"
        (directory / "tell.c").write_text(TELL_C)
        made = subprocess.run(["cc", "-O2", "-static", "-o", tell, f"{tell}.c"], check=False)
        if made.returncode:
            raise CannotMeasureError("no C compiler")
        os.mkfifo(fifo)
        started.start(python, str(PEER), "server", str(directory / "state"), RUST_LOG="error")
        wait_for(lambda: b"READY" in log.read_bytes(), START_TIMEOUT_S, "the HyperQueue server")
        server = log.read_text().partition("READY ")[2].split()[0]

        def run(count: int) -> float:
            argv = [python, str(PEER), "client", server, str(count), str(tell), str(fifo)]
            told = subprocess.run(argv, env=ENVIRONMENT, capture_output=True, text=True)
            if told.returncode:
                raise CannotMeasureError(told.stderr[-200:])
            return float(told.stdout.split()[-1])

        yield run


class Slurm:
    def __init__(self, directory: Path) -> None:
        self._environment = ENVIRONMENT | {"SLURM_CONF": str(directory / "slurm.conf")}

    def one_s(self) -> float:
        """`srun true`, the whole process."""
        return run_s([found("srun"), "-Q", "true"], self._environment)

    def many(self, count: int) -> float:
        """Jobs a second of an array of `count` jobs."""
        began_s = time.monotonic()
        argv = ["sbatch", "-Q", f"--array=1-{count}", "-o", "/dev/null", "--wrap", "true"]
        subprocess.run(argv, env=self._environment, check=True, capture_output=True)
        wait_for(lambda: not self._queued(), ARRAY_TIMEOUT_S, "the end of Slurm's array")
        return count / (time.monotonic() - began_s)

    def _queued(self) -> str:
        argv = ["squeue", "-h", "-r", "-t", "PD,R,CF,CG"]
        return subprocess.run(argv, env=self._environment, capture_output=True, text=True).stdout


@contextmanager
def tuned_slurm(directory: Path) -> Iterator[Slurm]:
    with slurm(directory, TUNED):
        yield Slurm(directory)
