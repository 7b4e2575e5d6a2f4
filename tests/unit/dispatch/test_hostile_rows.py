"""Another program has written to the ledger: invalid rows do not keep other users' jobs waiting."""

import asyncio
import sqlite3

import pytest

from lbd.dispatch.core.row_faults import KINDS, RANGES
from tests.unit.dispatch.services import asking, opened

INF, LARGEST, NO_TEXT = float("inf"), (1 << 63) - 1, b"\xff\xfe"


@pytest.fixture
async def ledger(tmp_path):
    path = tmp_path / "ledger.sqlite"
    async with opened(path) as world:
        for asked in (
            asking(), asking(count=3, is_array=True, first_index=0),
            asking(after=["ok:1"]), asking(),
        ):  # fmt: skip
            assert (await world.submit(asked)).error == ""
        world.host("h1", slots=1)
        await world.dispatcher.settled()
        assert world.dispatcher.life.leased
    return path


@pytest.mark.parametrize(
    ("table", "column", "where", "value", "left_out"),
    [
        ("jobs", "attempt", "id = 1", "garbage", {"1"}),
        ("jobs", "reason", "id = 5", b"\xff\x00", {"5"}),
        ("submissions", "command", "first_job = 2", "no bytes", {"2", "3", "4"}),
        ("submissions", "spec", "first_job = 6", "no bytes", set()),  # only that one fails
        ("submissions", "spec", "first_job = 6", b"\xff\xff", set()),
        ("submissions", "slots", "first_job = 2", "\x1b[2J", {"2", "3", "4"}),
        ("submissions", "target", "first_job = 6", "soon", {"6"}),
        ("submissions", "gang", "first_job = 2", "x", {"2", "3", "4"}),
        ("submissions", "needs", "first_job = 6", "\x1b[2J gpu=", {"6"}),
        ("submissions", "run_after", "first_job = 5", "garbage", {"5"}),
        ("submissions", "run_after", "first_job = 5", "ok:1-999999999999999:1", {"5"}),
        ("submissions", "run_after", "first_job = 5", "task:2-4:0-2", {"5"}),
        ("submissions", "run_after", "first_job = 5", "never:1-1:1", {"5"}),
        ("attempts", "slots", "job = 1", "garbage", {"1"}),  # it may be alive: no other is started
        # Invalid numbers
        ("jobs", "attempt", "id = 1", 1 << 32, {"1"}),
        ("jobs", "submission", "id = 5", "none", {"5"}),
        ("jobs", "exit_status", "id = 5", 1 << 40, {"5"}),
        ("jobs", "signal", "id = 5", -(1 << 63), {"5"}),
        ("jobs", "submitted", "id = 5", INF, {"5"}),
        ("jobs", "slots_held", "id = 2", LARGEST, {"2"}),
        ("jobs", "state", "id = 5", "\x1b[2J", {"5"}),
        ("submissions", "slots", "first_job = 6", -1, {"6"}),
        ("submissions", "slots", "first_job = 6", 1 << 32, {"6"}),
        ("submissions", "slots_most", "first_job = 6", LARGEST, {"6"}),
        ("submissions", "priority", "first_job = 6", 1 << 31, {"6"}),
        ("submissions", "uid", "first_job = 6", -1, {"6"}),
        ("submissions", "gang", "first_job = 2", -1, {"2", "3", "4"}),
        ("submissions", "target", "first_job = 2", INF, {"2", "3", "4"}),
        ("submissions", "deadline", "first_job = 2", INF, {"2", "3", "4"}),
        ("submissions", "not_before", "first_job = 6", 1e308, {"6"}),
        ("submissions", "at_once", "first_job = 2", -1, {"2", "3", "4"}),
        ("submissions", "first_job", "first_job = 2", LARGEST, {"2", "3", "4"}),
        ("submissions", "first_job", "first_job = 2", "x", {"2", "3", "4"}),
        ("submissions", "jobs", "first_job = 2", LARGEST, {"2", "3", "4"}),
        ("submissions", "indexes", "first_job = 2", "7", set()),  # fewer indexes than tasks
        ("attempts", "slots", "job = 1", -1, {"1"}),
        ("attempts", "number", "job = 1", -1, {"1"}),
        ("attempts", "exit_status", "job = 1", 1 << 40, {"1"}),
        # Bytes that are not text in a text column
        ("submissions", "user", "first_job = 6", NO_TEXT, set()),
        ("jobs", "reason", "id = 5", NO_TEXT, set()),
        ("attempts", "host", "job = 1", NO_TEXT, set()),
    ],
)
async def test_a_row_that_makes_no_sense_is_left_out_and_logged(
    ledger, caplog, table, column, where, value, left_out
):
    with sqlite3.connect(ledger) as connection:
        new = "CAST(? AS TEXT)" if value is NO_TEXT else "?"
        statement = f'UPDATE {table} SET "{column}" = {new} WHERE {where}'  # above
        assert connection.execute(statement, (value,)).rowcount
    connection.close()
    async with opened(ledger) as world:
        async with asyncio.timeout(10):
            await world.dispatcher._restore()
            host = world.host("h2", slots=16)
            await world.dispatcher.settled()
        taken_up = set(world.dispatcher.life.jobs)
        assert taken_up == {"1", "2", "3", "4", "5", "6"} - left_out
        assert not left_out & {str(start.job) for start in host.starts}
        for by_array in (False, True):
            asked = {"selectors": ["1-6"], "ended_too": True, "with_attempts": True}
            shown = (await world.jobs(**asked, by_array=by_array)).jobs
            tasks = {"3", "4"} if by_array else set()
            assert taken_up - tasks <= {str(job.id) for job in shown}
        assert not (await world.submit(asking())).error
    said = [text for text in caplog.messages if "makes no sense" in text]
    assert all(text.isprintable() and "left out" in text for text in said)


@pytest.mark.parametrize("change", ["DELETE FROM counters", "UPDATE counters SET value = 'x'"])
async def test_a_ledger_that_has_lost_count_refuses_jobs_and_continues(ledger, change):
    """This once ended its writer: everyone who asked for a write waited forever."""
    with sqlite3.connect(ledger) as connection:
        connection.execute(change)
    connection.close()
    async with opened(ledger) as world, asyncio.timeout(10):
        for _ in range(2):
            assert "number" in (await world.submit(asking())).error
        assert (await world.jobs(selectors=["1-6"])).jobs


def test_every_number_of_a_row_has_bounds():
    for kind, kinds in KINDS.items():
        numbers = {name for name, of in kinds.items() if int in of and bool not in of}
        foretold = {"predicted_s", "foretold_s", "foretold_low_s", "foretold_high_s"}
        assert numbers - RANGES[kind].keys() <= foretold  # these decide nothing


async def test_what_comes_after_an_invalid_long_array_is_taken_up(ledger, monkeypatch):
    with sqlite3.connect(ledger) as connection:
        connection.execute("UPDATE submissions SET needs = '?' WHERE first_job = 2")
    connection.close()
    monkeypatch.setattr("lbd.dispatch.daemon.READ_AT_ONCE", 1)
    async with opened(ledger) as world:
        await world.dispatcher._restore()
        assert set(world.dispatcher.life.jobs) == {"1", "5", "6"}
