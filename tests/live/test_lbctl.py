"""lbctl against real daemons: what it shows of a cluster, and what it changes in it."""

import json
import os
import pwd
import re
import sysconfig
from pathlib import Path

import pytest

from tests.live.cluster import wait_until
from tests.live.terminal import Terminal


@pytest.fixture
def undone(lab):
    """Leaves the shared lab as it was."""
    yield
    lab.run("h1", "lbctl", "undrain", "h2")
    lab.run("h1", "lbctl", "param", "min_gain", "0.1")
    lab.run("h1", "lbctl", "param", "index", "smoothed")


changing = pytest.mark.usefixtures("undone")

HOST_KEYS = {
    "name", "address", "state", "index", "queues", "utilisation", "cores", "speed", "age_s",
    "slots", "tier", "jobs",
}  # fmt: skip


def test_status_is_the_contract(lab):
    status = lab.lbctl_json("h1", "status")
    assert status["schema"] == 1
    assert {"name", "algorithm", "centre", "dispatcher"} <= status["cluster"].keys()
    assert (status["cluster"]["algorithm"], status["cluster"]["dispatcher"]) == ("GLOBAL", None)
    assert status["cluster"]["centre"] == "h1"
    assert [host["name"] for host in status["hosts"]] == list(lab.hosts)
    for host in status["hosts"]:
        assert host.keys() >= HOST_KEYS
        assert host["state"] == "up"
        assert host["queues"].keys() == {"cpu", "io", "memory"}
        assert host["slots"].keys() >= {"total", "used"}
        assert host["jobs"].keys() >= {"local", "foreign"}
        assert host["slots"]["total"] >= 1


def test_status_for_people(lab):
    result = lab.run("h2", "lbctl", "status", check=True)
    lines = result.stdout.splitlines()
    assert re.match(r"cluster \S+   algorithm GLOBAL   coordinator h1   dispatcher none$", lines[0])
    assert [line.split()[0] for line in lines[3:6]] == ["h1", "h2", "h3"]
    assert lines[4].startswith("h2 (here)  up ")
    memory = lab.lbctl_json("h2", "status")["hosts"][0]["memory"]
    assert 0 < memory["available"] <= memory["total"]
    assert "\x1b" not in result.stdout
    assert result.stderr == ""


@changing
def test_drain_and_undrain_are_visible_everywhere(lab):
    result = lab.run("h1", "lbctl", "drain", "h2", check=True)
    assert result.stdout == "h2 is drained: it gets no new jobs\n"
    for host in lab.hosts:
        lab.wait_until(lambda host=host: lab.states(host)["h2"] == "drained", f"{host} sees it")
    refused = lab.run("h1", "lbrun", "-H", "h2", "true")
    assert refused.returncode == 125
    assert refused.stderr.count("\n") == 1
    lab.run("h3", "lbctl", "undrain", "h2", check=True)
    lab.wait_until(lambda: lab.states("h1")["h2"] == "up", "h2 is up again")
    assert lab.run("h1", "lbrun", "-H", "h2", "true").returncode == 0


@changing
def test_a_drain_shows_its_reason_and_author_everywhere(lab):
    lab.run("h1", "lbctl", "drain", "h2", "--reason", "disk sdb", check=True)
    me = pwd.getpwuid(os.geteuid()).pw_name
    said = re.compile(rf"h2: drained by {me}@h1 since [^;]*: disk sdb")
    for host in lab.hosts:
        lab.wait_until(
            lambda host=host: said.search(lab.run(host, "lbctl", "status").stdout),
            f"{host} says so",
        )
    again = lab.run("h3", "lbctl", "drain", "h2", check=True)
    assert f"h2 was already drained by {me}@h1 since" in again.stderr
    lab.run("h3", "lbctl", "undrain", "h2", check=True)
    assert "disk sdb" not in lab.run("h3", "lbctl", "status").stdout


@changing
def test_a_change_names_the_hosts_that_have_it(lab):
    changed = lab.run("h2", "lbctl", "param", "min_gain", "0.3", check=True)
    assert changed.stdout == "lim.min_gain = 0.3\n"
    assert changed.stderr == (
        "lbctl: lim.min_gain 0.1 → 0.3 on 3 of 3 hosts; "
        "on trial until --reset, or until no LIM of the cluster runs any more; --save keeps it\n"
    )
    for host in lab.hosts:  # at once: that is what it said
        assert lab.lbctl_json(host, "param", "min_gain")["value"] == 0.3


def test_top_finds_a_job_by_its_keys(lab):
    """Hosts, then jobs, then one job by a filter; "no" to the question; and the screen is
    restored."""
    with (
        lab.popen("h1", "lbrun", "-H", "h2", "sleep", "67") as job,
        Terminal(
            lab.command("h1", "lbctl", "top"), lab.environment("h1", LC_ALL="C.UTF-8")
        ) as seen,
    ):
        seen.wait_for("h3")
        seen.send("2")
        seen.wait_for("sleep 67")
        seen.send("/nothing like it\r")
        seen.wait_for("no jobs with 'nothing like it'")
        seen.send("\x1b")
        seen.wait_for("sleep 67")
        seen.send("/sleep 67\rk")
        seen.wait_for("y/n")
        seen.send("n")
        seen.wait_for("was not ended")
        assert job.poll() is None
        seen.send("q")
        assert seen.process.wait(timeout=90) == 0
        job.terminate()


@changing
def test_the_load_index_is_changed_everywhere(lab):
    lab.run("h3", "lbctl", "param", "index", "queue-1", check=True)
    for host in lab.hosts:
        lab.wait_until(
            lambda host=host: lab.run(host, "lbctl", "status").stdout.splitlines()[0].endswith(
                "load index queue-1"
            ),
            f"{host} follows",
        )  # fmt: skip


