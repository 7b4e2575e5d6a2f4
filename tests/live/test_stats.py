"""`lbctl stats` on real daemons: what it counts, what it outlives, and that it hurts no job."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from contract import assert_one_line

from tests.live.cluster import FAST

BUSY = Path(__file__).parent / "busy.py"
FIGURES = {
    "jobs", "failed", "cpu_s", "mean_response_s", "sd_response_s", "mean_waiting_s",
    "sd_waiting_s", "mean_slowdown", "sd_slowdown", "transferred", "wrong_transfers",
}  # fmt: skip
SPIN = "import os\nwhile sum(os.times()[:2]) < 0.1: pass"


def stats(lab, host="h1", *more):
    return lab.lbctl_json(host, "stats", *more)


def by(found, kind, key):
    return {row[kind]: row for row in found[f"by_{kind}"]}.get(key)


def record(lab, host="h1"):
    return lab.paths(host).state / "usage.sqlite"


def restart_lbm(lab, host, meanwhile=lambda: None):
    lab.kill(host, "lbm", "TERM")
    lab.wait_until(lambda: lab.pids()[host]["lbm"] is None, f"the LBM of {host} has ended")
    meanwhile()
    lab.start(host, "lbm")
    lab.wait_until(lambda: lab.ask(host, "lbm", "status"), f"the LBM of {host} is back")


def test_jobs_of_all_hosts_by_command_user_and_host(lab):
    begun = time.time()
    for _ in range(3):
        lab.run("h1", "lbrun", "-H", "h2", sys.executable, "-c", SPIN, check=True)
    lab.run("h2", "lbrun", "-H", "h3", "sh", "-c", "exit 3")
    lab.run("h3", "lbrun", "--local", sys.executable, "-c", SPIN, check=True)
    found = stats(lab, "h3")
    assert found.keys() >= FIGURES | {"schema", "since", "hosts", "missing", "not_recorded"}
    assert (found["hosts"], found["missing"]) == (["h1", "h2", "h3"], [])
    assert (found["jobs"], found["failed"], found["transferred"]) == (5, 1, 0.8)
    assert found["wrong_transfers"] == 0.0  # the user chose
    assert found["record_since"].keys() == {"h1", "h2", "h3"}
    assert max(found["record_since"].values()) < begun, "a record begins before its first job"
    hosts = {row["host"]: row["jobs"] for row in found["by_host"]}
    assert hosts == {"h2": 3, "h3": 2}
    (python,) = [row for row in found["by_command"] if row["command"].startswith("python")]
    assert python.keys() >= FIGURES
    assert (python["jobs"], python["transferred"]) == (4, 0.75)
    assert python["cpu_s"] >= 0.3
    assert python["mean_response_s"] >= 0.1 > python["mean_waiting_s"] >= 0.0
    assert by(found, "command", "sh")["failed"] == 1
    (user,) = found["by_user"]
    assert user["jobs"] == 5


def test_stats_for_people(lab):
    lab.run("h1", "lbrun", "-H", "h2", "true", check=True)
    result = lab.run("h2", "lbctl", "stats", "--since", "1h", check=True)
    assert result.stderr == ""
    first, _, heading, total, *rest = result.stdout.splitlines()
    assert first == "jobs that ended within 1h, by the records of 3 hosts; algorithm now GLOBAL"
    assert heading.split()[:3] == ["JOBS", "FAILED", "RESPONSE"]
    assert total.split()[0] == "all"
    assert [line for line in rest if line.isupper()] == ["COMMANDS", "USERS", "HOSTS"]


def test_stats_show_when_the_algorithm_was_changed(make_lab):
    lab = make_lab(2)
    lab.run("h1", "lbrun", "-H", "h2", "true", check=True)
    lab.run("h2", "lbctl", "algorithm", "LOWEST", check=True)
    lab.wait_until(lambda: stats(lab)["algorithm_changes"], "h1 has heard of it")
    (change,) = stats(lab)["algorithm_changes"]
    assert (change["was"], change["algorithm"]) == ("GLOBAL", "LOWEST")
    *_, changed, since = lab.run("h1", "lbctl", "stats", check=True).stdout.splitlines()
    assert changed.endswith(": algorithm GLOBAL → LOWEST")
    assert since.startswith("on record only since "), "the lab is younger than a day"


def test_no_jobs_are_one_line(make_lab):
    lab = make_lab(1)
    begun = stats(lab)["record_since"]["h1"]
    lab.wait_until(lambda: time.time() > begun + 2, "the record covers a second")
    result = lab.run("h1", "lbctl", "stats", "--since", "1s")
    assert (result.returncode, result.stdout) == (0, "")
    assert_one_line(result.stderr, "lbctl", "no job ended within 1s")
    result = lab.run("h1", "lbctl", "stats", "--since", "2d")
    assert (result.returncode, result.stdout) == (0, "")
    first, second = result.stderr.splitlines()
    assert first == "lbctl: no job on record that ended within 2d"
    assert second.startswith("lbctl: on record only since ")
    assert stats(lab)["jobs"] == 0
    assert stats(lab)["mean_response_s"] is None


def test_stats_outlive_the_lbm_and_name_missing_hosts(make_lab):
    lab = make_lab(2)
    lab.run("h1", "lbrun", "-H", "h2", "true", check=True)
    lab.run("h2", "lbrun", "-H", "h1", "true", check=True)
    sleeping = lab.popen("h1", "lbrun", "--local", "sleep", "60")
    lab.wait_until(lambda: lab.ask("h1", "lbm", "jobs", all=False)["jobs"], "it runs")
    restart_lbm(lab, "h1")
    sleeping.kill()
    sleeping.wait()
    lab.wait_until(lambda: stats(lab)["jobs"] in (2, 3), "both are there")  # it may be adopted
    lab.kill("h2", "lbm")
    found = lab.lbctl_json_any("h1", "stats")
    assert (found["hosts"], found["missing"]) == (["h1"], ["h2"])
    assert lab.run("h1", "lbctl", "history").returncode == 1
    result = lab.run("h1", "lbctl", "stats")
    assert (result.returncode, result.stdout.startswith("jobs that ended")) == (1, True)
    assert_one_line(result.stderr, "lbctl", "h2 (its LBM cannot be reached)")


def test_a_command_that_runs_here_is_measured_too(lab):
    """The kernel's figures are used, however the command ends; no process stands beside it."""
    long = SPIN.replace("0.1", "0.5")
    lab.run("h2", "lbrun", "--local", "env", sys.executable, "-c", long, check=True)
    found = by(stats(lab), "command", "env")
    assert (found["jobs"], found["transferred"]) == (1, 0.0)
    assert 0.3 <= found["cpu_s"] <= 1.5


