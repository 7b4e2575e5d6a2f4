"""A submission says the same of its needs as its command does, and waits for what can be."""

import pytest

from tests.unit.dispatch.services import asking


@pytest.mark.parametrize(("inner", "outer"), [("+nowhere", ""), ("gpu=2", "gpu=1"), ("", "+big")])
async def test_a_command_needs_what_its_job_needs(world, inner, outer):
    """The queue goes by the job's needs, a host by the command's. Forty jobs that seemed to need
    nothing went to and fro five hundred times a second, and no other job had a turn."""
    reply = await world.submit(asking({"needs": inner}, needs=outer))
    assert reply.error == "this cannot be queued: its command needs something else than its job"
    assert await world.ledger.live() == []
    assert (await world.submit(asking(needs=inner))).error == ""


@pytest.mark.parametrize("array", [{}, {"is_array": True, "count": 0, "indexes": "1,3"}], ids=str)
@pytest.mark.parametrize(
    ("waits", "error"),
    [
        ({"not_before": -1e308}, "--begin is not valid"),
        ({"not_before": float("nan")}, "--begin is not valid"),
        ({"after": ["ok:1"] * 1001}, "the limit is 1000"),
    ],
    ids=("long ago", "never", "too many"),
)
async def test_what_a_job_waits_for_makes_sense_also_for_an_array(world, array, waits, error):
    """Where its indexes were listed, nobody had looked: with such a time the job was accepted, and
    left out of every list as soon as it was read again."""
    assert error in (await world.submit(asking(**array, **waits))).error
    assert await world.ledger.live() == []