BAD = [
    (("drain", "h9"), 2, "h9"),
    (("drain", "H2"), 2, '"h2"'),
    (("algorithm", "LOWST"), 2, "LOWEST"),
    (("param", "min_gian"), 2, "min_gain"),
    (("param", "min_gain", "-1"), 2, "0 to 1000"),
    (("param", "min_gain", "x"), 2, "number"),
    (("param", "index", "queue-5"), 2, '"queue-4"'),
    (("explain", "-H", "h9", "true"), 2, "h9"),
    (("jobs", "h1-99999"), 1, "h1-99999"),
]


@pytest.mark.parametrize(("argv", "code", "part"), BAD)
def test_what_is_refused(lab, argv, code, part):
    result = lab.run("h1", "lbctl", *argv)
    assert (result.returncode, result.stdout) == (code, "")
    assert re.fullmatch(r"lbctl: .*\n", result.stderr)
    assert part in result.stderr


def test_explain_runs_nothing(lab, tmp_path):
    result = lab.run("h1", "lbctl", "explain", "touch", str(tmp_path / "x"), check=True)
    assert "h1" in result.stdout
    assert not (tmp_path / "x").exists()
    result = lab.run("h1", "lbctl", "explain", "--json", "--remote", "true", check=True)
    reply = json.loads(result.stdout)
    assert reply["verdict"] == "there"
    assert {item["name"] for item in reply["candidates"]} == set(lab.hosts)
    loads = {item["name"]: item["load"] for item in reply["candidates"]}
    others = [load for name, load in loads.items() if name != "h1"]
    assert loads[reply["host"]] == pytest.approx(min(others), abs=0.03)


@pytest.mark.parametrize("client", [("lbctl", "explain"), ("lbrun", "--explain")])
def test_explain_reports_a_program_that_is_missing(lab, tmp_path, client):
    (tmp_path / "plain").touch()
    for program, trouble in (
        ("no-such-program", "not found; the exit status would be 127"),
        ("./plain", "Permission denied; the exit status would be 126"),
    ):
        told = lab.run("h1", *client, "--local", program, cwd=tmp_path, check=True).stdout
        assert f"\n{program}: {trouble}\n" in told
    told = lab.run("h1", *client, "--local", "--json", "no-such-program", check=True).stdout
    assert json.loads(told)["trouble"] == "not found"
    told = lab.run("h1", *client, "--local", "--json", "true", check=True).stdout
    assert json.loads(told)["trouble"] is None


def test_lbrun_explains_the_same(lab):
    theirs = lab.run("h1", "lbrun", "--explain", "--json", "--remote", "true", check=True)
    ours = lab.run("h1", "lbctl", "explain", "--json", "--remote", "true", check=True)
    assert json.loads(theirs.stdout).keys() == json.loads(ours.stdout).keys()


def test_jobs_shows_what_ran(lab):
    lab.run("h1", "lbrun", "-H", "h2", "--name", "shown", "sh", "-c", "exit 3")
    jobs = lab.lbctl_json("h1", "jobs", "--all")
    job = next(job for job in jobs if job["name"] == "shown")
    assert (job["state"], job["exit_status"]) == ("failed", 3)
    assert (job["origin"], job["host"], job["command"]) == ("h1", "h2", ["sh", "-c", "exit 3"])
    assert job["schema"] == 1
    assert job["submitted"] <= job["started"] <= job["finished"]
    assert "shown" in lab.run("h3", "lbctl", "jobs", "--all", check=True).stdout


def test_bash_completes_the_names_of_hosts(lab):
    share = Path(sysconfig.get_path("data"), "share/bash-completion/completions")
    words = 'COMP_WORDS=(lbctl drain h) COMP_CWORD=2; _lbctl; echo "${COMPREPLY[@]}"'
    result = lab.run("h1", "bash", "-c", f"source {share}/lbctl; {words}", check=True)
    assert result.stdout.split() == list(lab.hosts)
    assert result.stderr == ""


def test_the_queue_is_enabled_and_disabled_for_all_hosts(lab):
    def ran(*words, host="h3"):
        done = lab.run(host, "lbrun", *words)
        return done.returncode, done.stdout

    assert "this cluster has no queue" in lab.run("h1", "lbrun", "-q", "true").stderr
    enabled = lab.run("h1", "lbctl", "queue", "enable", "h2", check=True).stdout
    assert enabled.startswith("the queue is on h2: fcfs, 0 queued")
    wait_until(lambda: ran("-q", "echo", "here") == (0, "here\n"), "h3 finds the queue", 10)
    assert lab.lbctl_json("h3", "status")["cluster"]["dispatcher"]["leader"] == "h2"

    lab.run("h3", "lbctl", "config", "set", "dispatch.priorities", "true", "--cluster", check=True)
    shown = lab.run("h1", "lbctl", "config", "show", "dispatch.priorities").stdout
    assert "true" in shown
    assert "lbctl config set --cluster" in shown
    wait_until(lambda: ran("-q", "--priority", "-1", "echo", "x") == (0, "x\n"), "priorities", 20)

    lab.run("h1", "lbrun", "-d", "--begin", "+1h", "true", check=True)
    refused = lab.run("h1", "lbctl", "queue", "disable")
    assert refused.returncode == 1
    assert "1 queued, 0 running; `lbctl queue disable --drain`" in refused.stderr
    assert ran("-q", "echo", "on") == (0, "on\n")  # it is as it was

    lab.run("h1", "lbctl", "kill", "@me", check=True)
    assert "disabled" in lab.run("h1", "lbctl", "queue", "disable", check=True).stdout
    wait_until(lambda: ran("-q", "true")[0] == 125, "h3 knows it", 10)
    assert lab.lbctl_json("h1", "queue")["hosts"] == []
