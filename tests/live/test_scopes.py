"""Real LIMs, real load: N busy processes, and one process of N busy threads, in every scope.

The index must settle at N per usable core. The machine may be busy with other things; only host
scope may see them. Our load has the lowest priority, so other work leaves it little of the
processors: nothing here depends on how much.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from lbd.errors import Unavailable
from lbd.load.cgroup import usable_cores
from lbd.load.procfs import MACHINE_STAT_BYTES, read_small, running_and_blocked
from lbd.local.json_socket import ask
from tests.live.cluster import client_environment

pytestmark = pytest.mark.alone

BUSY = Path(__file__).with_name("busy.py")
N = 3
LIMIT_S = 60.0  # generous: the machine may have other things to do
NEAR = 0.35  # tasks
LOOKS, LOOK_S = 50, 0.1


def wait_until(look, accept, what):
    """What `look` returned when `accept` took it; an AssertionError shows what was seen last."""
    end_s = time.monotonic() + LIMIT_S
    seen = None
    while time.monotonic() < end_s:
        with contextlib.suppress(Unavailable):
            seen = look()
            if accept(seen):
                return seen
        time.sleep(0.1)
    raise AssertionError(f"not within {LIMIT_S:g} s: {what}; last seen: {seen}")


class RunningLim:
    """One LIM alone, in a PID namespace of its own if the scope asks for one."""

    def __init__(self, root: Path, scope: str, wrapper=()) -> None:
        self.socket = root / "run/lim.sock"
        config = root / "lbd.toml"
        config.write_text(
            f'[host]\nname = "h1"\nruntime_dir = "{root}/run"\nstate_dir = "{root}/state"\n'
            f'speed = 1.0\n[daemons]\nuser = "root"\n[load]\nscope = "{scope}"\nsmoothing_s = 1.0\n'
        )
        command = [sys.executable, "-m", "lbd.cli.main", "lim", "--config", str(config)]
        self.log = (root / "log").open("w")
        self.process = subprocess.Popen(
            [*wrapper, *command], env=client_environment(), stderr=self.log
        )
        wait_until(lambda: self.ask(op="status"), bool, "the LIM answers")

    def ask(self, **request):
        return ask(self.socket, request)

    def host(self):
        return self.ask(op="status")["hosts"][0]

    def inside(self) -> list[str]:
        """The command prefix that enters the LIM's namespaces."""
        (child,) = psutil.Process(self.process.pid).children()
        return ["nsenter", "-t", str(child.pid), "-p", "-m", "--"]

    def end(self) -> None:
        ours = psutil.Process(self.process.pid)
        for process in ours.children() or [ours]:  # unshare itself ignores TERM
            process.terminate()
        self.process.wait(30)
        self.log.close()


@contextlib.contextmanager
def busy(kind, count=N, wrapper=()):
    """`count` runnable tasks, all gone afterwards."""
    process = subprocess.Popen(
        [*wrapper, sys.executable, str(BUSY), kind, str(count)], start_new_session=True
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def lim(tmp_path, request):
    scope, wrapper = request.param
    if wrapper and os.geteuid() != 0:
        pytest.skip("a PID namespace needs root")
    found = RunningLim(tmp_path, scope, wrapper)
    yield found
    found.end()


NAMESPACE = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")
KINDS = ["processes", "threads"]


def means(lim):
    """Means over some seconds: the tasks that the LIM counts and those the kernel counts, except
    us."""
    seen = []
    for _ in range(LOOKS):
        running, _ = running_and_blocked(read_small("/proc/stat", MACHINE_STAT_BYTES))
        seen.append((lim.host()["queues"]["cpu"], running - 1))
        time.sleep(LOOK_S)
    return tuple(sum(column) / LOOKS for column in zip(*seen, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lim", [("host", ())], indirect=True, ids=["host"])
def test_host_scope_counts_every_task_of_the_machine(lim, kind):
    with busy(kind):
        wait_until(
            lambda: means(lim),
            lambda found: found[0] > N - NEAR and abs(found[0] - found[1]) < 1,
            "what the LIM counts is what the kernel does, and ours among it",
        )


@pytest.mark.root
@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lim", [("auto", NAMESPACE)], indirect=True, ids=["container"])
def test_container_scope_counts_only_the_tasks_of_its_pid_namespace(lim, kind):
    doctor = lim.ask(op="doctor")
    assert doctor["scope"] == "container"
    assert "only the processes of its container" in doctor["scope_reason"]
    with busy("processes", 1), busy(kind, wrapper=lim.inside()):
        host = wait_until(
            lim.host, lambda host: abs(host["queues"]["cpu"] - N) < NEAR, f"{N} tasks"
        )
        assert host["index"] == pytest.approx(N / usable_cores(), abs=NEAR)
        wait_until(lim.host, lambda host: host["utilisation"] > 0, "its processors are in use")
    wait_until(lim.host, lambda host: host["queues"]["cpu"] < NEAR, "nothing runs")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lim", [("jobs", ())], indirect=True, ids=["jobs"])
def test_jobs_scope_counts_only_the_trees_of_its_jobs(lim, kind):
    with busy("processes", 1), busy(kind) as job:
        start = {"op": "job", "event": "start", "job": "j", "host": "h1", "pid": job.pid}
        lim.ask(**start, foreign=False, cgroup=None)
        host = wait_until(
            lim.host, lambda host: abs(host["queues"]["cpu"] - N) < NEAR, f"{N} tasks"
        )
        assert host["index"] == pytest.approx(N / usable_cores(), abs=NEAR)
    lim.ask(op="job", event="end", job="j", host="h1")
    wait_until(lim.host, lambda host: host["queues"]["cpu"] < NEAR, "nothing runs")


@pytest.mark.parametrize("lim", [("jobs", ())], indirect=True, ids=["jobs"])
def test_a_scan_stays_below_its_share_of_a_core(lim):
    with busy("processes", 2) as job:
        start = {"op": "job", "event": "start", "job": "j", "host": "h1", "pid": job.pid}
        lim.ask(**start, foreign=False, cgroup=None)
        wait_until(lim.host, lambda host: host["queues"]["cpu"] > 1, "the job is seen")
        doctor = lim.ask(op="doctor")
    assert 0 < doctor["sampling_cost_core"] <= 0.0081
