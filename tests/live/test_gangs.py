"""`lbrun --array … --gang`: all jobs of an array start together, or none does."""

import re
from functools import partial
from pathlib import Path

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.conftest import reloading
from tests.live.queued_jobs import job, until_running

SETTINGS = (
    *FAST,
    "dispatch.lease_s=8",
    "lbm.slots=2",
    "dispatch.gang_drain_s=60",
    "resources.gpu=2",
)
# Each task waits for all the others to be there at the same time.
MEETS = """
echo "$LBD_HOST $LBD_GANG_HOSTS" >"at.$LBD_ARRAY_INDEX"
echo "$LBD_ATTEMPT" >>"did.$LBD_ARRAY_INDEX"
n=0
until [ "$(ls at.* | wc -l)" = "$1" ]; do n=$((n + 1)); [ $n -lt 600 ] || exit 9; sleep 0.05; done
"""


LAB = partial(Lab.up, 3, "none", "--mode", "fcfs", settings=SETTINGS)


def submit(lab, *words, **options):
    name = lab.run("h2", "lbrun", "-d", *words, check=True, **options).stdout.strip()
    if "--array" not in words:
        return [name]
    first, last = map(int, words[words.index("--array") + 1].split("-"))
    return [f"{name}_{n}" for n in range(first, last + 1)]


def wait(lab, *names):
    words = ("lbctl", "wait", "--timeout", "30s", *names)
    return lab.run("h1", *words, timeout=50).returncode


@pytest.mark.parametrize("front", ["lbrun", "lbrun-python"])
def test_all_tasks_run_at_once_and_know_each_others_hosts(lab, tmp_path, front):
    (tmp_path / "meets.sh").write_text(MEETS)
    words = ("-q", "--array", "0-5", "--gang", "--timeout", "60s", "sh", "meets.sh", "6")
    assert lab.run("h2", front, *words, cwd=tmp_path, timeout=60).returncode == 0
    found = [(tmp_path / f"at.{n}").read_text().split() for n in range(6)]
    hosts = [host for host, _ in found]
    assert sorted(hosts) == ["h1", "h1", "h2", "h2", "h3", "h3"]
    assert {names for _, names in found} == {",".join(hosts)}


@pytest.mark.parametrize("front", ["lbrun", "lbrun-python"])
def test_each_task_gets_what_it_needs_of_its_host_and_gives_it_back(lab, tmp_path, front):
    script = 'sleep 0.2; echo "$LBD_HOST $LBD_RESOURCE_GPU" >"at.$LBD_ARRAY_INDEX"'
    for need, count in (("gpu=2", 3), ("gpu", 6)):  # two tasks on each host the second time
        words = ("-q", "--array", f"1-{count}", "--gang", "--need", need, "--mem", "64M")
        result = lab.run("h2", front, *words, "sh", "-c", script, cwd=tmp_path, timeout=60)
        assert (result.returncode, result.stderr) == (0, "")
        found = sorted((tmp_path / f"at.{n}").read_text().strip() for n in range(1, count + 1))
        indexes = ["0,1"] if count == 3 else ["0", "1"]
        assert found == [f"{host} {index}" for host in ("h1", "h2", "h3") for index in indexes]
    lab.wait_until(lambda: not any(gpus_used(lab)), "all are given back")


def gpus_used(lab):
    return [host["resources"]["gpu"]["used"] for host in lab.lbctl_json("h1", "status")["hosts"]]


