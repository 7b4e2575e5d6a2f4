"""`dispatch.lease_s` raised and lowered while jobs run: no job has two attempts at once, or waits
for the heartbeats of an old lease."""

from functools import partial

from tests.live.cluster import Lab
from tests.live.queued_jobs import job
from tests.live.test_queue_faults import SETTINGS, begin_elsewhere_than, check_counts, submit, wait

LAB = partial(Lab.up, 3, "none", "--mode", "fcfs", settings=SETTINGS)


def left_s(lab, host):
    """What is left of the lease there that runs out first."""
    return lab.ask(host, "lbm", "metrics")["lease_margin_min_seconds"]


def set_lease(lab, *value, host="h1"):
    words = ("lbctl", "config", "set", "dispatch.lease_s", *value, "--cluster")
    return lab.run(host, *words)


def begun_with_a_longer_lease(lab, where, lease_s, seconds):
    """A host counts no more of a lease than it has obeyed the dispatcher for; half of it is longer
    than the one in lbd.toml."""
    assert set_lease(lab, str(lease_s)).returncode == 0
    name, host = begin_elsewhere_than(lab, where, seconds, "h1")
    lab.wait_until(lambda: left_s(lab, host) > lease_s / 2, "the longer lease is in force")
    return name, host


def test_a_job_goes_on_and_others_start_once_its_lease_is_shorter(lab, tmp_path):
    """It was taken for lost and began again beside itself, as its host still had the long lease and
    sent no heartbeat for a quarter of it."""
    name, _ = begun_with_a_longer_lease(lab, tmp_path, 12, "12")
    assert set_lease(lab, "--unset").returncode == 0
    others = [submit(lab, tmp_path, "0.1") for _ in range(3)]
    wait(lab, name, *others)
    check_counts(tmp_path, [name, *others])
    assert [one["state"] for one in job(lab, name)["attempts"]] == ["done"]


def test_a_job_of_a_host_that_is_cut_off_begins_again_after_the_lease_that_it_has(lab, tmp_path):
    name, host = begun_with_a_longer_lease(lab, tmp_path, 12, "25")
    lab.cut("h1", host)
    set_lease(lab, "--unset")  # that host does not hear of it
    try:
        lab.wait_until(lambda: len(job(lab, name)["attempts"]) > 1, "it begins again")
    finally:
        lab.heal()
        set_lease(lab, "--unset")
    wait(lab, name, seconds=90)
    check_counts(tmp_path, [name])
    states = [one["state"] for one in job(lab, name)["attempts"]]
    assert (states[0], states[-1]) == ("lost", "done")
