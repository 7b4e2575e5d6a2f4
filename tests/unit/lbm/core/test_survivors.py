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
def test_what_it_holds_comes_back_as_it_was(held):
    assert read_belongings(pack_belongings(held)) == held


def test_a_plain_command_costs_its_order_nothing():
    assert pack_belongings(ONE_SLOT) == b""


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"[1, 2, 3]", b'["x", [], 0]', b'[1, [["gpu", 1]], 0]', b"\xff"]
)
def test_what_cannot_be_read_is_refused(data):
    with pytest.raises(ValueError, match="cannot be read"):
        read_belongings(data)


def test_it_holds_all_until_its_tree_is_gone_and_is_asked_nothing_twice():
    """Another TERM ends many programs at once, which the first gave time to clear up."""
    life = survivor(JobId("h2-1"), Belongings(2, TWO_GPUS), is_ending=True)
    assert life.handle(e.Resumed(), 1.0) == []
    assert life.has_slot
    assert e.FreeSlot() in life.handle(e.Exited(e.Exit(137, 9)), 2.0)
    assert life.phase is Phase.DRAINING


def test_one_that_nobody_ends_is_killed():
    life = survivor(JobId("h2-1"), ONE_SLOT, is_ending=False)
    assert life.handle(e.Resumed(), 1.0) == [e.EndTree()]
