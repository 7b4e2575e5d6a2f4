"""Slurm and Dask at rest, one node each, where available.

Slurm is Debian's (`apt-get install slurm-wlm munge`), started here on loopback without cgroups or
accounting. Dask is installed from PyPI into a directory that is removed afterwards, or taken from
the Python named in $LBD_BENCH_DASK.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.measure import ENVIRONMENT, CannotMeasureError, descendants, favour, wait_for
from tests.bench.warm_ssh import found, free_port

START_TIMEOUT_S = 40.0
INSTALL_TIMEOUT_S = 300
Pids = dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Rival:
    name: str
    title: str
    running: Callable[[Path], AbstractContextManager[Pids]]


class Started:
    """Processes of a rival, ended in reverse order."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._log = (directory / "log").open("wb")
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *argv: str, **environment: str) -> int:
        process = subprocess.Popen(
            argv, env=ENVIRONMENT | environment, cwd=self._directory, stdin=subprocess.DEVNULL,
            stdout=self._log, stderr=self._log, start_new_session=True,
        )  # fmt: skip
        favour(process.pid)
        self._processes.append(process)
        return process.pid

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()


# -- Slurm ---------------------------------------------------------------------------------------

SLURM_CONF = """ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={d}/munge.sock
CredType=cred/munge
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={d}/state
SlurmdSpoolDir={d}/spool
SlurmctldPidFile={d}/slurmctld.pid
SlurmdPidFile={d}/slurmd.pid
SlurmctldLogFile={d}/slurmctld.log
SlurmdLogFile={d}/slurmd.log
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES State=UP
"""


@contextmanager
def slurm(directory: Path, more: str = "") -> Iterator[Pids]:
    """slurmctld and slurmd; munged, which they need, is not counted. `more`: settings."""
    if os.geteuid():
        raise CannotMeasureError("needs root")
    munged, controller, node = found("munged"), found("slurmctld"), found("slurmd")
    with Started(directory) as started:
        d = str(directory)
        directory.chmod(0o755)
        for name in ("state", "spool"):
            (directory / name).mkdir()
        (directory / "munge.key").write_bytes(os.urandom(128))
        (directory / "munge.key").chmod(0o400)
        host = socket.gethostname().split(".")[0]
        ports = {"controller": free_port(), "node": free_port()}
        conf = directory / "slurm.conf"
        conf.write_text(more + SLURM_CONF.format(host=host, d=d, cores=os.cpu_count(), **ports))
        started.start(
            munged, "--foreground", "--force", f"--socket={d}/munge.sock",
            f"--key-file={d}/munge.key", f"--log-file={d}/munged.log",
            f"--pid-file={d}/munged.pid", f"--seed-file={d}/munged.seed",
        )  # fmt: skip
        wait_for((directory / "munge.sock").exists, START_TIMEOUT_S, "munged")
        controller_pid = started.start(controller, "-D", "-c", "-f", str(conf))
        node_pid = started.start(node, "-D", "-f", str(conf))
        wait_for(lambda: slurm_idle(conf), START_TIMEOUT_S, "an idle Slurm node")
        yield {"slurmctld": descendants(controller_pid), "slurmd": descendants(node_pid)}


def slurm_idle(conf: Path) -> bool:
    environment = ENVIRONMENT | {"SLURM_CONF": str(conf)}
    asked = [found("sinfo"), "-h", "-o", "%T"]
    return "idle" in subprocess.run(asked, env=environment, capture_output=True, text=True).stdout


# -- Dask ----------------------------------------------------------------------------------------


@contextmanager
def dask(directory: Path) -> Iterator[Pids]:
    """A scheduler and one worker with one thread, no nanny, no dashboard."""
    with Started(directory) as started:
        python = os.environ.get("LBD_BENCH_DASK") or install("distributed", directory / "venv")
        port = free_port()
        if subprocess.run([python, "-c", "import distributed"], capture_output=True).returncode:
            raise CannotMeasureError(f"{python} has no distributed")
        run = [python, "-c", "from dask.__main__ import main; main()"]
        scheduler = started.start(
            *run, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"
        )
        wait_for(lambda: reachable(port), START_TIMEOUT_S, "the Dask scheduler")
        worker = started.start(
            *run, "worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny",
            "--no-dashboard", "--host", "127.0.0.1", "--memory-limit", "0",
        )  # fmt: skip
        log = directory / "log"
        wait_for(lambda: b"Registered to" in log.read_bytes(), START_TIMEOUT_S, "the Dask worker")
        yield {"scheduler": descendants(scheduler), "worker": descendants(worker)}


def install(package: str, venv: Path) -> str:
    """Installs a package from PyPI; returns the venv's Python."""
    python = str(venv / "bin/python")
    try:
        subprocess.run(
            [os.path.realpath(sys.executable), "-m", "venv", venv], check=True, capture_output=True
        )
        subprocess.run(
            [python, "-m", "pip", "install", "-q", package], check=True, capture_output=True,
            timeout=INSTALL_TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as problem:
        raise CannotMeasureError(f"cannot be installed: {problem}") from None
    return python


def reachable(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), 1):
        return True


ALL = (
    Rival("slurm", "idle slurmctld + slurmd", slurm),
    Rival("dask", "idle Dask scheduler + worker", dask),
)
