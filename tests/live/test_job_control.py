"""Job control of a real interactive shell over `lbrun`: as over any program."""

import signal
import time
from functools import partial

import psutil
import pytest
from terminal import INTERRUPT, STOP, Terminal

from tests.live.cluster import Lab

LAB = partial(Lab.up, 2)
AWAY = "lbrun -H h2"
PIPED = "lbrun -T -H h2"


@pytest.fixture
def shell(lab):
    with Terminal.shell(lab) as shell:
        yield shell


def sleeping(seconds):
    """The state of the process `sleep SECONDS`, wherever the command runs."""
    for process in psutil.process_iter(["cmdline", "status"]):
        if process.info["cmdline"] == ["sleep", seconds]:
            return process.info["status"]
    return None


def sleep_in_front(shell, lbrun, seconds):
    """The command prints first: before lbrun knows that it has started, a stop is for lbrun
    alone. And it is `sleep` before anything happens to it: it was stopped on its way there."""
    shell.line(f"{lbrun} sh -c 'echo ready; exec sleep {seconds}'")
    shell.wait_for(lambda: "ready" in shell.lines(), "the command")
    shell.wait_for(lambda: sleeping(seconds) is not None, "sleep")


@pytest.mark.parametrize("lbrun", [AWAY, PIPED], ids=["pty", "pipes"])
def test_stop_and_foreground(lab, shell, lbrun):
    sleep_in_front(shell, lbrun, "601.5")
    shell.send(STOP)
    shell.wait_for("Stopped")
    shell.wait_for(shell.at_prompt)
    assert sleeping("601.5") == psutil.STATUS_STOPPED
    assert "Stopped" in shell.run("jobs")
    shell.line("fg")
    lab.wait_until(lambda: sleeping("601.5") == psutil.STATUS_SLEEPING, "it goes on")
    shell.screen.reset()
    shell.send(INTERRUPT)
    shell.wait_for(shell.at_prompt)
    assert shell.run("echo $?") == "130"


@pytest.mark.parametrize("lbrun", [AWAY, PIPED], ids=["pty", "pipes"])
def test_stop_background_kill(lab, shell, lbrun):
    sleep_in_front(shell, lbrun, "602.5")
    shell.send(STOP)
    shell.wait_for("Stopped")
    shell.wait_for(shell.at_prompt)
    shell.run("bg")
    lab.wait_until(lambda: sleeping("602.5") == psutil.STATUS_SLEEPING, "it goes on")
    assert "Running" in shell.run("jobs")
    shell.run("kill %1")
    shell.wait_for(lambda: "Terminated" in shell.run("jobs"), "its end")
    assert sleeping("602.5") is None


@pytest.mark.parametrize("lbrun", [AWAY, PIPED], ids=["pty", "pipes"])
def test_a_background_job_that_reads_is_stopped(shell, lbrun):
    """The job gets what is typed once it is in front."""
    shell.run(f"{lbrun} sh -c 'read line; echo got=$line' &")
    shell.wait_for(lambda: "Stopped" in shell.run("jobs"), "the stop")
    shell.line("fg")
    shell.wait_for(lambda: shell.is_raw() or shell.is_cooked(), "the front")
    shell.line("this")
    shell.wait_for("got=this")
    shell.wait_for(shell.at_prompt)


@pytest.mark.parametrize("lbrun", [AWAY, PIPED], ids=["pty", "pipes"])
def test_a_background_job_that_does_not_read_is_left_alone(shell, lbrun):
    """Whatever is typed at the shell meanwhile."""
    shell.run(f"{lbrun} sh -c 'sleep 9; exit 9' &")
    for number in range(10):
        assert shell.run(f"echo mine-{number}") == f"mine-{number}"
    assert "Running" in shell.run("jobs")
    assert "Exit 9" in shell.run("wait; jobs")


def test_brought_to_the_front_while_it_runs(lab, shell):
    """No signal tells a running job that it is in front now; ^C must reach it all the same."""
    shell.run(f"{AWAY} sleep 603.5 &")
    lab.wait_until(lambda: sleeping("603.5"), "it runs")
    shell.line("fg")
    shell.wait_for(shell.is_raw, "raw mode")
    shell.screen.reset()
    shell.send(INTERRUPT)
    shell.wait_for(shell.at_prompt)
    assert shell.run("echo $?") == "130"


