"""Jobs that wait for others or for a time, on real hosts and across a restart of the dispatcher."""

from functools import partial

from tests.live.cluster import FAST, Lab
from tests.live.queued_jobs import submit

SETTINGS = (*FAST, "dispatch.lease_s=20", "lbm.slots=2")


LAB = partial(Lab.up, 2, "none", "--mode", "fcfs", settings=SETTINGS)


def states(lab, *names):
    found = lab.lbctl_json("h1", "jobs", "--tasks", *names)
    return {job["id"]: (job["state"], job["reason"] or "") for job in found}


def test_jobs_start_after_others_across_a_restart_of_the_dispatcher(lab, tmp_path):
    gate = tmp_path / "gate"
    script = f'until test -e {gate}; do sleep 0.05; done; test "$LBD_ARRAY_INDEX" != 2'
    first = submit(lab, "--array", "1-2", "sh", "-c", script)
    good = submit(lab, "--after-task", first, "--array", "1-2", "true")
    bad = submit(lab, "--after", first, "true")
    failed = submit(lab, "--after-failed", first, "true")
    chained = submit(lab, "--after", f"{good}_1,{failed}", "true")
    never = submit(lab, "--begin", "+2h", "true")
    free = submit(lab, "true")
    assert lab.run("h1", "lbctl", "wait", "--timeout", "30s", free).returncode == 0
    found = states(lab, good, bad, failed, chained, never)
    assert found[f"{good}_1"] == ("pending", f"after {first}_1 has succeeded")
    assert found[bad] == ("pending", f"after {first} has succeeded")
    assert found[failed] == ("pending", f"after {first} has failed")
    assert found[chained] == ("pending", f"after {good}_1 and {failed} have succeeded")
    assert found[never][1].startswith("not before ")
    lab.lab("kill", "h1", "dispatcher")
    gate.touch()
    lab.lab("start", "h1", "dispatcher")
    assert lab.run("h1", "lbctl", "wait", "--timeout", "30s", chained).returncode == 0
    assert lab.run("h1", "lbctl", "wait", "--timeout", "30s", good, bad).returncode == 1
    found = states(lab, good, bad, failed, chained, never)
    assert [found[f"{good}_{n}"][0] for n in (1, 2)] == ["done", "cancelled"]
    assert found[bad] == (
        "cancelled", f"it was waiting for {first} to succeed, but a task of {first} did not"
    )  # fmt: skip
    assert (found[failed][0], found[chained][0]) == ("done", "done")
    late = lab.run("h2", "lbrun", "-d", "--after", bad, "true", check=True)
    assert late.stderr == (
        f"lbrun: job {late.stdout.strip()} is cancelled: it was waiting for {bad} to succeed, but "
        "it did not\n"
    )
    lab.run("h2", "lbctl", "update", never, "--begin", "now", check=True)
    assert lab.run("h1", "lbctl", "wait", "--timeout", "30s", never).returncode == 0


def test_an_impossible_dependency_is_one_line_and_queues_nothing(lab):
    before = lab.lbctl_json("h1", "jobs", "--all")
    for words, line in (
        (("--after", "99999"), "lbrun: --after: no job 99999 of yours is on record"),
        (("--after", "h1-3"), "lbrun: --after h1-3: 'h1-3' is not a queued job's id"),
        (("--begin", "25:00"), "lbrun: --begin: '25:00': no such time of day"),
    ):
        result = lab.run("h2", "lbrun", "-d", *words, "true")
        assert result.returncode == 125
        assert result.stderr.startswith(line)
        assert result.stderr.count("\n") == 1
    assert len(lab.lbctl_json("h1", "jobs", "--all")) == len(before)
    result = lab.run("h2", "lbrun", "-q", "--begin", "2020-01-01T06:00", "true")
    assert result.returncode == 0
    assert result.stderr == "lbrun: --begin: 2020-01-01T06:00 has passed, so it may start now\n"


def test_a_notification_does_not_begin_in_another_directory_of_the_name(lab, tmp_path):
    """Another user had made it since, with a program of the name that the line begins."""
    project, said = tmp_path / "project", tmp_path / "said"
    project.mkdir()
    gate = f"until test -e {tmp_path}/gate; do sleep 0.05; done"
    submit(lab, "-C", str(project), "--notify", f"pwd >> {said}", "sh", "-c", gate)
    project.rename(tmp_path / "before")
    project.mkdir()
    (tmp_path / "gate").touch()
    kept = lab.paths("h2").state / "notify"
    lab.wait_until(lambda: not list(kept.iterdir()), "it was given up")
    assert not said.exists()


def test_notify_runs_once_at_the_end_where_the_job_was_submitted(lab, tmp_path):
    said = tmp_path / "said"
    line = (
        'echo "$LBD_JOB_ID $LBD_STATE $LBD_EXIT_STATUS $MARK $PWD" >> said; echo noise; sleep 0.1'
    )
    note = ("-C", str(tmp_path), "-e", "MARK=m", "--notify", line)
    gate = f"until test -e {tmp_path}/gate; do sleep 0.05; done"
    late = submit(lab, *note, "sh", "-c", f"{gate}; exit 3")
    array = submit(lab, *note, "--array", "1-2", "sh", "-c", 'test "$LBD_ARRAY_INDEX" != 2')
    waits = submit(lab, *note, "--begin", "+1h", "true")
    lab.run("h1", "lbctl", "kill", waits, check=True)
    kept = lab.paths("h2").state / "notify"
    lab.wait_until(
        lambda: [one.stem.rpartition("-")[2] for one in kept.iterdir()] == [late],
        "but for one all is done",
    )
    lab.kill("h2", "lbm")
    (tmp_path / "gate").touch()
    lab.start("h2", "lbm")

    def lines():
        return sorted(said.read_text().splitlines()) if said.exists() else []

    end = f"m {tmp_path}"
    expected = [f"{late} failed 3 {end}", f"{array} failed 1 {end}", f"{waits} cancelled  {end}"]
    lab.wait_until(lambda: len(lines()) >= 3, "all three have been notified of", see=lines)
    assert lines() == sorted(expected)
    lab.wait_until(lambda: not list(kept.iterdir()), "nothing of them is kept")
    result = lab.run("h2", "lbrun", "-q", "--notify", f"touch {tmp_path}/quick", "true")
    assert (result.returncode, result.stderr) == (0, "")
    lab.wait_until((tmp_path / "quick").exists, "a job of -q is notified of as well")
    assert len(lines()) == 3
