"""Commands that outlive their LBM."""

import pytest

from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution import Phase, survivor
from lbd.lbm.core.slots import (
    ONE_SLOT,
    Belongings,
    Grant,
    Granted,
    pack_belongings,
    read_belongings,
)
from lbd.model import JobId

TWO_GPUS = Grant((Granted("gpu", 2, (0, 3)), Granted("scratch", 1 << 40)), 1 << 30)


@pytest.mark.parametrize("held", [ONE_SLOT, Belongings(3), Belongings(2, TWO_GPUS)])
def test_its_belongings_survive_a_round_trip(held):
    assert read_belongings(pack_belongings(held)) == held


def test_a_plain_command_adds_nothing_to_its_order():
    assert pack_belongings(ONE_SLOT) == b""


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"[1, 2, 3]", b'["x", [], 0]', b'[1, [["gpu", 1]], 0]', b"\xff"]
)
def test_unreadable_belongings_are_refused(data):
    with pytest.raises(ValueError, match="cannot be read"):
        read_belongings(data)


def test_it_holds_everything_until_its_tree_is_gone_and_gets_no_signal_twice():
    """Another TERM would end many programs at once to which the first gave time to clean up."""
    life = survivor(JobId("h2-1"), Belongings(2, TWO_GPUS), is_ending=True)
    assert life.handle(e.Resumed(), 1.0) == []
    assert life.has_slot
    assert e.FreeSlot() in life.handle(e.Exited(e.Exit(137, 9)), 2.0)
    assert life.phase is Phase.DRAINING


def test_a_survivor_that_is_not_ending_is_killed():
    life = survivor(JobId("h2-1"), ONE_SLOT, is_ending=False)
    assert life.handle(e.Resumed(), 1.0) == [e.EndTree()]
