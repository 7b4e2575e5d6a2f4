"""Which jobs the LIM is told of, and which not."""

import asyncio

import pytest

from lbd.lbm.outbound import lim as lim_module
from lbd.lbm.outbound.lim import LimNotes


class Lim:
    def __init__(self):
        self.heard = asyncio.Event()
        self.told = []

    def notify(self, *notices):
        self.told += notices
        self.heard.set()


@pytest.fixture
def lim():
    return Lim()


async def test_it_is_not_told_of_short_jobs_that_follow_each_other(lim, monkeypatch):
    """The timer set for the first job fires while another runs, which is as short."""
    monkeypatch.setattr(lim_module, "LINGER_S", 0.0)
    notes = LimNotes(lim)
    notes.placed("h1-1", dict)
    notes.ended("h1-1", "h2", charged=True)
    monkeypatch.setattr(lim_module, "LINGER_S", 3600.0)
    notes.placed("h1-2", dict)
    notes.started("h1-3", {})
    while notes._timer.when() < asyncio.get_running_loop().time() + 60:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert lim.told == []
    notes.ended("h1-2", "h2", charged=True)
    notes.ended("h1-3", "h2", charged=False)
    notes.flush()
    assert lim.told == []


async def test_it_is_told_of_a_longer_job_and_of_its_end(lim, monkeypatch):
    monkeypatch.setattr(lim_module, "LINGER_S", 0.0)
    notes = LimNotes(lim)
    notes.placed("h1-1", lambda: {"op": "place", "job": "h1-1"})
    await asyncio.wait_for(lim.heard.wait(), 20)
    notes.started("h1-2", {"pid": 7})
    notes.ended("h1-1", "h2", charged=True)
    notes.flush()
    assert lim.told == [
        {"op": "place", "job": "h1-1"},
        {"op": "job", "event": "end", "job": "h1-1", "host": "h2"},
        {"op": "job", "event": "start", "job": "h1-2", "pid": 7},
    ]
    notes.again()
    notes.flush()
    assert lim.told[3:] == lim.told[2:3]
