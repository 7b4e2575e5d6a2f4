"""What happens after one LBM has left and before the next has started, with commands that wait or
are held.

A scenario is a generator: it starts a command, something happens in the gap, then it checks.
"""

import contextlib
import json
import signal
import threading
from functools import partial

import psutil
import pytest
from terminal import INTERRUPT, STOP, Terminal

from tests.live.cluster import Lab
from tests.live.contract import alive, shell_status
from tests.live.restarting import SETTINGS, Stream, leave, restart

MIB = 1 << 20
MODES = "stty -a | grep -o '[-]*icanon'"
each = pytest.mark.parametrize(
    "hosts", [("h2",), ("h1",), ("h1", "h2")], ids=["far", "near", "both"]
)


LAB = partial(Lab.up, 2, "none", "--mode", "fcfs", settings=(*SETTINGS, "dispatch.lease_s=20"))


@pytest.fixture(autouse=True)
def nothing_left(lab):
    with contextlib.ExitStack() as processes:
        lab.at_the_end = processes
        yield
    for host in lab.hosts:
        if not alive(int((lab.paths(host).run / "lbm.pid").read_text())):
            lab.start(host, "lbm")
    lab.wait_until(lambda: not lab.jobs_alive(), "nothing is left", 15, lab.jobs_alive)
    for host in lab.hosts:
        idle = lambda host=host: not lab.ask(host, "lbm", "status")["slots"]["used"]  # noqa: E731
        lab.wait_until(idle, f"no slot of {host} is left", 15)


def begun(lab, script, **options):
    """An lbrun to h2 whose command has started; the test's end kills it in any case."""
    # It has a group of its own, whose parent is in another group of the session: an orphaned group
    # never stops.
    options = {"stdout": -1, "stderr": -1, "bufsize": 0, "process_group": 0, **options}
    process = lab.popen("h1", "lbrun", "-H", "h2", "sh", "-c", f"echo begun; {script}", **options)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            lab.at_the_end.enter_context(contextlib.suppress(BrokenPipeError))
            lab.at_the_end.callback(pipe.close)
    lab.at_the_end.callback(process.wait)
    lab.at_the_end.callback(process.send_signal, signal.SIGCONT)
    lab.at_the_end.callback(process.kill)
    assert process.stdout.read(6) == b"begun\n"
    return process


def an_end(lab, directory):
    """The last output and the exit status arrive as soon as an LBM is there to report to."""
    go, gone = directory / "go", directory / "gone"
    process = begun(
        lab, f"while [ ! -e {go} ]; do sleep 0.02; done; echo last; touch {gone}; exit 7"
    )
    yield
    go.touch()
    lab.wait_until(gone.exists, "it has ended")
    yield
    assert (process.communicate(timeout=120), process.returncode) == ((b"last\n", b""), 7)


def a_signal(lab, _directory):
    process = begun(lab, "exec sleep 1000")
    yield
    process.send_signal(signal.SIGTERM)
    yield
    assert process.communicate(timeout=120) == (b"", b"")
    assert shell_status(process.returncode) == 128 + signal.SIGTERM


def a_stop(lab, directory):
    go = directory / "go"
    process = begun(lab, "exec sleep 0.1")
    second = begun(lab, f"while [ ! -e {go} ]; do sleep 0.02; done; echo on")
    second.send_signal(signal.SIGTSTP)
    stopped = lambda: psutil.Process(second.pid).status() == psutil.STATUS_STOPPED  # noqa: E731
    lab.wait_until(stopped, "lbrun has stopped with its command")
    go.touch()
    yield
    yield
    assert process.wait(30) == 0
    assert stopped()
    second.send_signal(signal.SIGCONT)
    assert (second.communicate(timeout=120), second.returncode) == ((b"on\n", b""), 0)


def a_client_that_goes_away(lab, directory):
    tree = directory / "tree"
    process = begun(lab, f"sleep 1000 & echo $! >{tree}; sleep 1000")
    yield
    process.kill()
    yield
    lab.wait_until(lambda: not alive(int(tree.read_text())), "its whole tree is ended", 15)


def a_reader_that_goes_away(lab, _directory):
    """The writer gets SIGPIPE, as late as that."""
    process = begun(lab, "sleep 0.5; while echo more; do sleep 0.05; done 2>/dev/null; exit 9")
    yield
    process.stdout.close()
    yield
    assert shell_status(process.wait(30)) in (9, 128 + signal.SIGPIPE)