def test_files_go_along_and_come_back(lab, tmp_path):
    (tmp_path / "given").write_text("given\n")
    script = "sleep 0.1; cat given >got.$LBD_ARRAY_INDEX"
    words = ("--array", "0-2", "--gang", "--send", "given", "--fetch", "got.%a")
    result = lab.run("h2", "lbrun", "-q", *words, "sh", "-c", script, cwd=tmp_path, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    assert [(tmp_path / f"got.{n}").read_text() for n in range(3)] == ["given\n"] * 3


def test_a_gang_waits_as_a_whole_says_why_and_is_killed_as_a_whole(lab):
    (blocker,) = submit(lab, "-n", "2", "sleep", "1000")
    until_running(lab, blocker)
    gang = submit(lab, "--array", "1-6", "--gang", "true")
    said = "needs 6 slots together and holds 4; other jobs wait for it on h1, h2, h3 from "
    lab.wait_until(lambda: job(lab, gang[3])["reason"].startswith(said), "it drains")
    (waits,) = submit(lab, "true")
    (passes,) = submit(lab, "--timeout", "5s", "true")
    assert wait(lab, passes) == 0
    assert job(lab, waits)["state"] == "pending"
    assert lab.run("h1", "lbctl", "kill", gang[2]).returncode == 0
    assert {job(lab, name)["state"] for name in gang} == {"cancelled"}
    assert wait(lab, waits) == 0
    lab.run("h1", "lbctl", "kill", blocker, check=True)
    assert wait(lab, blocker) == 1


def test_a_gang_that_is_too_large_is_accepted_with_a_line(lab):
    result = lab.run("h2", "lbrun", "-d", "--array", "1-7", "--gang", "true", check=True)
    assert "needs 7 slots together; the hosts it may use have 6" in result.stderr
    killed = lab.run("h1", "lbctl", "kill", result.stdout.strip())
    assert (killed.returncode, killed.stderr) == (0, "")


@pytest.fixture
def rules(lab):
    """rules(programs=…): sets h2's rules."""
    with reloading(lab) as reload:
        yield lambda **values: reload("admission", **values)


BEGAN = ("sh", "-c", 'echo "$LBD_HOST" >"at.$LBD_ARRAY_INDEX"')


def test_a_gang_goes_where_the_rules_for_programs_allow_it(lab, tmp_path, rules):
    rules(programs=("/usr/bin/nothing",))
    words = ("-q", "--array", "0-3", "--gang", *BEGAN)
    result = lab.run("h1", "lbrun", *words, cwd=tmp_path, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    found = sorted((tmp_path / f"at.{n}").read_text().strip() for n in range(4))
    assert found == ["h1", "h1", "h3", "h3"]


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (BEGAN, 125, r"sh is not allowed here: \S+ is a link to \S+, and only /usr/bin/nothing may "
                     r"run \(admission\.programs\)"),
        (("no-such-program",), 127, "no-such-program: not found"),
    ],
    ids=["forbidden", "not found"],
)  # fmt: skip
def test_no_task_of_a_gang_starts_if_one_host_cannot_run_its_task(
    lab, tmp_path, rules, words, status, why
):
    rules(programs=("/usr/bin/nothing",))
    words = ("-q", "--array", "0-1", "--gang", "-x", "h1", "-x", "h3", *words)
    result = lab.run("h1", "lbrun", *words, cwd=tmp_path, timeout=60)
    assert (result.returncode, result.stderr.count("\n")) == (status, 1), result.stderr
    assert list(tmp_path.iterdir()) == []
    last = lab.lbctl_json("h1", "jobs", "--all", "--tasks", "--limit", "2")
    assert {task["state"] for task in last} == {"failed", "cancelled"}
    assert any(re.search(f"h2: {why}", task["reason"]) for task in last)
    assert all(task["started"] is None for task in last)


def test_the_commands_of_the_documentation_work(lab, tmp_path):
    text = (Path(__file__).parents[2] / "docs/how-to/gangs.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.S)
    lines = [line.partition("   #")[0] for block in blocks for line in block.splitlines()]
    (tmp_path / "solve").write_text("#!/bin/sh\necho $LBD_SLOTS $LBD_GANG_HOSTS\n")
    (tmp_path / "solve").chmod(0o755)
    for line in (one.replace("0-3 --gang -n 2", "0-2 --gang -n 2") for one in lines):
        result = lab.run("h2", "sh", "-c", line, cwd=tmp_path, timeout=60)
        assert (result.returncode, result.stderr) == (0, ""), line
    assert result.stdout
