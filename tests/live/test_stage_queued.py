"""lbrun -q and -d with --send and --fetch: inputs are kept with the job, outputs come back."""

import os
import signal
import time
from functools import partial

import pytest
from contract import assert_one_line

from tests.live.cluster import FAST, Lab, wait_until
from tests.live.queued_jobs import job
from tests.live.restarting import restart
from tests.live.test_stage import assert_no_workdir, listing, swapping

BIG = 8 << 20
SETTINGS = (
    *FAST, "lbm.slots=2", "lbm.kill_grace_s=0.2", "dispatch.lease_s=3", "dispatch.aside_s=0.5",
    f"stage.max_bytes={BIG}",
)  # fmt: skip


LAB = partial(Lab.up, 3, "none", "--mode", "fcfs", settings=SETTINGS)


def lbrun(lab, cwd, *words, host="h2", **options):
    return lab.run(host, "lbrun", *words, cwd=cwd, **options)


def submit(lab, cwd, *words, host="h2"):
    result = lbrun(lab, cwd, "-d", *words, host=host)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.strip()


def waited(lab, *names, host="h1"):
    return lab.run(host, "lbctl", "wait", "--timeout", "40s", *names, timeout=60).returncode


def kept(lab, host):
    """Names of the inputs that a host keeps for its users."""
    root = lab.paths(host).state / "files"
    return sorted(path.name for path in root.iterdir()) if root.exists() else []


def test_a_queued_job_runs_among_its_files_and_its_outputs_come_back(lab, work):
    before = listing(work)
    result = lbrun(lab, work, "-q", "-H", "h3", "--send", "src", "--send", "tool", "--fetch",
                   "out", "--fetch", "build/x.o", "sh", "-c",
                   "pwd; find . | sort; ./tool; mkdir out; cp src/a out; echo x > build/x.o; "
                   "echo more > more; echo changed > src/a; cat", input="typed\n")  # fmt: skip
    where, *lines = result.stdout.splitlines()
    assert where.startswith(str(lab.paths("h3").state / "stage"))
    assert lines == [".", "./build", "./src", "./src/a", "./src/link", "./src/sub",
                     "./src/sub/b", "./tool", "tool", "typed"]  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    assert listing(work) == {
        **before, "out": None, "out/a": b"a\n", "build": None, "build/x.o": b"x\n"
    }  # fmt: skip
    assert_no_workdir(lab)


def test_outputs_do_not_go_to_another_directory_that_has_got_the_name(lab, work):
    """Another user may have made it, with links to where the job's user may write."""
    project = work / "project"
    project.mkdir()
    name = submit(lab, project, "-H", "h3", "--fetch", "out", "sh", "-c", "sleep 1; echo x > out")
    project.rmdir()
    project.mkdir()
    why = "another directory has its name now"
    wait_until(lambda: why in lab.run("h2", "lbctl", "job", name).stdout, "it is said")
    assert not list(project.iterdir())


@pytest.mark.parametrize("queued", ["-q", "-d"])
def test_another_directory_that_has_got_the_name_of_one_that_was_sent_is_put_aside(
    lab, work, queued
):
    """Another user may have renamed it, in a directory where both may write."""
    words = swapping(work)
    result = lbrun(lab, work, queued, "-H", "h3", *words)
    assert result.returncode == 0
    if queued == "-d":
        assert waited(lab, result.stdout.strip(), host="h2") == 0
    assert (work / "src/new").exists()
    (aside,) = work.glob("src.lbd-old-*")
    assert (aside / "mine").exists()
    line = f"lbrun: --fetch src is not what it was; that is {aside.name} now\n"
    assert result.stderr == ("" if queued == "-d" else line)
    log = "\n".join(path.read_text() for path in lab.root.rglob("*.log"))
    assert queued == "-q" or f"its outputs: src is not what it was; that is {aside.name}" in log


def test_the_host_where_a_job_was_submitted_works_too(lab, work):
    result = lbrun(lab, work, "-q", "-H", "h2", "--send", "src", "--fetch", "new", "sh", "-c",
                   "cat src/a > new; ls")  # fmt: skip
    assert (result.returncode, result.stdout, result.stderr) == (0, "new\nsrc\n", "")
    assert (work / "new").read_text() == "a\n"


def test_outputs_of_a_detached_job_come_when_it_has_ended(lab, work):
    (work / "src/a").write_text("as submitted\n")
    name = submit(lab, work, "-H", "h3", "--send", "src", "--fetch", "new.%j", "sh", "-c",
                  "sleep 1; cat src/a > new.$LBD_JOB_ID")  # fmt: skip
    (work / "src/a").write_text("changed since\n")
    assert waited(lab, name) == 0
    wait_until((work / f"new.{name}").exists, "its output has come", 15)
    assert (work / f"new.{name}").read_text() == "as submitted\n"
    assert sorted(os.listdir(work)) == [f"new.{name}", "src", "tool", "unlisted"]