def half_open_input(lab, _directory):
    """The input ended before, or ends in the gap; the output is still to come."""
    before, during = (begun(lab, "cat; sleep 1; echo after", stdin=-1) for _ in range(2))
    for process in (before, during):
        process.stdin.write(b"words\n")
    before.stdin.close()
    yield
    during.stdin.close()
    yield
    for process in (before, during):
        assert process.stdout.read(1000) + process.stdout.read(1000) == b"words\nafter\n"
        assert (process.wait(30), process.stderr.read()) == (0, b"")


def back_pressure(lab, _directory):
    """Every window and every pipe is full: nobody reads, and more waits to be written."""
    process = begun(lab, "head -c 20000000 /dev/zero | tee /dev/stderr")
    yield
    yield
    output, errors = process.communicate(timeout=60)
    assert (len(output), len(errors), process.returncode) == (20_000_000, 20_000_000, 0)
    assert not output.strip(b"\0") + errors.strip(b"\0")


def files_that_go_along(lab, directory):
    """The workdir stays until the files have come back."""
    (directory / "in").write_text("words\n")
    words = ("lbrun", "--send", "in", "--fetch", "out", "-H", "h2")
    script = f"until [ -e {directory}/go ]; do sleep 0.05; done; tr a-z A-Z <in >out; echo done"
    process = lab.popen("h1", *words, "sh", "-c", script, cwd=directory, stdout=-1, stderr=-1)
    runs = lambda: any("tr a-z" in job["command"][-1] for job in lab.lbctl_json("h1", "jobs"))  # noqa: E731
    lab.wait_until(runs, "it runs")
    yield
    yield
    (directory / "go").touch()
    assert (process.communicate(timeout=120), process.returncode) == ((b"done\n", b""), 0)
    assert (directory / "out").read_text() == "WORDS\n"


SCENARIOS = (
    files_that_go_along, back_pressure, an_end, a_signal, a_stop, a_client_that_goes_away,
    a_reader_that_goes_away,
    half_open_input,
)  # fmt: skip


@each
def test_events_in_the_gap_take_effect_after_it(lab, hosts, tmp_path):
    running = []
    for scenario in SCENARIOS:
        directory = tmp_path / scenario.__name__
        directory.mkdir()
        running.append(scenario(lab, directory))
        next(running[-1])
    for host in hosts:
        leave(lab, host)
    for scenario in running:
        next(scenario)
    for host in hosts:
        lab.start(host, "lbm")
    for scenario in running:
        next(scenario, None)


def test_commands_that_wait_for_a_slot_still_wait(lab):
    slots = lab.ask("h2", "lbm", "status")["slots"]["total"]
    holders = [begun(lab, "exec sleep 1000") for _ in range(slots)]
    waiting = [
        lab.popen("h1", "lbrun", "-H", "h2", "echo", n, stdout=-1, stderr=-1, text=True)
        for n in "ab"
    ]
    both_wait = lambda: lab.ask("h2", "lbm", "status")["waiting"] == 2  # noqa: E731
    lab.wait_until(both_wait, "two wait")
    restart(lab, "h1", "h2")
    lab.wait_until(both_wait, "two wait again")
    for holder in holders:
        holder.kill()
    assert [process.communicate(timeout=120) for process in waiting] == [("a\n", ""), ("b\n", "")]
    assert [process.returncode for process in waiting] == [0, 0]


def test_a_client_that_comes_in_the_gap_waits(lab):
    leave(lab, "h1")
    starting = threading.Thread(target=lab.start, args=("h1", "lbm"))  # clients wait for it
    starting.start()
    come = [
        lab.popen("h1", "lbrun", *words, "echo", "through", stdout=-1, stderr=-1, text=True)
        for words in (("-H", "h2"), (), ("-H", "h1"))
    ]
    starting.join()
    assert [process.communicate(timeout=120) for process in come] == [("through\n", "")] * 3


def test_a_command_that_runs_here_is_still_known(lab):
    here = lab.popen("h1", "lbrun", "--local", "sleep", "1000")

    def mine():
        rows = [one for one in lab.lbctl_json("h1", "jobs") if "1000" in one["command"]]
        return [one | {"ran_s": None} for one in rows]

    try:
        before = lab.wait_until(mine, "it is listed")
        restart(lab, "h1")
        assert mine() == before
    finally:
        here.kill()
        here.wait()
    lab.wait_until(lambda: not mine(), "its end is seen")


