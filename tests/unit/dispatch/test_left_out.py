"""What an answer without room for all jobs on record has, and what it lacks."""

import math

import pytest

from tests.unit.dispatch.services import asking, opened

WHO, BOB = {"user": "ann", "uid": 1001}, {"user": "bob", "uid": 1002}


@pytest.fixture
async def world(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        yield world


async def test_of_many_jobs_on_record_only_ended_ones_are_left_out(world, monkeypatch):
    """squeue and `scancel -u` missed a live job that was older than as many ended ones as an answer
    has room for."""
    waits = (await world.submit(asking())).first
    ended = (await world.submit(asking(BOB, **BOB, is_array=True, first_index=1, count=5))).first
    await world.act(verb="kill", selectors=[f"{ended}"], **BOB)
    others = (await world.submit(asking(BOB, **BOB))).first
    monkeypatch.setattr("lbd.dispatch.job_finder.ANSWER_MAX", 4)
    monkeypatch.setattr("lbd.dispatch.service.ANSWER_MAX", 4)
    for asked, expected, unlisted in (
        ({}, [waits, others], 0), ({"of_user": "ann"}, [waits], 0),
        ({"of_user": "bob"}, [others], 0), ({"of_user": "bob", **WHO}, [waits], 0),
        ({"ended_since": 1.0}, [waits, ended + 3, ended + 4, others], 3),
        ({"ended_since": 1.0, **WHO}, [waits], 0), ({"ended_since": 1e11}, [waits, others], 0),
    ):  # fmt: skip
        told = await world.jobs(**asked)
        assert ([job.id for job in told.jobs], told.unlisted) == (expected, unlisted)


@pytest.mark.parametrize("since", [math.nan, math.inf, -1.0, 2e11])
async def test_a_time_that_is_none_is_refused_in_one_line(world, since):
    await world.submit(asking())
    assert (await world.jobs(ended_since=since)).error == "ended_since is no time"
