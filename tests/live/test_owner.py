"""The owner comes back to the terminal: what becomes of other hosts' commands."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.conftest import reloading
from tests.live.test_admission import refused

pytestmark = pytest.mark.root

OWNER = "games"  # an account that is there, to play this part
COUNT = "while :; do i=$((i+1)); echo $i >{file}.new; mv {file}.new {file}; sleep 0.1; done"


@pytest.fixture(scope="module")
def three():
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a terminal to somebody")
    lab = Lab.up(3, settings=(*FAST, "lim.local_threshold=0"))
    yield lab
    lab.down()


class Terminal:
    """Where the owner sits; read by a process, as a shell would."""

    def __init__(self):
        self._master, slave = os.openpty()
        self.name = os.ttyname(slave)
        shutil.chown(self.name, OWNER)
        self._reader = subprocess.Popen(["cat"], stdin=slave, stdout=subprocess.DEVNULL)
        os.close(slave)
        long_ago = time.time() - 3600
        os.utime(self.name, (long_ago, long_ago))

    def type(self):
        os.write(self._master, b"x\n")

    def leave(self):
        """As if much time had passed."""
        long_ago = time.time() - 3600
        os.utime(self.name, (long_ago, long_ago))

    def close(self):
        self._reader.kill()
        self._reader.wait()
        os.close(self._master)


@pytest.fixture
def terminal():
    made = Terminal()
    yield made
    made.close()


@pytest.fixture
def rules(three):
    """rules(kind): what h2 does when its owner is back."""
    with reloading(three) as reload:

        def set_rules(kind, **more):
            values = {"owner_idle_s": 600.0, "owners": (OWNER,), "owner_is_back": kind, **more}
            reload("admission", **values)
            to_h2 = ("lbrun", "--remote", "-x", "h3", "true")
            three.wait_until(lambda: three.run("h1", *to_h2).returncode == 0, "h2 is open")

        yield set_rules


def value_of(file):
    return int(file.read_text()) if file.exists() else 0


def is_counting(file):
    before = value_of(file)
    time.sleep(0.5)
    return value_of(file) > before


def on_h2(lab, file):
    """A command that counts, on h2, as it chose by itself."""
    command = ("sh", "-c", COUNT.format(file=file))
    process = lab.popen("h1", "lbrun", "--remote", "-x", "h3", *command,
                        stdin=subprocess.DEVNULL)  # fmt: skip
    lab.wait_until(lambda: value_of(file) > 2, "it runs")
    return process


@pytest.fixture(autouse=True)
def no_process_left(three, monkeypatch):
    started = []
    begin = three.popen
    monkeypatch.setattr(
        three, "popen", lambda *a, **k: started.append(begin(*a, **k)) or started[-1]
    )
    yield
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def refuses(lab):
    result = lab.run("h1", "lbrun", "-H", "h2", "true")
    if result.returncode == 0:
        return False
    refused(result, "owner_idle_s")
    return True


def accepts(lab):
    return lab.run("h1", "lbrun", "-H", "h2", "true").returncode == 0


def test_kept_but_nothing_new(three, terminal, rules, tmp_path):
    rules("keep")
    on_h2(three, tmp_path / "count")
    terminal.type()
    three.wait_until(lambda: refuses(three), "the owner is seen")
    assert is_counting(tmp_path / "count")
    terminal.leave()
    three.wait_until(lambda: accepts(three), "the owner is gone")


def test_suspended_until_the_owner_is_gone(three, terminal, rules, tmp_path):
    rules("suspend")
    process = on_h2(three, tmp_path / "count")
    terminal.type()
    three.wait_until(lambda: not is_counting(tmp_path / "count"), "it stands still")
    assert process.poll() is None
    terminal.leave()
    three.wait_until(lambda: is_counting(tmp_path / "count"), "it goes on")


def test_at_the_lowest_priority(three, terminal, rules, tmp_path):
    rules("nice")
    pid = tmp_path / "pid"
    three.popen("h1", "lbrun", "-H", "h2", "sh", "-c", f"echo $$ >{pid}; sleep 60")
    three.wait_until(lambda: pid.exists() and pid.read_text(), "it runs")
    number = int(pid.read_text())

    def nice():
        return os.getpriority(os.PRIO_PROCESS, number)

    before = nice()
    terminal.type()
    three.wait_until(lambda: nice() == 19, "it is nice")
    terminal.leave()
    three.wait_until(lambda: nice() == before, "as before")


ONCE = """
test -e {here}/$LBD_HOST || {{ touch {here}/$LBD_HOST; [ $LBD_HOST = h2 ] && sleep 60; }}
echo $LBD_HOST
"""


def test_evicted_to_another_host(three, terminal, rules, tmp_path):
    """It has printed nothing, so nobody notices that it began anew."""
    rules("evict", evict_grace_s=0.5)
    three.lab("kill", "h3", "lbm")
    script = ("sh", "-c", ONCE.format(here=tmp_path))
    process = three.popen("h1", "lbrun", "--remote", *script, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True)  # fmt: skip
    three.wait_until(lambda: Path(tmp_path, "h2").exists(), "it runs on h2")
    three.start("h3", "lbm")
    terminal.type()
    output, _ = process.communicate(timeout=20)
    assert (process.returncode, output) == (0, "h3\n")


@pytest.mark.parametrize("front", ["compiled", "python"])
def test_evicted_with_no_other_host_it_waits_for_one(three, terminal, rules, tmp_path, front):
    """Its lbrun says so, once; here the owner goes again."""
    rules("evict", evict_grace_s=0.5)
    script = ("sh", "-c", ONCE.format(here=tmp_path))
    program = ("lbrun",) if front == "compiled" else ("env", "LBD_FRONT=python", "lbrun")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = three.popen("h1", *program, "--remote", "-x", "h3", *script,
                          stdin=subprocess.DEVNULL, **pipes)  # fmt: skip
    three.wait_until(lambda: Path(tmp_path, "h2").exists(), "it runs on h2")
    terminal.type()
    line = process.stderr.readline()
    assert line.startswith("lbrun: the owner of h2 is back; it waits for a host that takes it: ")
    (job,) = three.lbctl_json("h1", "jobs")
    assert (job["state"], job["reason"]) == ("pending", "the owner of h2 is back")
    time.sleep(2.5)  # it has asked again by now
    assert process.poll() is None
    terminal.leave()
    assert process.communicate(timeout=20) == ("h2\n", "")
    assert process.returncode == 0


def test_who_waits_for_a_host_may_be_interrupted(three, terminal, rules, tmp_path):
    rules("evict", evict_grace_s=0.5)
    process = three.popen("h1", "lbrun", "--remote", "-x", "h3", "sleep", "60",
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # fmt: skip
    three.wait_until(lambda: three.lbctl_json("h2", "jobs"), "it runs on h2")
    terminal.type()
    assert "it waits for a host" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) in (130, -signal.SIGINT)
    process.stderr.close()
    three.wait_until(lambda: not three.lbctl_json("h1", "jobs"), "nothing is left of it")


@pytest.mark.parametrize("more", [("--no-restart",), ()])
def test_what_must_not_begin_anew_stands_still(three, terminal, rules, tmp_path, more):
    """Its user said so, or it has printed."""
    rules("evict", evict_grace_s=0.5)
    said = "" if more else "echo begun;"
    script = said + COUNT.format(file=tmp_path / "count")
    process = three.popen("h1", "lbrun", "--remote", "-x", "h3", *more, "sh", "-c", script,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)  # fmt: skip
    three.wait_until(lambda: value_of(tmp_path / "count") > 2, "it runs")
    terminal.type()
    three.wait_until(lambda: not is_counting(tmp_path / "count"), "it stands still")
    time.sleep(2.5)  # it would have gone by now
    assert process.poll() is None
    terminal.leave()
    three.wait_until(lambda: is_counting(tmp_path / "count"), "it goes on")
