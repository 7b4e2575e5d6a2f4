"""What one commit of the ledger takes together."""

import asyncio

from lbd.dispatch.core.records import Begin
from lbd.dispatch.ledger import sqlite, work
from lbd.model import JobId
from tests.unit.dispatch.ledger.test_ledger import H1, ledger, submission  # noqa: F401  # a fixture


async def test_submissions_that_come_together_are_added_together(tmp_path):
    db = sqlite.connect(tmp_path / "ledger.sqlite")
    sqlite.migrate(db, tmp_path / "ledger.sqlite")
    done = []
    db.set_trace_callback(lambda text: done.append(text.split()[:3]))
    group = [submission(), submission(key="k", first_index=0, count=3), submission()]
    again = [submission(key="k", first_index=0, count=3), submission()]
    found = sqlite.carry_out(db, work.insert_all([(one, 1.0) for one in group + again]))
    first, array, third, same, last = found
    assert [one.first for one in found] == [1, 2, 5, 2, 6]
    assert (same.submission, same.is_new, array.is_new) == (array.submission, False, True)
    assert done.count(["SELECT", "value", "FROM"]) == done.count(["UPDATE", "counters", "SET"]) == 1
    rows = sqlite.carry_out(db, work.live())
    assert [(row.id, row.submission, row.array_index) for row in rows] == [
        (1, first.submission, None), *((2 + n, array.submission, n) for n in range(3)),
        (5, third.submission, None), (6, last.submission, None),
    ]  # fmt: skip
    assert sqlite.carry_out(db, work.insert(submission(), 1.0)).first == 7
    db.close()


async def test_a_group_of_submissions_and_changes_gives_each_its_own_result(ledger):  # noqa: F811
    waits = [
        ledger.submit(submission(), 1.0), ledger.submit(submission(key="k"), 1.0),
        ledger.record([Begin(JobId("1"), 1, H1, 1, None)], 2.0), ledger.submit(submission(), 3.0),
        ledger.submit(submission(key="k"), 3.0),
    ]  # fmt: skip
    found = await asyncio.gather(*waits)
    assert [one and (one.first, one.is_new) for one in found] == [
        (1, True), (2, True), None, (3, True), (2, False),
    ]  # fmt: skip
