"""The owner comes back to the terminal: what becomes of other hosts' commands."""

import os
import re
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

OWNER = "games"  # an existing account that plays this part
COUNT = "while :; do i=$((i+1)); echo $i >{file}.new; mv {file}.new {file}; sleep 0.1; done"


@pytest.fixture(scope="module")
def three():
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a terminal to somebody")
    lab = Lab.up(3, "none", "--mode", "fcfs", settings=(*FAST, "lim.local_threshold=0"))
    yield lab
    lab.down()


class Terminal:
    """The terminal at which the owner sits; a process reads it, as a shell would."""

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
        """Makes the terminal look long unused."""
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


def on_h2(lab, file, *options, **streams):
    """A command that counts, on h2, which it reached without naming the host."""
    command = ("sh", "-c", COUNT.format(file=file))
    process = lab.popen("h1", "lbrun", *options, "--remote", "-x", "h3", *command,
                        stdin=subprocess.DEVNULL, **streams)  # fmt: skip
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


def test_suspended_until_the_owner_leaves(three, terminal, rules, tmp_path):
    rules("suspend")
    said = tmp_path / "said"
    with said.open("wb") as verbose:
        process = on_h2(three, tmp_path / "count", "-v", stderr=verbose)
    terminal.type()
    three.wait_until(lambda: not is_counting(tmp_path / "count"), "it stands still")
    assert process.poll() is None
    why = "lbrun: h2: suspended: h2's owner came back at "
    three.wait_until(lambda: why in said.read_text(), "its user reads why")

    def shown():
        (job,) = three.lbctl_json("h1", "jobs")
        return job["state"], (job["reason"] or "").partition(" at ")[0]

    three.wait_until(lambda: shown() == ("suspended", "h2's owner came back"), "and says why")
    three.wait_until(lambda: refuses(three), "nothing new begins")
    terminal.leave()
    three.wait_until(lambda: is_counting(tmp_path / "count"), "it goes on")
    three.wait_until(lambda: shown() == ("running", ""), "and says so")
    three.wait_until(lambda: said.read_text().endswith("lbrun: h2: goes on\n"), "also to its user")


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


def test_an_evicted_command_without_another_host_waits_for_one(three, terminal, rules, tmp_path):
    """Its lbrun says so, once; here the owner leaves again."""
    rules("evict", evict_grace_s=0.5)
    script = ("sh", "-c", ONCE.format(here=tmp_path))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = three.popen("h1", "lbrun", "--remote", "-x", "h3", *script,
                          stdin=subprocess.DEVNULL, **pipes)  # fmt: skip
    three.wait_until(lambda: Path(tmp_path, "h2").exists(), "it runs on h2")
    terminal.type()
    line = process.stderr.readline()
    ended = "so the command was ended there; it waits to begin again on another host, or there once"
    assert line.startswith(f"lbrun: the owner of h2 is back, {ended}")
    (job,) = three.lbctl_json("h1", "jobs")
    assert (job["state"], job["reason"]) == ("pending", "the owner of h2 is back")
    time.sleep(2.5)  # it has asked again by now
    assert process.poll() is None
    terminal.leave()
    assert process.communicate(timeout=90) == ("h2\n", "")
    assert process.returncode == 0


def test_a_command_that_waits_for_a_host_can_be_interrupted(three, terminal, rules, tmp_path):
    rules("evict", evict_grace_s=0.5)
    process = three.popen("h1", "lbrun", "--remote", "-x", "h3", "sleep", "60",
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # fmt: skip
    three.wait_until(lambda: three.lbctl_json("h2", "jobs"), "it runs on h2")
    terminal.type()
    assert "so the command was ended there; it waits to begin again" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) in (130, -signal.SIGINT)
    process.stderr.close()
    three.wait_until(lambda: not three.lbctl_json("h1", "jobs"), "nothing is left of it")


def test_a_command_that_has_printed_is_suspended_not_restarted(three, terminal, rules, tmp_path):
    rules("evict", evict_grace_s=0.5)
    script = "echo begun;" + COUNT.format(file=tmp_path / "count")
    process = three.popen("h1", "lbrun", "--remote", "-x", "h3", "sh", "-c", script,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)  # fmt: skip
    three.wait_until(lambda: value_of(tmp_path / "count") > 2, "it runs")
    terminal.type()
    three.wait_until(lambda: not is_counting(tmp_path / "count"), "it stands still")
    time.sleep(2.5)  # it would have moved by now
    assert process.poll() is None
    terminal.leave()
    three.wait_until(lambda: is_counting(tmp_path / "count"), "it goes on")


