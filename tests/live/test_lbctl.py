"""lbctl against real daemons: what it says of a cluster, and what it changes in it."""

import json
import re
import sysconfig
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _undone(lab):
    """Leave the shared lab as it was."""
    yield
    for host in lab.hosts:
        lab.run("h1", "lbctl", "undrain", host)
    lab.run("h1", "lbctl", "algorithm", "GLOBAL")
    lab.run("h1", "lbctl", "param", "min_gain", "0.1")


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
    assert re.match(r"cluster \S+   algorithm GLOBAL   centre h1   dispatcher none$", lines[0])
    assert [line.split()[0] for line in lines[3:6]] == ["h1", "h2", "h3"]
    assert lines[4].startswith("h2 *  up ")
    assert "\x1b" not in result.stdout
    assert result.stderr == ""


def test_drain_and_undrain_are_seen_everywhere(lab):
    result = lab.run("h1", "lbctl", "drain", "h2", check=True)
    assert result.stdout == "h2 is drained: no new jobs there\n"
    for host in lab.hosts:
        lab.wait_until(lambda host=host: lab.states(host)["h2"] == "drained", f"{host} sees it")
    refused = lab.run("h1", "lbrun", "-H", "h2", "true")
    assert refused.returncode == 125
    assert refused.stderr.count("\n") == 1
    lab.run("h3", "lbctl", "undrain", "h2", check=True)
    lab.wait_until(lambda: lab.states("h1")["h2"] == "up", "h2 is up again")
    assert lab.run("h1", "lbrun", "-H", "h2", "true").returncode == 0


def test_drain_waits_for_what_runs(lab):
    with lab.popen("h1", "lbrun", "-H", "h2", "sleep", "2") as job:
        lab.wait_until(lambda: jobs_on(lab, "h2"), "the job runs on h2")
        result = lab.run("h1", "lbctl", "drain", "h2", "--wait", "--json", check=True)
        said = {"schema": 1, "host": "h2", "drained": True, "jobs_left": 0}
        assert json.loads(result.stdout) == said
        assert job.wait(timeout=20) == 0


def jobs_on(lab, host):
    jobs = lab.lbctl_json("h1", "jobs")
    return [job for job in jobs if job["host"] == host and job["state"] == "running"]


def test_an_algorithm_is_changed_everywhere(lab):
    assert lab.run("h2", "lbctl", "algorithm", "LOWEST", check=True).stdout == "LOWEST\n"
    for host in lab.hosts:
        lab.wait_until(
            lambda host=host: lab.lbctl_json(host, "algorithm")["algorithm"] == "LOWEST",
            f"{host} follows",
        )


def test_a_parameter_is_changed_everywhere(lab):
    lab.run("h3", "lbctl", "param", "lim.min_gain", "0.25", check=True)
    for host in lab.hosts:
        lab.wait_until(
            lambda host=host: lab.lbctl_json(host, "param", "min_gain")["value"] == 0.25,
            f"{host} follows",
        )
    assert "0.25" in lab.run("h1", "lbctl", "param", check=True).stdout


def test_the_load_index_is_changed_everywhere(lab):
    lab.run("h3", "lbctl", "param", "index", "queue-1", check=True)
    for host in lab.hosts:
        lab.wait_until(
            lambda host=host: lab.run(host, "lbctl", "status").stdout.splitlines()[0].endswith(
                "load index queue-1"
            ),
            f"{host} follows",
        )  # fmt: skip
    lab.run("h1", "lbctl", "param", "index", "smoothed", check=True)


BAD = [
    (("drain", "h9"), 2, "h9"),
    (("drain", "H2"), 2, '"h2"'),
    (("algorithm", "LOWST"), 2, "LOWEST"),
    (("param", "min_gian"), 2, "min_gain"),
    (("param", "min_gain", "-1"), 2, "0 to 1000"),
    (("param", "min_gain", "x"), 2, "number"),
    (("param", "index", "queue-5"), 2, '"queue-4"'),
    (("explain", "-H", "h9", "true"), 2, "h9"),
    (("jobs", "h1-99999"), 2, "h1-99999"),
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
def test_explain_tells_of_a_program_that_is_not_there(lab, tmp_path, client):
    (tmp_path / "plain").touch()
    for program, trouble in (
        ("no-such-program", "No such file or directory; it would end with 127"),
        ("./plain", "Permission denied; it would end with 126"),
    ):
        told = lab.run("h1", *client, "--local", program, cwd=tmp_path, check=True).stdout
        assert f"\n{program}: {trouble}\n" in told
    told = lab.run("h1", *client, "--local", "--json", "no-such-program", check=True).stdout
    assert json.loads(told)["trouble"] == "No such file or directory"
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


def test_doctor_finds_a_healthy_lab_healthy(lab):
    result = lab.run("h1", "lbctl", "doctor")
    assert result.returncode == 0, result.stdout
    assert "peer h2" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("0 faults")


def test_doctor_names_a_dead_peer_and_a_dead_daemon(make_lab):
    lab = make_lab(2)
    lab.kill("h2", "lim")
    reply = json.loads(lab.run("h1", "lbctl", "doctor", "--json").stdout)
    faults = {check["name"]: check for check in reply["checks"] if check["state"] == "fault"}
    assert faults.keys() == {"peer h2"}
    assert faults["peer h2"]["mend"]
    result = lab.run("h2", "lbctl", "doctor")
    assert result.returncode == 1
    assert re.search(r"FAULT  LIM +not running: .*lim.sock is stale", result.stdout)
    assert re.search(r"lbctl: lim is not running .*\n", lab.run("h2", "lbctl", "status").stderr)


def test_bash_completes_the_hosts_there_are(lab):
    share = Path(sysconfig.get_path("data"), "share/bash-completion/completions")
    words = 'COMP_WORDS=(lbctl drain h) COMP_CWORD=2; _lbctl; echo "${COMPREPLY[@]}"'
    result = lab.run("h1", "bash", "-c", f"source {share}/lbctl; {words}", check=True)
    assert result.stdout.split() == list(lab.hosts)
    assert result.stderr == ""