def test_sent_to_a_busier_host_is_a_wrong_transfer(make_lab):
    settings = (*FAST, "lim.local_threshold=0.0", "lim.min_gain=0.0")
    lab = make_lab(2, "none", "--algorithm", "RANDOM", settings=settings)
    load = [
        lab.popen(host, "lbrun", "--local", sys.executable, BUSY, "processes", count)
        for host, count in (("h1", 1), ("h2", 2))
    ]
    try:
        for host, tasks in (("h1", 0.1), ("h2", 1.5)):
            lab.wait_until(
                lambda host=host, tasks=tasks: index_of(lab, host) > tasks, f"{host} is busy"
            )
        lab.wait_until(lambda: wrong_after_one_more(lab), "a wrong transfer", 15.0)
    finally:
        for process in load:
            process.kill()
            process.wait()
        for found in lab.jobs_alive():  # its forks
            os.kill(found.process.pid, signal.SIGKILL)


def index_of(lab, host):
    (row,) = [r for r in lab.ask(host, "lim", "status")["hosts"] if r["name"] == host]
    return row["index"] * row["cores"] * row["speed"]


def wrong_after_one_more(lab):
    lab.run("h1", "lbrun", "true", check=True)
    return stats(lab)["wrong_transfers"] > 0


@pytest.fixture(scope="module")
def queue_lab(make_module_lab):
    return make_module_lab(2, "none", "--mode", "fcfs", settings=(*FAST, "dispatch.lease_s=2"))


def test_a_queued_job_counts_where_it_ran_with_the_wait_for_its_turn(queue_lab):
    lab = queue_lab
    name = lab.run("h1", "lbrun", "-d", "-H", "h2", sys.executable, "-c", SPIN).stdout.strip()
    assert lab.run("h1", "lbctl", "wait", "--timeout", "20s", name).returncode == 0
    found = stats(lab)
    assert (found["jobs"], found["failed"], found["transferred"]) == (1, 0, 1.0)
    assert by(found, "host", "h2")["jobs"] == 1
    assert found["mean_waiting_s"] > 0.0
    assert found["cpu_s"] >= 0.1


def test_a_job_that_is_queued_again_waits_from_its_last_end_on(queue_lab):
    lab = queue_lab
    before = stats(lab)
    name = lab.run("h1", "lbrun", "-d", "true", check=True).stdout.strip()
    for requeued in (False, True):
        if requeued:
            time.sleep(4.0)  # this would show if it were counted as waiting
            lab.run("h1", "lbctl", "requeue", name, check=True)
        assert lab.run("h1", "lbctl", "wait", "--timeout", "20s", name).returncode == 0
    found = stats(lab)
    assert found["jobs"] == before["jobs"] + 2
    assert waited_s(found) - waited_s(before) < 3.0
    (job,) = lab.lbctl_json("h1", "jobs", name)
    assert job["started"] - job["submitted"] > 4.0, "the first time is still told"


def waited_s(found):
    return (found["mean_waiting_s"] or 0.0) * found["jobs"]
