"""Reference cycles left behind by long requests."""

import asyncio
import gc
import weakref

import pytest

from lbd.local import budget
from lbd.local.budget import PASSED_BYTES, BudgetOfRequests, Garbage


class Kept:
    """An object in a reference cycle."""

    def __init__(self):
        self.itself = self


@pytest.fixture
def seldom(monkeypatch):
    monkeypatch.setattr(budget, "AGAIN_S", 0.0)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(("size_bytes", "is_left"), [(PASSED_BYTES - 1, True), (1, False)])
async def test_it_is_collected_once_that_many_bytes_have_passed(seldom, size_bytes, is_left):
    kept = weakref.ref(Kept())
    passed = Garbage()
    passed.passed(size_bytes)
    if not is_left:
        passed.passed(PASSED_BYTES - size_bytes)
    await asyncio.sleep(0.01)
    assert (kept() is not None) == is_left
    again = weakref.ref(Kept())
    passed.passed(PASSED_BYTES)
    await asyncio.sleep(0.01)
    assert again() is None


async def test_what_is_given_back_of_a_budget_of_requests_has_passed(seldom):
    budget, kept = BudgetOfRequests(PASSED_BYTES, PASSED_BYTES), weakref.ref(Kept())
    assert budget.take("ann", PASSED_BYTES)
    await asyncio.sleep(0.01)
    assert kept() is not None
    budget.give_back("ann", PASSED_BYTES)
    await asyncio.sleep(0.01)
    assert (kept(), budget.held) == (None, 0)
