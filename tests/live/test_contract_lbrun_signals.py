"""Signals through lbrun, and what is left when lbrun, its job or a part of the job dies."""

import contextlib
import os
import shutil
import signal
import subprocess
from functools import partial

import psutil
import pytest
from contract import (
    PYTHON,
    TELL,
    WHERE,
    alive,
    assert_gone,
    assert_one_line,
    bounded,
    kill_tree,
    numbers_in,
    shell_status,
)

from tests.live.cluster import Lab

pytestmark = pytest.mark.usefixtures("client")

LAB = partial(Lab.up, 2)
AWAY = WHERE["away"]
TIMED = ("--local", "--timeout", "600")
# The ways in which lbrun stays as the parent, and those in which it may be replaced by the command.
also_timed = pytest.mark.parametrize(
    "where",
    [*WHERE.values(), TIMED],
    ids=[*WHERE, "stay-timed"],
)


@contextlib.contextmanager
def job_of(lab, where, *words, **options):
    """A command with pipes, in a process group of its own; killed if the test does not end it."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, **options}
    with lab.popen("h1", "lbrun", *where, *words, process_group=0, **pipes) as job:
        try:
            with bounded(job, 30):
                yield job
        finally:
            kill_tree(job.pid)


def reporting(lab, where, *names):
    return job_of(lab, where, *PYTHON, "-c", TELL, *names)


FORWARDED = ["SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH"]


@pytest.mark.parametrize("name", ["SIGINT", "SIGQUIT"])
@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_typed_signal_is_not_lost_if_the_end_of_the_input_comes_first(lab, name, is_ignored):
    """The ^C of a pipeline also kills the process that writes to this one, and so ends its
    input."""
    trap = f"trap '' {name[3:]}; " if is_ignored else ""
    with job_of(lab, AWAY, "sh", "-c", f"{trap}exec cat") as job:
        job.stdin.write("ready\n")
        job.stdin.flush()
        assert job.stdout.readline() == "ready\n"
        has_given = f"/proc/{job.pid}/fd/1"  # from then on only the command has its pipes
        lab.wait_until(lambda: os.readlink(has_given) == "/dev/null", "it is the command's")
        job.send_signal(signal.SIGSTOP)  # as if lbrun were slow
        os.waitid(os.P_PID, job.pid, os.WSTOPPED | os.WNOWAIT)
        job.send_signal(getattr(signal, name))
        job.stdin.close()
        assert job.stdout.read() == ""
        job.send_signal(signal.SIGCONT)
        assert job.wait() == (0 if is_ignored else -getattr(signal, name))


@also_timed
@pytest.mark.parametrize("name", FORWARDED)
def test_a_trapped_signal_reaches_the_command_once(lab, where, name):
    with reporting(lab, where, *FORWARDED) as job:
        assert job.stdout.readline() == "ready\n"
        job.send_signal(getattr(signal, name))
        assert job.stdout.readline() == f"{name}\n"
        job.stdin.close()
        assert job.stdout.read() == ""
        assert job.wait(30) == 0


# What lbrun forwards; and, where the command has replaced it, what it does not.
ENDINGS = [
    pytest.param(where, name, id=f"{name}-{place}")
    for place, where in {**WHERE, "stay-timed": TIMED}.items()
    for name in [*FORWARDED[:-1], *(("SIGALRM", "SIGPIPE") if place == "stay" else ())]
]


@pytest.mark.parametrize(("where", "name"), ENDINGS)
def test_an_untrapped_signal_ends_the_command(lab, where, name):
    """The status is 128 + N, even where lbrun does not forward the signal but dies of it too."""
    number = getattr(signal, name)
    with job_of(lab, where, "sh", "-c", "echo $$; exec sleep 600") as job:
        pid = int(job.stdout.readline())
        job.send_signal(number)
        assert shell_status(job.wait(30)) == 128 + number
        assert_gone([pid])


@also_timed
def test_no_signal_is_lost(lab, where):
    """Each of many signals must be answered before the next is sent, whenever it comes."""
    with reporting(lab, where, "SIGUSR1") as job:
        assert job.stdout.readline() == "ready\n"
        for number in range(1000):
            job.send_signal(signal.SIGUSR1)
            assert (number, job.stdout.readline()) == (number, "SIGUSR1\n")


@also_timed
def test_stop_and_continue(lab, where):
    """TSTP stops the command (and lbrun, for its shell to see); CONT lets both go on."""
    script = "echo $$; while read line; do echo $line; done"
    with job_of(lab, where, "sh", "-c", script) as job:
        pid = int(job.stdout.readline())
        job.send_signal(signal.SIGTSTP)
        lab.wait_until(lambda: psutil.Process(pid).status() == "stopped", "the command stops")
        lab.wait_until(lambda: psutil.Process(job.pid).status() == "stopped", "lbrun stops")
        job.send_signal(signal.SIGCONT)
        lab.wait_until(lambda: psutil.Process(pid).status() != "stopped", "the command goes on")
        job.stdin.write("goes on\n")
        job.stdin.close()
        assert job.stdout.read() == "goes on\n"
        assert job.wait(30) == 0


VFORK = r"""
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    printf("%d\n", getpid());
    fflush(stdout);
    pid_t child = vfork();
    if (child == 0) {
        usleep(700000); /* the parent can neither stop nor go on before the child's exec */
        execlp("sleep", "sleep", "3", (char *)0);
    }
    waitpid(child, 0, 0);
    puts("over");
}
"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is needed")
def test_a_stop_while_a_child_is_about_to_exec(lab, tmp_path):
    """Each command that a shell or make starts is in that state for a moment. The child stops,
    too."""
    program = tmp_path / "vfork"
    subprocess.run(["gcc", "-w", "-x", "c", "-", "-o", program], input=VFORK, text=True, check=True)
    with job_of(lab, AWAY, program) as job:
        leader = psutil.Process(int(job.stdout.readline()))
        lab.wait_until(leader.children, "it has a child")
        job.send_signal(signal.SIGTSTP)
        lab.wait_until(lambda: psutil.Process(job.pid).status() == "stopped", "lbrun stops")
        states = lambda: {p.status() for p in (leader, *leader.children())}  # noqa: E731
        lab.wait_until(lambda: states() == {"stopped"}, "all of it stops", see=states)
        job.send_signal(signal.SIGCONT)
        assert job.stdout.read() == "over\n"
        assert job.wait(30) == 0


