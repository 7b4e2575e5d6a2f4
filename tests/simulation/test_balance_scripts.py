"""Chapter 4 of Zhou's thesis (1987) in virtual time: users who wait for their commands."""

from lbd.sim.balance.scripts import Scripted, as_in_thesis, played
from lbd.sim.balance.setup import Setup, with_settings
from lbd.sim.balance.workload import SCRIPTS
from lbd.sim.figures.figure import Scale, plain_map
from lbd.sim.figures.scripts import algorithms, base, rows
from lbd.sim.scripts import USERS

SCALE = Scale(duration_s=1200.0, replications=4, seed=1)
ROBUST = ("every algorithm", "RANDOM gains least", "GLOBAL, CENTRAL and LOWEST", "the deviation")


def test_a_user_has_one_command_at_a_time_and_every_script_runs_to_its_end():
    setup = Setup(SCRIPTS, hosts=6, duration_s=300.0, costs=SCRIPTS.costs)
    setup = with_settings(setup, ["job_threshold_s=0", "min_gain=0.5"])
    work = as_in_thesis(setup, "canonical")
    _, mine = played(Scripted(setup, work, "LOWEST", 0))
    _, base_ = played(Scripted(setup, work, "NOLB", 0))
    assert sorted(job.cpu_s for job in mine) == sorted(job.cpu_s for job in base_)
    assert all(job.response_s > job.cpu_s - 1e-6 for job in mine)
    assert any(job.host != job.origin for job in mine)
    assert all(job.host == job.origin for job in mine if not job.mobile)
    assert all(job.host == job.origin for job in base_)
    for host in range(6):
        here = [job for job in mine if job.origin == host]
        for job in here:
            others = [o for o in here if o.arrived_s <= job.arrived_s < o.arrived_s + o.response_s]
            assert len(others) <= USERS


def test_findings_of_table_4_7_that_hold_for_any_parameters():
    claims = {claim.text: claim for claim in algorithms(SCALE, plain_map).claims}
    for start in ROBUST:
        (claim,) = (claim for text, claim in claims.items() if text.startswith(start))
        assert claim.holds, claim


def test_the_levels_are_those_of_table_4_4():
    """CPU use 30-45, 60-70, 70-85 %; ours as the scripts are made, over all hosts of a level."""
    for load, low, high in (("light", 0.28, 0.45), ("moderate", 0.5, 0.7), ("heavy", 0.65, 0.9)):
        setup = base(SCALE, 6, ())
        _, jobs = played(Scripted(setup, as_in_thesis(setup, load), "NOLB", 0))
        last_s = max(job.arrived_s for job in jobs)
        use = sum(job.cpu_s for job in jobs) / 6 / last_s
        assert low < use < high, (load, use)


def test_nolb_is_one_run_for_every_row():
    results, nolb = rows([("x", "NOLB", (), 1.0, 1.0)], "light", 6, SCALE, plain_map)
    assert results[0].ratio_to_nolb == nolb.ratio_to_nolb == 1.0