def test_an_array_shares_one_pack_and_each_brings_its_own(lab, work):
    packs = len([one for one in kept(lab, "h2") if one.endswith(".pack")])
    names = submit(lab, work, "--array", "1-5", "--send", "src", "--fetch", "out.%a", "sh", "-c",
                   "cat src/a > out.$LBD_ARRAY_INDEX; rm -r src")  # fmt: skip
    assert len([one for one in kept(lab, "h2") if one.endswith(".pack")]) == packs + 1
    assert waited(lab, names, host="h2") == 0
    outs = {f"out.{n}" for n in range(1, 6)}
    assert outs <= set(os.listdir(work)), "who waits where it was submitted has them"
    assert {(work / one).read_text() for one in outs} == {"a\n"}


def test_an_attempt_that_runs_again_starts_from_the_same_inputs(lab, work):
    script = (
        "cat src/a; echo spoilt > src/a; echo $LBD_ATTEMPT > out; [ $LBD_ATTEMPT = 2 ] || sleep 60"
    )
    name = submit(lab, work, "--send", "src", "--fetch", "out", "sh", "-c", script)
    lab.wait_until(lambda: job(lab, name)["state"] == "running", "it runs")
    time.sleep(0.5)
    (work / "src/a").write_text("changed since\n")
    assert lab.run("h1", "lbctl", "requeue", name).returncode == 0
    assert waited(lab, name) == 0
    assert lab.run("h1", "lbctl", "logs", name).stdout == "a\n"
    wait_until((work / "out").exists, "its output has come", 15)
    assert (work / "out").read_text() == "2\n"
    assert_no_workdir(lab)


def test_a_job_that_failed_and_is_requeued_brings_its_outputs_again(lab, work):
    tasks = submit(lab, work, "--array", "1-2", "--send", "src", "--fetch", "out.%a", "sh", "-c",
                   "echo $LBD_ATTEMPT >out.$LBD_ARRAY_INDEX; [ $LBD_ATTEMPT = 2 ]")  # fmt: skip
    array = tasks.partition("_")[0]
    assert waited(lab, array) != 0
    outs = [work / f"out.{index}" for index in (1, 2)]
    wait_until(lambda: all(out.exists() for out in outs), "their outputs have come", 15)
    restart(lab, "h2")
    lab.run("h1", "lbctl", "requeue", "--failed", array, check=True)
    assert waited(lab, array) == 0
    wait_until(lambda: all(out.read_text() == "2\n" for out in outs), "they come again", 15)


REFUSED = [
    (("--send", "none"), "No such file"),
    (("--send", "/etc/passwd"), "--send /etc/passwd"),
    (("--fetch", "src"), "replaced as a whole"),
    (("--array", "1-3", "--fetch", "out"), "%a"),
    (("--send", "src", "-o", "log"), "add --fetch for it"),
    (("--send", "pipe"), "not a file"),
    (("--send", "huge"), "stage.max_bytes"),
]


@pytest.mark.parametrize(("options", "part"), REFUSED)
def test_options_that_are_refused_before_anything_is_queued(lab, work, options, part):
    os.mkfifo(work / "pipe")
    (work / "huge").touch()
    os.truncate(work / "huge", BIG + 1)
    files, jobs = kept(lab, "h2"), lab.lbctl_json("h1", "jobs", "--all")
    result = lbrun(lab, work, "-d", *options, "true")
    assert (result.returncode, result.stdout) == (125, "")
    assert_one_line(result.stderr, "lbrun", part)
    assert kept(lab, "h2") == files
    assert len(lab.lbctl_json("h1", "jobs", "--all")) == len(jobs)


FAILS = [
    ("true", "--fetch", "out: the command did not create it"),
    (f"truncate -s {BIG + 1} out", "--fetch", "stage.max_bytes"),
    ("mkfifo out", "--fetch", "not a file"),
    ("ln -s /etc/passwd out", "--fetch", "outside the directory"),
]


@pytest.mark.parametrize(("script", "a", "b"), FAILS)
def test_outputs_that_cannot_be_fetched_are_an_error(lab, work, script, a, b):
    before = listing(work)
    result = lbrun(lab, work, "-q", "-H", "h3", "--fetch", "out", "sh", "-c", script)
    assert result.returncode == 125
    assert_one_line(result.stderr, "lbrun", a, b, "exited with 0")
    assert listing(work) == before
    assert_no_workdir(lab)


def test_the_output_of_a_failed_command_comes_back_too(lab, work):
    result = lbrun(lab, work, "-q", "-H", "h3", "--fetch", "log", "--fetch", "result", "sh", "-c",
                   "echo failed > log; exit 7")  # fmt: skip
    assert (result.returncode, result.stderr) == (7, "")
    assert (work / "log").read_text() == "failed\n"
    assert not (work / "result").exists()


