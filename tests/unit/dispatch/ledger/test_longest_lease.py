"""The longest lease that may be in force is on record, whatever `dispatch.lease_s` was since."""

import asyncio
import contextlib

import pytest

from lbd.dispatch.core.ledger_rows import LedgerTrouble
from lbd.dispatch.ledger import longest_lease, trouble
from lbd.dispatch.ledger.longest_lease import NAME, LongestLease
from tests.unit.dispatch.leaders import led
from tests.unit.dispatch.ledger.test_ledger import opened
from tests.unit.until import until


@contextlib.asynccontextmanager
async def in_postgres(postgres):
    async with led(postgres.database()) as (_, ledger):
        yield ledger


@pytest.fixture(params=["sqlite", "postgres"])
async def ledger(request, tmp_path):
    if request.param == "sqlite":
        stored = opened(tmp_path / "ledger.sqlite")
    else:
        stored = in_postgres(request.getfixturevalue("postgres"))
    async with stored as ledger:
        yield ledger


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(longest_lease, "LOOK_S", 0.01)
    monkeypatch.setattr(trouble, "RETRY_S", 0.01)


async def test_a_longer_lease_is_on_record_before_it_is_granted(ledger):
    assert await LongestLease(ledger, 30.0).inherit() == 0.0  # the ledger is new, or an older one
    assert await LongestLease(ledger, 900.0).inherit() == 30.0
    assert await ledger.counter(NAME) == 900_000
    for _ in range(2):  # until no lease of 900 s can be in force, however often it starts
        assert await LongestLease(ledger, 5.5).inherit() == 900.0


async def test_it_is_lowered_once_no_attempt_has_a_longer_one(ledger):
    await LongestLease(ledger, 900.0).inherit()
    longest, looks, has_longer = LongestLease(ledger, 5.5), [], True
    await longest.inherit()

    def look():
        looks.append(has_longer)
        return has_longer

    lowering = asyncio.create_task(longest.lower(look))
    await until(lambda: len(looks) > 2)
    assert await ledger.counter(NAME) == 900_000
    has_longer = False
    await until(lambda: longest.kept_s == 5.5)
    lowering.cancel()
    assert await LongestLease(ledger, 5.5).inherit() == 5.5


@pytest.mark.parametrize(("found", "taken_s"), [(-5, 0.0), (1 << 60, 86400.0)])
async def test_an_impossible_value_is_bounded(ledger, found, taken_s):
    await ledger.set_counter(NAME, found)
    assert await LongestLease(ledger, 30.0).inherit() == taken_s


async def test_no_lease_is_granted_that_cannot_be_recorded(ledger, monkeypatch):
    async def full(name, value):
        raise LedgerTrouble("the disk is full")

    monkeypatch.setattr(ledger, "set_counter", full)
    with pytest.raises(LedgerTrouble, match="the disk is full") as raised:
        await LongestLease(ledger, 30.0).inherit()
    assert raised.value.passes, "its dispatcher tries again"
