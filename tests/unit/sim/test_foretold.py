"""The prediction for a live experiment: its own scripts in virtual time."""

import math

from lbd.sim.foretold import Asked, reductions, setup_of
from lbd.sim.scripts import Work

WORK = Work("canonical", 6, 0.28, 6, 0.25, 30.0, ("a", "b"), ("c",))
WORDS = (
    "index=smoothed", "smoothing_s=0.5", "exchange_period_s=0.6", "local_threshold=2.9",
    "min_gain=1.8", "probe_limit=4",
)  # fmt: skip


def test_a_rule_saves_and_nolb_saves_nothing_over_itself():
    asked = [Asked("canonical", name, WORDS) for name in ("NOLB", "LOWEST")]
    nolb, (saved, half) = reductions(asked, {"canonical": WORK}, replications=2, seed=1)
    assert nolb == (0.0, 0.0)
    assert 0.05 < saved < 0.5
    assert 0 < half < saved


def test_more_is_saved_where_loads_are_not_a_second_old():
    """A second is as long as a command here, and a twentieth of one if everything takes longer."""
    long = Work("canonical", 6, 0.28, 6, 5.0, 600.0, ("a", "b"), ("c",))
    slow = ("smoothing_s=10", "exchange_period_s=12")
    short_, long_ = (
        reductions([Asked("canonical", "LOWEST", words)], {"canonical": work}, 2, 1)[0]
        for work, words in ((WORK, WORDS), (long, (*WORDS, *slow)))
    )
    assert short_[0] + short_[1] < long_[0] - long_[1]


def test_its_hosts_are_those_of_the_experiment():
    setup = setup_of(WORK, 3)
    assert (setup.hosts, setup.cores, setup.seed, setup.window_s) == (6, (0.28,), 3, 1.0)


def test_scripts_without_commands_give_no_prediction():
    work = Work("canonical", 6, 0.28, 6, 0.25, 1e-9, ("a",), ("c",))
    ((saved, _),) = reductions([Asked("canonical", "LOWEST", WORDS)], {"canonical": work}, 1, 1)
    assert math.isnan(saved)