def test_a_queued_job_waits_says_why_and_is_moved(three, terminal, rules, tmp_path):
    """Every host shows whose owner is back. The job's dispatcher is killed meanwhile."""
    rules("decide", decide_by="timer", decide_after_s=10.0)
    three.lab("kill", "h3", "lbm")
    script = ("sh", "-c", "echo in vain; " + ONCE.format(here=tmp_path))
    job = three.run("h1", "lbrun", "-d", "-x", "h1", *script, check=True).stdout.strip()
    three.wait_until(lambda: Path(tmp_path, "h2").exists(), "it runs on h2")
    three.start("h3", "lbm")
    terminal.type()

    def now():
        return three.lbctl_json("h1", "job", job)

    said = r"h2's owner came back at \d\d:\d\d; .*; moving would lose "
    three.wait_until(
        lambda: (job := now())["state"] == "suspended" and re.match(said, job["reason"]),
        "it stands still, and says why",
    )
    three.wait_until(lambda: owner_of_h2(three) == ("here", "here"), "everybody knows")
    three.kill("h1", "dispatcher")
    three.start("h1", "dispatcher")
    three.wait_until(lambda: now()["state"] == "done", "it has ended elsewhere")
    first, second = now()["attempts"]
    assert (first["host"], first["state"]) == ("h2", "evicted")
    assert first["reason"].endswith("; moving")
    assert (second["host"], second["state"]) == ("h3", "done")
    assert three.run("h1", "lbctl", "logs", job).stdout == "in vain\nh3\n"
    terminal.leave()
    three.wait_until(lambda: owner_of_h2(three) == ("away", "away"), "they are gone")
    shown = three.run("h1", "lbctl", "owners", "--hours", check=True).stdout
    assert re.search(r"^h2 +away .* decide by timer$", shown, re.MULTILINE)
    assert three.lbctl_json("h1", "advise")["owners"] == []  # too few to tell


def test_room_where_it_was_typed_is_none_for_a_plain_command(three, terminal, rules, tmp_path):
    """It can only go on here, so it is not ended."""
    rules("decide", decide_by="timer", decide_after_s=0.1)
    process = on_h2(three, tmp_path / "count")
    terminal.type()

    def reason():
        (job,) = three.lbctl_json("h1", "jobs")
        return job["reason"] or ""

    waits = "; no other host has had room for it for long enough: waiting"
    three.wait_until(lambda: reason().endswith(waits), "it waits")
    time.sleep(6.5)  # room has lasted by now
    assert reason().endswith(waits)
    terminal.leave()
    three.wait_until(lambda: is_counting(tmp_path / "count"), "it goes on")
    assert process.poll() is None


def test_a_gang_starts_again_elsewhere_as_a_whole(three, terminal, rules, tmp_path):
    rules("decide", decide_by="timer", decide_after_s=1.0)
    three.lab("kill", "h3", "lbm")
    script = (
        f"echo $LBD_ATTEMPT $LBD_HOST >>{tmp_path}/$LBD_ARRAY_INDEX; [ $LBD_HOST = h3 ] || sleep 60"
    )
    words = ("-x", "h1", "--array", "1-2", "--gang", "sh", "-c", script)
    gang = three.run("h1", "lbrun", "-d", *words, check=True).stdout.strip()
    three.wait_until(lambda: len(list(tmp_path.iterdir())) == 2, "both run on h2")
    three.start("h3", "lbm")
    terminal.type()
    wait = ("lbctl", "wait", "--timeout", "30s", gang)
    assert three.run("h1", *wait, timeout=50).returncode == 0
    assert {(tmp_path / index).read_text() for index in "12"} == {"1 h2\n2 h3\n"}
    first, second = three.lbctl_json("h1", "job", f"{gang}_1")["attempts"]
    assert (first["state"], second["state"]) == ("evicted", "done")
    assert first["reason"].endswith("; the whole gang starts again")


def owner_of_h2(lab):
    """h2's owner as `lbctl owners` and `lbctl status` of h1 show it."""
    hosts = {row["host"]: row for row in lab.lbctl_json("h1", "owners")}
    assert hosts.keys() == {"h1", "h2", "h3"}
    assert hosts["h1"]["owner"] is None
    assert len(hosts["h2"]["by_hour"]) == 168
    shown = {row["name"]: row["owner"] for row in lab.lbctl_json("h1", "status")["hosts"]}
    return hosts["h2"]["owner"], shown["h2"]
