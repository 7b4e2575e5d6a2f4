"""Every algorithm under fault schedules from seeds: always safe, and together again once healed.

`LBD_FAULT_SEEDS=500` runs so many for each algorithm instead of ten, `LBD_FAULT_SEEDS=17:18` the
one that failed.
"""

import os

import pytest

from lbd.config.schema import ALGORITHMS
from lbd.sim.faults.schedule import KINDS, FaultRun, drawn
from lbd.sim.faults.signed_settings import KINDS as SIGNED_KINDS
from lbd.sim.faults.signed_settings import SignedCluster, SignedRun
from lbd.testing.virtual_cluster import VirtualCluster

FIRST, _, END = os.environ.get("LBD_FAULT_SEEDS", "10").rpartition(":")
SEEDS = range(int(FIRST or 0), int(END))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_after_any_faults_a_healed_cluster_converges(algorithm, seed):
    run = FaultRun(algorithm, seed, kind=VirtualCluster)
    run.run()
    assert run.decided > 20
    run.converge()


class SignedOverTheWire(SignedCluster, VirtualCluster):
    pass


@pytest.mark.parametrize("seed", SEEDS)
def test_the_newest_signed_settings_hold_and_no_others_ever_do(seed):
    run = SignedRun(seed, kind=SignedOverTheWire)
    run.run()
    run.converge()


def test_ten_seeds_make_restore_and_forge_settings():
    runs = [SignedRun(seed) for seed in range(10)]
    kinds = {fault.kind for run in runs for fault in run.schedule}
    assert kinds == set(SIGNED_KINDS)


class Believing(SignedCluster):
    """A cluster whose hosts check no seal."""

    def vetted(self, host, message):
        return message


def test_a_forged_policy_that_is_believed_is_noticed():
    noticed = 0
    for seed in range(3):
        try:
            SignedRun(seed, kind=Believing).run()
        except AssertionError as problem:
            noticed += "nobody made" in str(problem) or "not what" in str(problem)
    assert noticed


def test_the_schedules_of_ten_seeds_hold_every_kind_of_fault():
    names = FaultRun("GLOBAL", 0).names
    assert {fault.kind for seed in range(10) for fault in drawn(seed, names)} == set(KINDS)


def test_a_run_follows_from_its_seed():
    first, again = FaultRun("RESERVE", 3), FaultRun("RESERVE", 3)
    for run in (first, again):
        run.run()
    assert first.schedule == again.schedule
    assert first.decided == again.decided
    sent = [[run.cluster[name].sent for name in run.names] for run in (first, again)]
    assert sent[0] == sent[1]
