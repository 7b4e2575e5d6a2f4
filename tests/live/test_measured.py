"""A command that stays and is measured: only the LBM can tell that anything stands beside it."""

import os
import pty
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cluster import FAST, Lab, wait_until
from contract import assert_gone, assert_one_line, shell_status
from shim_host import SHORT_S, SURE_RUNS, THRESHOLD_S, Host

from lbd.local import client_tags as tags
from lbd.local import frames

ENDINGS = {"status": ("7", 7), "TERM": ("-15", 143), "KILL": ("-9", 137), "ok": ("0", 0)}


@pytest.mark.parametrize("measured", [True, False], ids=["measured", "known"])
@pytest.mark.parametrize(("end", "status"), ENDINGS.values(), ids=ENDINGS)
def test_a_measured_command_ends_as_it_would_alone(quiet, end, status, measured):
    name = f"ends{end.strip('-')}{'m' if measured else 'k'}"
    quiet.program(name)
    for _ in range(0 if measured else SURE_RUNS):
        quiet.shim(name, SHORT_S)
    known = {row["key"]: row for row in quiet.eligible()["commands"]}.get(name)
    assert (known is None) == measured
    result = quiet.shim(name, SHORT_S, end)
    assert (shell_status(result.returncode), result.stderr) == (status, "")
    assert (result.returncode < 0) == (status > 128)
    assert result.stdout == "h1\n"


@pytest.fixture(scope="module", params=["compiled", "python"])
def quiet(request, tmp_path_factory):
    lab = Lab.up(2, settings=(*FAST, f"lim.job_threshold_s={THRESHOLD_S}"))
    yield Host(lab, tmp_path_factory.mktemp("programs"), request.param)
    lab.down()


def test_without_an_lbm_a_shim_is_silent(quiet):
    quiet.program("alone")
    env = quiet.environment() | {"LBD_CONFIG": "/nonexistent.toml"}
    result = quiet.lab.run("h1", "alone", "0", "3", env=env)
    assert (result.returncode, result.stdout, result.stderr) == (3, "None\n", "")


def test_a_command_that_has_moved_moves_no_further(quiet):
    quiet.program("nested")
    result = quiet.lab.run("h1", "nested", "0", env=quiet.environment() | {"LBD_DEPTH": "1"})
    assert (result.stdout, result.stderr) == ("None\n", "")
    assert "nested" not in quiet.learnt()


def test_a_shim_without_a_program_reports_it_and_ends_with_127(quiet):
    quiet.link("no-such-thing")
    result = quiet.lab.run("h1", "no-such-thing", env=quiet.environment())
    assert result.returncode == 127
    assert_one_line(result.stderr, "lbsh", "no-such-thing: not found")


def test_a_descriptor_that_a_measured_command_closes_is_closed(quiet):
    """Its reader sees the end while the command goes on."""
    script = quiet.programs / "closes.py"
    script.write_text("import os, sys\nos.write(1, b'x')\nos.close(1)\nsys.stdin.read()\n")
    path = quiet.programs / "closes"
    path.write_text(f"#!/bin/sh\nexec {sys.executable} -IS {script}\n")
    path.chmod(0o755)
    quiet.link("closes")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with quiet.lab.popen("h1", "closes", env=quiet.environment(), **pipes) as job:
        watch = threading.Timer(20, job.kill)
        watch.start()
        assert job.stdout.read() == b"x"
        assert job.poll() is None
        job.stdin.close()
        assert job.wait(timeout=90) == 0
        watch.cancel()


HEARS = """
import os, signal, sys
numbers = [int(word) for word in sys.argv[1:]]
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
os.write(1, b"%d\\n" % os.getpid())
heard = signal.sigwait(numbers)
print("heard", int(heard))
sys.exit(9)
"""