FOR_GOOD = "trap '' INT; echo $$; while :; do sleep 0.1; done"


@pytest.mark.parametrize("where", [AWAY, ("--remote",)], ids=["away", "remote"])
@pytest.mark.parametrize("attempt", range(12))
def test_interrupt_twice_ends_by_force(lab, where, attempt):
    with reporting(lab, where, "SIGINT") as job:
        assert job.stdout.readline() == "ready\n"
        job.send_signal(signal.SIGINT)
        assert job.stdout.readline() == "SIGINT\n"
        job.send_signal(signal.SIGINT)
        assert shell_status(job.wait(30)) == 137


def test_interrupt_twice_ends_every_process(lab):
    script = f"({FOR_GOOD}) & ({FOR_GOOD}) & trap 'echo int' INT; echo $$; while :; do wait; done"
    with job_of(lab, AWAY, "sh", "-c", script) as job:
        pids = [int(job.stdout.readline()) for _ in range(3)]
        job.send_signal(signal.SIGINT)
        assert job.stdout.readline() == "int\n"
        job.send_signal(signal.SIGINT)
        assert shell_status(job.wait(30)) == 137
        assert_gone(pids)


@pytest.mark.parametrize("name", ["SIGINT", "SIGUSR1"])
def test_a_signal_right_after_the_start_is_not_lost(lab, name):
    """The command has said that it is ready; every later signal must reach it."""
    for attempt in range(60):
        with reporting(lab, AWAY, name) as job:
            assert job.stdout.readline() == "ready\n"
            job.send_signal(getattr(signal, name))
            assert (attempt, job.stdout.readline()) == (attempt, f"{name}\n")
            job.stdin.close()
            assert (attempt, job.wait(30)) == (attempt, 0)


def test_terminate_twice_stays_terminate(lab):
    with reporting(lab, AWAY, "SIGTERM") as job:
        assert job.stdout.readline() == "ready\n"
        for _ in range(5):
            job.send_signal(signal.SIGTERM)
            assert job.stdout.readline() == "SIGTERM\n"
        job.stdin.close()
        assert job.wait(30) == 0


@also_timed
def test_an_interrupt_from_the_keyboard_reaches_a_pipeline(lab, where):
    """The interrupt goes to the whole group, as from a terminal; the command's last output is
    seen."""
    script = "trap 'echo bye; exit 5' INT; echo ready; while :; do sleep 0.1; done"
    with job_of(lab, where, "sh", "-c", script) as job:
        assert job.stdout.readline() == "ready\n"
        os.killpg(job.pid, signal.SIGINT)
        assert job.stdout.read().endswith("bye\n")
        assert job.wait(30) == 5


