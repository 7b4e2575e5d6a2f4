"""Cutoffs from the queue's own past: shown, logged, in force, and retained until others are
better."""

import random
import time
from functools import partial

import pytest
from contract import assert_one_line

from lbd.theory.bounded_pareto import BoundedPareto
from tests.live.cluster import FAST, Lab
from tests.live.queue_past import away, put

SIZES = BoundedPareto(0.2, 200.0, 1.0)
JOBS = 600
SETTINGS = (*FAST, "dispatch.lease_s=20", "lbm.slots=1", "tags.solve_every_s=1")


LAB = partial(Lab.up, 2, "none", "--mode", "tags", settings=SETTINGS)


def show(lab, host="h2"):
    return lab.lbctl_json(host, "tags", "show")


def hosts_of(told):
    return [tier["hosts"] for tier in told["tiers"]]


def on_record(db, load):
    """Records jobs that ended within the last hours, at two slots."""
    rng = random.Random(1)
    sizes = [SIZES.sample(rng) for _ in range(JOBS)]
    gap_s = sum(sizes) / JOBS / load / 2
    began = time.time() - JOBS * gap_s
    for number, size in enumerate(sizes):
        put(db, [b"x"], began + number * gap_s, size)


def test_without_past_jobs_there_is_one_queue_for_all(lab):
    told = show(lab)
    assert (told["schema"], told["mode"], told["source"], told["cutoffs"]) == (
        1,
        "tags",
        "none",
        [],
    )
    lab.wait_until(lambda: "on record; 200 are needed" in show(lab)["reason"], "a look")
    (tier,) = show(lab)["tiers"]
    assert (tier["tier"], tier["cutoff_s"], tier["slots"]) == (1, None, 2)
    assert sorted(tier["hosts"]) == ["h1", "h2"]
    assert lab.run("h2", "lbrun", "-q", "echo", "done").stdout == "done\n"
    assert_one_line(
        lab.run("h2", "lbctl", "tags", "fit").stderr, "lbctl", "no fit: ", "jobs on record"
    )


def test_with_past_jobs_cutoffs_are_solved_logged_and_in_force(lab):
    with away(lab) as db:
        on_record(db, load=0.4)
    told = lab.wait_until(
        lambda: (
            (told := show(lab))
            and hosts_of(told) == [["h1"], ["h2"]]
            and told["tiers"][0]["load"] is not None
            and told
        ),
        "both hosts, and what is expected of them",
    )
    (cutoff,) = told["cutoffs"]
    assert 0.2 < cutoff < 200.0
    first, last = told["tiers"]
    assert [first["cutoff_s"], last["cutoff_s"]] == [cutoff, None]
    assert 0 < first["load"] < 1
    assert told["mean_slowdown"] < told["one_queue"]
    assert told["fit"]["good"]
    assert told["fit"]["alpha"] == pytest.approx(1.0, abs=0.15)
    assert told["fit"]["ks_distance"] < 0.07
    log = lab.paths("h1").log("dispatcher").read_text()
    assert f"cutoffs {cutoff:.4g} s: mean slowdown" in log
    assert log.index("cutoffs") < log.rindex("ready host"), "before any job can start"
    assert [change["what"] in log for change in told["changes"]] == [True]

    shown = lab.run("h1", "lbctl", "tags", "show").stdout
    for word in ("solved from the queue's own jobs, for slowdown", "CUTOFF S", "Kolmogorov", "ago"):
        assert word in shown
    fit = lab.lbctl_json("h2", "tags", "fit")
    assert {"k", "p", "alpha", "jobs", "ks_distance", "arrival_rate_per_s"} < fit.keys()
    assert fit["jobs"] in (JOBS, JOBS + 1), "`echo` may be shorter than its start"

    lab.run("h2", "lbrun", "-q", "--no-restart", "true", check=True)
    assert lab.lbctl_json("h2", "job", "last")["host"] == "h2", "the last tier's"
    lab.run("h2", "lbrun", "-q", "true", check=True)
    assert lab.lbctl_json("h2", "job", "last")["host"] == "h1", "the first tier's"
    looked = show(lab)["looked"]
    lab.wait_until(lambda: show(lab)["looked"] > looked + 1, "two more looks")
    assert show(lab)["cutoffs"] == [cutoff], "hysteresis"
