"""A signal to a process that is not a child of the keeper; what a step ends with that fails."""

import contextlib
import errno
import os
import signal
import subprocess
import sys

import pytest

from lbd.keeper import file_worker
from lbd.keeper.file_worker import send_signal
from lbd.load.process_table import task_of
from lbd.pack.pack import BadPack, naming
from tests.live.cluster import wait_until

TREE = "sleep 60 & echo $!; wait"


@pytest.fixture
def shell():
    """Starts a process; returns it, its start time, and its child."""
    with subprocess.Popen(["sh", "-c", TREE], stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        try:
            yield process, task_of(process.pid).started_ticks, child
        finally:
            process.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def test_the_whole_tree_is_signalled(shell):
    process, started, child = shell
    assert send_signal(process.pid, started, signal.SIGTERM, 1) == 0
    assert process.wait() == -signal.SIGTERM
    wait_until(lambda: (task := task_of(child)) is None or task.has_ended, "the child has ended")


def test_the_process_alone_is_signalled(shell):
    process, started, child = shell
    assert send_signal(process.pid, started, signal.SIGTERM, 0) == 0
    assert process.wait() == -signal.SIGTERM
    assert not task_of(child).has_ended


def test_a_process_that_reuses_the_pid_is_not_signalled(shell):
    process, started, _ = shell
    assert send_signal(process.pid, started + 1, signal.SIGTERM, 1) == errno.ESRCH
    assert process.poll() is None


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), errno.ENOSPC),
        (BadPack("malformed transfer"), 1),
    ],
)
def test_a_step_that_fails_ends_with_the_errno(monkeypatch, capfd, problem, status):
    """The dispatcher tells by it what may pass from what is the job's own fault."""

    def fails(*_):
        with naming(b"big"):
            raise problem

    monkeypatch.setattr(file_worker, "transfer", fails)
    assert file_worker.main([b"unpack", b"1", b"1", b"0"]) == status
    assert str(problem.args[-1]) in capfd.readouterr().err


def step(here, *words, stdin=None, stdout=None):
    """Returns the exit status of a step, and what it says."""
    run = f"import sys; from lbd.keeper.file_worker import main; sys.exit(main({[*words]!r}))"
    done = subprocess.run([sys.executable, "-c", run], cwd=here, stdin=stdin, stdout=stdout,
                          stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.getcwd()},
                          check=False)  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_queued_jobs_outputs_replace_what_was_sent_and_nothing_else(tmp_path, is_swapped):
    """Another user may have renamed it meanwhile, where both may write."""
    here, limits = tmp_path / "here", (b"1000000", b"100", b"1")
    (here / "data").mkdir(parents=True)
    (here / "data/old").touch()
    (here / "private").mkdir(mode=0o700)
    (here / "private/mine").touch()
    here.chmod(0o777)
    with (tmp_path / "pack").open("wb+") as pack, (tmp_path / "noted").open("wb+") as noted:
        status, said = step(here, b"gather", *limits, b"data", b"data", b"out.%a", stdout=pack)
        assert (status, len(said.splitlines())) == (0, 2)
        noted.write(said)
        noted.seek(0)
        pack.seek(0)
        if is_swapped:
            (here / "data").rename(here / "data.orig")
            (here / "private").rename(here / "data")
        words = (b"place", *limits[:2], b"2", b"7", b"data", b"data", b"out.3")
        status, said = step(here, *words, stdin=pack, stdout=noted)
    aside = "data.lbd-old-7"
    assert status == 0
    assert said.decode() == f"data is not what it was; that is {aside} now" * is_swapped
    assert os.listdir(here / "data") == ["old"]
    assert (here / aside / "mine").exists() is is_swapped