def test_a_detached_jobs_missing_outputs_are_explained_and_fixed(lab, work):
    (work / "out").mkdir()
    name = submit(lab, work, "-H", "h3", "--fetch", "out", "sh", "-c",
                  "sleep 1; mkdir out; echo 1 > out/x")  # fmt: skip
    (work / "out/mine").write_text("made meanwhile\n")
    lab.wait_until(
        lambda: "not empty" in (lab.lbctl_json("h2", "job", name)["reason"] or ""), "it is told", 30
    )
    assert waited(lab, name) == 0  # h1 waits for the end alone
    told = lab.run("h2", "lbctl", "wait", "--timeout", "40s", name)
    assert (told.returncode, "outputs not fetched yet" in told.stderr) == (2, True)
    assert (work / "out/mine").read_text() == "made meanwhile\n"
    (work / "out/mine").unlink()
    wait_until((work / "out/x").exists, "it comes then", 20)
    assert not lab.lbctl_json("h2", "job", name)["reason"]


# Anything may be killed


def test_a_job_waits_for_the_host_that_has_its_files(lab, work):
    gate = work.parent / "gate"
    script = f"until test -e {gate}; do sleep 0.05; done; cp src/a new.$LBD_ARRAY_INDEX"
    name = submit(lab, work, "--array", "1-1", "-x", "h2", "--send", "src", "--fetch", "new.%a",
                  "sh", "-c", script, host="h2")  # fmt: skip
    lab.wait_until(lambda: job(lab, name)["state"] == "running", "it runs")
    lab.kill("h2", "host")
    gate.touch()
    try:
        assert waited(lab, name) == 0  # it has its files already
        assert not (work / "new.1").exists()
    finally:
        lab.start("h2")
    wait_until((work / "new.1").exists, "its output comes to where it is awaited", 30)


def test_a_job_is_held_while_its_files_are_out_of_reach(lab, work):
    blockers = [submit(lab, work, "sleep", "60", host="h1") for _ in range(6)]
    for one in blockers:
        lab.wait_until(lambda one=one: job(lab, one)["state"] == "running", "all slots are taken")
    name = submit(lab, work, "-x", "h2", "--send", "src", "cat", "src/a", host="h2")
    lab.kill("h2", "host")
    try:
        assert lab.run("h1", "lbctl", "kill", *blockers).returncode in (0, 1)
        lab.wait_until(
            lambda: (job(lab, name)["reason"] or "").startswith("held for a while"), "it is held",
            30, lambda: job(lab, name),
        )  # fmt: skip
        other = submit(lab, work, "true", host="h1")
        assert waited(lab, other) == 0  # others go on
    finally:
        lab.start("h2")
    assert waited(lab, name) == 0
    assert lab.run("h1", "lbctl", "logs", name).stdout == "a\n"


def test_a_job_with_files_outlives_every_lbm(lab, work):
    name = submit(lab, work, "-H", "h3", "--send", "src", "--fetch", "out", "sh", "-c",
                  "sleep 3; cp src/a out")  # fmt: skip
    lab.wait_until(lambda: job(lab, name)["state"] == "running", "it runs")
    for host in ("h2", "h3"):
        restart(lab, host)
    assert waited(lab, name) == 0
    wait_until((work / "out").exists, "its output has come", 30, lambda: job(lab, name))
    assert (work / "out").read_text() == "a\n"
    assert_no_workdir(lab)


def test_a_client_that_goes_away_gets_no_files(lab, work):
    before = listing(work)
    caller = lab.popen("h2", "lbrun", "-q", "-H", "h3", "--send", "src", "--fetch", "out", "sh",
                       "-c", "echo 1 > out; sleep 60", cwd=work)  # fmt: skip
    lab.wait_until(lambda: lab.lbctl_json("h1", "jobs")[-1:], "it is queued")
    name = lab.lbctl_json("h1", "jobs")[-1]["id"]
    lab.wait_until(lambda: job(lab, name)["state"] == "running", "it runs")
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    lab.wait_until(lambda: job(lab, name)["state"] == "cancelled", "it is ended", 20)
    time.sleep(1)
    assert listing(work) == before
    assert_no_workdir(lab)


def test_a_job_killed_at_its_cutoff_starts_again_from_its_inputs_in_the_next_tier(make_lab, work):
    lab = make_lab(2, "none", "--mode", "tags", settings=(*SETTINGS, "tags.cutoffs_s=[0.3]"))
    script = "cat src/a; rm src/a; i=0; while [ $i -lt 900000 ]; do i=$((i+1)); done; \
              echo $LBD_TIER > out"
    result = lbrun(lab, work, "-q", "--send", "src", "--fetch", "out", "sh", "-c", script,
                   timeout=60)  # fmt: skip
    assert (result.returncode, result.stdout, result.stderr) == (0, "a\n", "")
    assert (work / "out").read_text() == "2\n"
    assert (work / "src/a").exists()
