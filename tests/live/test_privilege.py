"""`lbd up` as root: only the keeper has privilege, and all works for every local user."""

import os
import pwd
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from lbd.load.process_table import task_of
from tests.live.cluster import wait_until
from tests.live.privileged import ANN, LBD, two

__all__ = ("two",)  # the fixture

pytestmark = pytest.mark.root


@pytest.fixture
def home(tmp_path):
    """A directory that only Ann can enter."""
    place = Path("/tmp") / f"lbd-t-home-{os.getpid()}"
    place.mkdir(mode=0o700)
    shutil.chown(place, ANN)
    yield place
    shutil.rmtree(place)


def test_only_the_keeper_has_privilege(two):
    uid = str(pwd.getpwnam(LBD).pw_uid)
    found = two.daemons("h1")
    assert found["lim"] == found["lbm"] == ([uid] * 4, "0" * 16)
    assert found["keeper"][0] == ["0"] * 4


def test_a_command_runs_as_its_user(two):
    result = two.run(ANN, "cd / && lbrun -H h2 id")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == two.run(ANN, "id").stdout


def test_a_command_in_a_directory_that_is_closed_to_the_daemons(two, home):
    script = (
        f"mkdir {home}/in && cd {home}/in && echo words >file &&"
        "cat file | lbrun -H h2 sh -c 'cat; pwd; cat file'"
    )
    result = two.run(ANN, script)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"words\n{home}/in\nwords\n"


def test_files_are_sent_and_come_back(two, home):
    script = (
        f"cd {home} && echo words >in && lbrun -H h2 --send in --fetch out "
        "sh -c 'id -un >out; cat in >>out' && cat out"
    )
    result = two.run(ANN, script)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{ANN}\nwords\n"
    workdirs = two.root / "h2/stage/h2"
    wait_until(lambda: not list(workdirs.iterdir()), "the stage is removed")


def test_a_terminal_belongs_to_its_user(two):
    inner = "lbrun -H h2 sh -c 'stat -c %U $(tty); echo words >/dev/tty'"
    script = f"cd / && script -qec {shlex.quote(inner)} /dev/null"
    result = two.run(ANN, script, stdin=subprocess.DEVNULL)
    assert (result.returncode, result.stdout.replace("^@", "").split()) == (0, [ANN, "words"]), (
        result
    )


def test_a_prompt_survives_the_end_of_a_deaf_command(two):
    """The keeper says which process waits for input: the LBM cannot look into another user's
    process."""
    reads = "for n in 1 2 3 4 5 6 7 8; do read -r word && [ $word ] && break; done"
    inner = f"lbrun -H h2 sh -c 'trap : INT; echo ready; {reads}; echo heard $word'"
    script = f"""cd / && {{ sleep 3; printf '\\003\\003'; sleep 2;
        echo alive; sleep 1; }} |
        script -qec {shlex.quote(inner)} /dev/null"""
    result = two.run(ANN, script)
    assert result.stdout.split()[-2:] == ["heard", "alive"], result


def test_a_command_that_runs_here_is_ended_as_its_user(two):
    """The LBM may not signal it: a child of the keeper becomes the user and does."""
    script = "cd / && lbrun --local --name mine sleep 60 >/dev/null 2>&1 & echo $!"
    pid = int(two.run(ANN, script).stdout)
    job = wait_until(lambda: next(
        one["id"] for one in two.ask("h1", "lbm", "jobs")["jobs"] if one["name"] == "mine"
    ), "its LBM knows it", see=two.logs)  # fmt: skip
    found = two.ask("h1", "lbm", "command.show", id=job)["job"]
    assert (found["user"], found["pid"], found["directory"]) == (ANN, pid, "/")
    two.ask("h1", "lbm", "command.kill", id=job)
    ended = wait_until(lambda: (
        (reply := two.ask("h1", "lbm", "command.wait", id=job, patience_s=1.0))["open"] is False
        and reply["job"]
    ), "it has ended", see=two.logs)  # fmt: skip
    assert (ended["state"], ended["reason"]) == ("cancelled", "cancelled by root@h1")
    assert ended["exit_status"] in (143, None)


def test_an_lbm_that_ends_leaves_the_next_keeper_its_socket(two):
    """`lbd up` starts the next keeper as soon as the last is gone, while the LBM may still be
    ending."""
    run = two.root / "h2/run"
    two.ups[1].send_signal(signal.SIGSTOP)
    try:
        pid = int((run / "lbm.pid").read_text())
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: task_of(pid).has_ended, "the LBM has ended")
        assert (run / "keeper.sock").exists()
    finally:
        two.ups[1].send_signal(signal.SIGCONT)
    two.ready()