def test_an_attempt_of_the_queue_goes_on(lab, tmp_path):
    """The same attempt and its output; also the end of an attempt that came in the gap."""
    script = (
        "echo begun $LBD_ATTEMPT; while [ ! -e $1.go ]; do sleep 0.02; done;"
        " echo ended $LBD_ATTEMPT; touch $1.gone"
    )
    names = [
        lab.run("h1", "lbrun", "-d", "-H", "h2", "sh", "-c", script, "sh", tmp_path / n, check=True)
        for n in ("during", "after")
    ]
    names = [submitted.stdout.strip() for submitted in names]
    for name in names:
        running = lambda name=name: lab.lbctl_json("h1", "job", name)["state"] == "running"  # noqa: E731
        lab.wait_until(running, "it runs")
    leave(lab, "h2")
    (tmp_path / "during.go").touch()
    lab.wait_until((tmp_path / "during.gone").exists, "one has ended")
    lab.start("h2", "lbm")
    (tmp_path / "after.go").touch()
    lab.run("h1", "lbctl", "wait", "--timeout", "30s", *names, timeout=40, check=True)
    for name in names:
        found = lab.lbctl_json("h1", "job", name)
        assert (found["state"], found["attempt"]) == ("done", 1)
        assert lab.run("h1", "lbctl", "logs", name).stdout == "begun 1\nended 1\n"


def test_twice_in_a_row_before_the_other_host_is_back(lab):
    stream = Stream(lab, "h1", "h2", 8 * MIB)
    lab.wait_until(lambda: stream.got_bytes, "it streams")
    leave(lab, "h2")
    restart(lab, "h1")
    restart(lab, "h1")
    lab.start("h2", "lbm")
    assert (*stream.finish(), stream.is_whole()) == (0, "", True)


def test_a_terminal_goes_on(lab):
    """The terminal's modes, size and screen stay, and what is typed in the gap arrives."""
    with Terminal.shell(lab) as shell:
        shell.line("lbrun -H h2 sh -c 'stty -icanon; echo ready; head -c 3 | od -c; stty size'")
        shell.wait_for(lambda: "ready" in shell.lines(), "the command")
        shell.send("a")
        leave(lab, "h1")
        leave(lab, "h2")
        shell.send("b")
        shell.resize(30, 120)
        for host in lab.hosts:
            lab.start(host, "lbm")
        shell.send("c")
        shell.wait_for("a   b   c")
        shell.wait_for("30 120")
        shell.wait_for(shell.at_prompt)
        assert shell.run(MODES) == "icanon"


def test_job_control_goes_on(lab):
    with Terminal.shell(lab) as shell:
        shell.line("lbrun -H h2 sh -c 'echo ready; sleep 1000'")
        shell.wait_for(lambda: "ready" in shell.lines(), "the command")
        shell.send(STOP)
        shell.wait_for("Stopped")
        restart(lab, "h1", "h2")
        shell.line("fg")
        lab.wait_until(lambda: "T" not in {job.state for job in lab.jobs_alive()}, "it goes on")
        shell.screen.reset()
        shell.send(INTERRUPT)
        shell.wait_for(shell.at_prompt)
        assert shell.run("echo $?") == "130"
        assert shell.run(MODES) == "icanon"


def test_a_stop_is_no_restart(lab):
    """Nobody waits for a next LBM."""
    running = begun(lab, "read word; echo got $word", stdin=-1)
    job = lab.run("h1", "lbrun", "-d", "-H", "h1", "sleep", "600").stdout.strip()
    lab.wait_until(lambda: state_of(lab, job)[0] == "running", "it runs")
    leave(lab, "h1", number=signal.SIGTERM)
    found = lab.run("h1", "lbrun", "echo", "here")
    assert found.stdout == "here\n"
    assert found.stderr.startswith("lbrun: no lbm is running here")
    assert running.communicate(timeout=60)[1].startswith(
        b"lbrun: lost contact with this host's LBM"
    )
    assert running.returncode == 125
    assert state_of(lab, job) == ("pending", "h1 was stopped; the job begins again")
    lab.start("h1", "lbm")
    lab.wait_until(lambda: state_of(lab, job)[0] == "running", "it runs again")
    lab.run("h1", "lbctl", "kill", job)


def state_of(lab, job):
    """Its state and why its first attempt ended."""
    found = json.loads(lab.run("h2", "lbctl", "job", job, "--json").stdout)
    return found["state"], found["attempts"][0]["reason"]