def test_pipelines(shell):
    assert shell.run(f"{AWAY} yes | head -n 2; echo ${{PIPESTATUS[@]}}") == "y\ny\n141 0"
    assert shell.run(f"echo abc | {AWAY} tr a-c x-z | cat") == "xyz"


def test_a_stopped_pipeline(lab, shell):
    """^Z stops all of it, whichever process has the terminal."""
    shell.line(f"sleep 604.5 | {AWAY} -t sh -c 'echo ready; sleep 605.5; echo over'")
    shell.wait_for(lambda: "ready" in shell.lines(), "the command")
    lab.wait_until(lambda: sleeping("605.5"), "it runs")
    shell.send(STOP)
    shell.wait_for("Stopped")
    shell.wait_for(shell.at_prompt)
    lab.wait_until(lambda: sleeping("605.5") == psutil.STATUS_STOPPED, "it has stopped, too")
    shell.run("kill -9 %1")
    lab.wait_until(lambda: sleeping("605.5") is None, "its end")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGQUIT])
def test_the_shell_is_told_which_signal_ended_it(shell, number):
    script = f"ulimit -c 0; kill -{number.value} \\$\\$"
    assert shell.run(f'{AWAY} sh -c "{script}"').strip() == signal.strsignal(number)
    assert shell.run("echo $?") == str(128 + number)


@pytest.mark.parametrize("lbrun", [AWAY, PIPED], ids=["pty", "pipes"])
def test_a_command_that_ignores_interrupts_ends_by_force(lab, shell, lbrun):
    shell.line(f"{lbrun} sh -c 'trap \"\" INT; exec sleep 606.5'")
    lab.wait_until(lambda: sleeping("606.5"), "it runs")
    states = lambda: [job["state"] for job in lab.ask("h1", "lbm", "jobs")["jobs"]]  # noqa: E731
    lab.wait_until(lambda: "running" in states(), "h1 has heard of that")
    shell.send(INTERRUPT)
    time.sleep(0.3)  # otherwise both would be one signal
    shell.send(INTERRUPT)
    shell.wait_for("Killed")
    shell.wait_for(shell.at_prompt)


def test_interrupts_belong_to_the_process_that_reads_keys(shell):
    """The interrupts belong to a shell's prompt, however often they come."""
    shell.line(f"{AWAY} env PS1='far''> ' bash --norc -i")
    shell.wait_for("far>")
    for number in range(2, 7):  # each has its effect: a late one drops what was typed after it
        shell.send(INTERRUPT)
        shell.wait_for(lambda n=number: shell.text().count("far>") >= n, "another prompt")
    shell.settle()  # by then it would have been ended
    shell.line("echo still-$((40+2))")
    shell.wait_for("still-42")
    shell.screen.reset()
    shell.line("exit 3")
    shell.wait_for(shell.at_prompt)
    assert shell.run("echo $?") == "3"


def test_a_shell_with_jobs_of_its_own(lab, shell):
    """^Z and ^C inside are its own affair."""
    shell.line(f"{AWAY} env PS1='far''> ' bash --norc -i")
    shell.wait_for("far>")
    shell.line("sleep 607.5")
    lab.wait_until(lambda: sleeping("607.5"), "it runs")
    shell.send(STOP)
    shell.wait_for("Stopped")
    shell.line("fg")
    lab.wait_until(lambda: sleeping("607.5") == psutil.STATUS_SLEEPING, "it goes on")
    shell.send(INTERRUPT)
    lab.wait_until(lambda: sleeping("607.5") is None, "its end")
    shell.line("echo status-$?; suspend")
    shell.wait_for("status-130")
    shell.wait_for(shell.at_prompt)
    assert shell.text().index("status-130") < shell.text().index("Stopped  ", 200)
    shell.line("fg")
    shell.wait_for("far>")
    shell.wait_for(shell.is_raw, "raw mode")
    shell.screen.reset()
    shell.line("exit")
    shell.wait_for(shell.at_prompt)


def test_a_script_is_interrupted_with_its_command(lab, shell):
    """As if the terminal had sent it to all of them: the script does not go on."""
    shell.line(f"bash -c 'for i in 1 2 3; do {AWAY} sleep 608.5; done; echo went-on'")
    lab.wait_until(lambda: sleeping("608.5"), "it runs")
    shell.wait_for(shell.is_raw, "raw mode")
    shell.screen.reset()
    shell.send(INTERRUPT)
    shell.wait_for(shell.at_prompt)
    assert "went-on" not in shell.text()
    assert sleeping("608.5") is None