# A part dies


TREE = """
echo $$ >>"$1"
sh -c 'echo $$ >>"$1"; exec sleep 600' sh "$1" &
setsid sh -c 'echo $$ >>"$1"; exec sleep 600' sh "$1" &
(setsid sh -c 'trap "" HUP TERM INT; echo $$ >>"$1"; while :; do sleep 600; done' sh "$1" &)
(sh -c 'trap "" HUP TERM INT; echo $$ >>"$1"; exec sleep 600' sh "$1" >/dev/null 2>&1 <&- &)
read line
exit 7
"""


@pytest.fixture
def tree(lab, tmp_path):
    """Starts a command with descendants of every kind; gives lbrun and the pids of the tree."""

    @contextlib.contextmanager
    def start(where, *options):
        with job_of(lab, where, *options, "sh", "-c", TREE, "sh", str(tmp_path / "pids")) as job:
            pids = lab.wait_until(lambda: numbers_in(tmp_path / "pids", 5), "the tree stands")
            yield job, pids

    return start


def test_lbrun_killed_ends_the_whole_tree(tree):
    with tree(AWAY) as (job, pids):
        job.kill()
        job.wait(30)
        assert_gone(pids)


def test_the_tree_ends_with_its_root(tree):
    with tree(AWAY) as (job, pids):
        job.stdin.write("\n")
        job.stdin.flush()
        assert job.wait(30) == 7
        assert_gone(pids)


def test_a_time_limit_ends_the_whole_tree(tree):
    with tree(AWAY, "--timeout", "2") as (job, pids):
        assert job.wait(30) == 124
        assert_gone(pids)


def test_terminate_ends_the_whole_tree(tree):
    with tree(AWAY) as (job, pids):
        job.terminate()
        assert shell_status(job.wait(30)) == 143
        assert_gone(pids)


def test_a_time_limit_ends_the_tree_of_a_command_here(tree, lab):
    with tree(("--local",), "--timeout", "2") as (job, pids):
        assert job.wait(30) == 124
        try:
            assert_gone(pids)
        finally:
            for pid in filter(alive, pids):
                os.kill(pid, signal.SIGKILL)


def test_killing_an_lbrun_with_a_time_limit_ends_its_command_here(lab):
    """`lbrun` itself dies: an attached job ends, even where lbrun is only its parent."""
    words = ("--local", "--timeout", "600", "sh", "-c", "echo $$; exec sleep 600")
    with job_of(lab, words) as job:
        pid = int(job.stdout.readline())
        job.kill()
        job.wait(30)
        try:
            assert_gone([pid])
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_time_limit_ends_a_command_that_ignores_terminate(lab):
    """The limit ends it by force after the grace period."""
    with job_of(lab, AWAY, "--timeout", "1", "sh", "-c", f"trap '' TERM; {FOR_GOOD}") as job:
        pid = int(job.stdout.readline())
        assert job.wait(30) == 124
        assert_gone([pid])


def test_a_stopped_job_can_still_be_killed(lab):
    with job_of(lab, AWAY, "sh", "-c", "echo $$; kill -STOP $$; echo no") as job:
        pid = int(job.stdout.readline())
        lab.wait_until(lambda: psutil.Process(pid).status() == "stopped", "it stops itself")
        job.kill()
        job.wait(30)
        assert_gone([pid])


@pytest.mark.parametrize(("host", "said"), [("h2", ("lbrun", "h2")), ("h1", ())])
def test_a_daemon_dies(make_lab, host, said):
    """One line, status 125, and nothing of the job goes on."""
    lab = make_lab(2)
    with job_of(lab, AWAY, "sh", "-c", "echo $$; sleep 600", stderr=subprocess.PIPE) as job:
        pid = int(job.stdout.readline())
        lab.kill(host, "lbm")
        assert job.wait(30) == 125
        assert_one_line(job.stderr.read(), *said)
        assert_gone([pid])


def test_a_command_that_runs_here_does_not_need_the_daemon(make_lab):
    """The command is the caller's own child: a daemon that dies takes nothing with it."""
    lab = make_lab(2)
    with job_of(lab, (), "sh", "-c", "echo $$; read line; exit 6") as job:
        job.stdout.readline()
        lab.kill("h1", "lbm")
        lab.kill("h1", "lim")
        job.stdin.close()
        assert job.wait(30) == 6