@pytest.fixture
def hearing(quiet):
    """hearing(name, signals…): a measured command that waits for one of them; its pid."""
    jobs = []
    (quiet.programs / "hears.py").write_text(HEARS)

    def start(name, *numbers):
        path = quiet.programs / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {quiet.programs}/hears.py "$@"\n')
        path.chmod(0o755)
        quiet.link(name)
        words = (name, *(str(int(number)) for number in numbers))
        job = quiet.lab.popen(
            "h1", *words, env=quiet.environment(), stdout=subprocess.PIPE, process_group=0
        )
        watch = threading.Timer(30, job.kill)
        watch.start()
        jobs.append((job, watch))
        pid = int(job.stdout.readline())
        assert pid != job.pid  # it is measured
        return job, pid

    yield start
    for job, watch in jobs:
        watch.cancel()
        job.kill()
        job.wait()
        job.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_for_a_measured_command_reaches_it(hearing, number):
    job, _ = hearing(f"hears{number}", number)
    job.send_signal(number)
    assert job.stdout.read() == f"heard {number.value}\n".encode()
    assert job.wait(timeout=90) == 9


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["one", "group"])
def test_a_measured_command_is_stopped_and_continued(hearing, send):
    job, pid = hearing(f"stops{send.__name__}", signal.SIGUSR2)
    for _ in range(3):
        send(job.pid, signal.SIGTSTP)
        wait_until(lambda: state(job.pid) == state(pid) == "T", "both are stopped")
        send(job.pid, signal.SIGCONT)
        wait_until(lambda: state(job.pid) == state(pid) == "S", "both go on")
    job.send_signal(signal.SIGUSR2)
    assert job.wait(timeout=90) == 9


COUNTS = """
import os, signal, sys, time
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
os.write(1, b"%d ready\\n" % os.getpid())
while not heard:
    time.sleep(0.05)
time.sleep(0.5)
print("interrupts:", len(heard), flush=True)
"""


def test_an_interrupt_typed_at_the_terminal_reaches_it_once(quiet):
    """The terminal sends it to both processes: the shim passes nothing on."""
    (quiet.programs / "counts.py").write_text(COUNTS)
    path = quiet.programs / "counts"
    path.write_text(f"#!/bin/sh\nexec {sys.executable} -IS {quiet.programs}/counts.py\n")
    path.chmod(0o755)
    quiet.link("counts")
    environment = quiet.lab.environment("h1", **quiet.environment())
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(quiet.shims / "counts", ["counts"], environment)
    watch = threading.Timer(30, os.kill, (pid, signal.SIGKILL))
    watch.start()
    try:
        shown = b""
        while b"ready" not in shown:
            shown += os.read(terminal, 1000)
        assert int(shown.split()[0]) != pid  # it is measured
        os.write(terminal, b"\x03")
        while b"interrupts" not in shown:
            shown += os.read(terminal, 1000)
        assert b"interrupts: 1" in shown
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        watch.cancel()
        os.close(terminal)


def test_a_measured_command_killed_with_its_shim_is_gone(hearing):
    job, pid = hearing("killed", signal.SIGUSR2)
    job.kill()
    assert_gone([pid])


def test_a_measured_command_outlives_its_lbm(hearing, quiet):
    job, _ = hearing("outlives", signal.SIGUSR2)
    quiet.lab.kill("h1", "lbm")
    quiet.lab.wait_until(lambda: quiet.lab.pids()["h1"]["lbm"] is None, "the LBM is dead")
    quiet.lab.start("h1", "lbm")
    job.send_signal(signal.SIGUSR2)
    assert job.wait(timeout=90) == 9
    quiet.lab.wait_until(lambda: quiet.learnt() is not None, "the new one answers")


NONSENSE = {
    "no number": b"", "no status": frames.field(tags.CPU, b"1"),
    "not a number": frames.field(tags.CPU, b"nan") + frames.field(tags.STATUS, b"0"),
    "less than nothing": frames.field(tags.CPU, b"-5") + frames.field(tags.STATUS, b"0"),
    "no such status": frames.field(tags.CPU, b"5") + frames.field(tags.STATUS, b"999"),
    "garbage": b"u\xff\xff\xff\xff",
}  # fmt: skip


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE)
def test_a_senseless_report_of_a_run_teaches_nothing(quiet, body):
    name = f"nonsense{abs(hash(body))}".encode()
    request = frames.field(tags.ARGUMENT, name) + frames.field(tags.FLAGS, tags.FLAG_SHELL)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(20)
        sock.connect(str(quiet.lab.paths("h1").socket("lbm")))
        sock.sendall(frames.pack(tags.RUN, request))
        ((tag, answer),) = frames.Splitter(1 << 16).feed(sock.recv(4096))
        assert tag == tags.HERE
        assert dict(frames.fields(answer))[tags.MEASURE] == b"1"
        sock.sendall(frames.pack(tags.USED, body))
    assert name.decode() not in quiet.learnt()
    assert quiet.eligible(name.decode())["reason"] in ("new", "trial")
