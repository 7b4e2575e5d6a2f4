"""Questions about very many ranges of jobs cost what they find, not that times their number."""

import contextlib
import threading

import pytest

from lbd.dispatch import job_finder
from lbd.dispatch.core.job_selection import SELECTORS_MAX, read_selectors
from lbd.dispatch.core.ledger_rows import Wanted
from lbd.dispatch.ledger import work
from lbd.text import index_list
from tests.unit.dispatch.ledger.test_ledger import ledger, submission  # noqa: F401  # a fixture
from tests.unit.dispatch.services import asking, opened

TOO_MANY = f"more than {SELECTORS_MAX} jobs named at once; use ranges"
MANY = 9_000  # as many as a user's question of 64 KiB holds


def statements(ranges):
    """Returns the statements sent to a store that has no jobs."""
    asked, question = [], work.find(Wanted(tuple(ranges), ended_too=True, limit=100))
    with contextlib.suppress(StopIteration):
        asked.append(next(question))
        while True:
            asked.append(question.send([]))
    return asked


@pytest.mark.parametrize(
    ("ranges", "count"),
    [
        ([(1, 2)] * MANY, 1),
        ([(number, number + 5) for number in range(MANY)], 1),
        ([(3 * number, 3 * number + 1) for number in range(MANY)], MANY),
        ([(2 * number, 2 * number) for number in range(MANY)], MANY // work.VALUES_MAX),
        ([(4 * n, 4 * n + n % 2) for n in range(10)], 10),
    ],
    ids=["the same", "overlapping", "apart", "single jobs", "by turns"],
)
def test_no_statement_tries_many_ranges_with_each_job(ranges, count):
    """Nine thousand at once took SQLite ten seconds for three jobs, half a minute for many."""
    asked = statements(ranges)
    assert len(asked) == count
    assert all(one.sql.count("BETWEEN") <= 1 for one in asked)
    assert all(len(one.values) <= work.VALUES_MAX + 2 for one in asked)


@pytest.mark.parametrize(("limit", "bytes_max"), [(100, 0), (4, 0), (100, 1), (100, 10_000)])
async def test_each_job_comes_once_and_in_order(ledger, limit, bytes_max):  # noqa: F811
    await ledger.submit(submission(first_index=0, count=20), 1.0)
    ranges = ((18, 30), (4, 7), (6, 9), (2, 2), (12, 12), (14, 14), (12, 12))
    wanted = Wanted(ranges, ended_too=True, limit=limit, bytes_max=bytes_max)
    found = [row.id for row in await ledger.find(wanted)]
    all_of_them = [2, 4, 5, 6, 7, 8, 9, 12, 14, 18, 19, 20]
    assert found == all_of_them[-1 if bytes_max == 1 else -limit :]


async def test_jobs_beyond_the_size_of_an_answer_are_not_looked_up(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        await world.submit(asking())
        selectors = ["1"] * (SELECTORS_MAX + 1)
        assert (await world.jobs(selectors=selectors, user="ann")).error == TOO_MANY
        for verb in ("kill", "requeue"):
            done = await world.act(selectors=selectors, user="ann", uid=1001, verb=verb)
            assert (list(done.errors), list(done.done_ids)) == ([TOO_MANY], [])
        assert [job.id for job in (await world.jobs(selectors=["1"], user="ann")).jobs] == [1]


@pytest.mark.parametrize(("count", "beside"), [(10, False), (10_000, True)])
async def test_very_many_are_read_beside_the_event_loop(tmp_path, monkeypatch, count, beside):
    """A host's question of a hundred thousand ranges, a few bytes each, stopped the queue for most
    of a second, again and again."""
    threads = []

    def recording(read):
        def recorded(*given):
            threads.append(threading.get_ident())
            return read(*given)

        return recorded

    for name in ("read_selectors", "tasks_of"):
        monkeypatch.setattr(job_finder, name, recording(getattr(job_finder, name)))
    async with opened(tmp_path / "ledger.sqlite") as world:
        await world.submit(asking(count=2, is_array=True))
        selectors = [f"1_[0-{number}]" for number in range(1, count + 1)]
        found = await world.jobs(selectors=selectors, user="ann", some=True)
        assert [job.id for job in found.jobs] == [1, 2]
    assert len(threads) == 2
    assert all((one != threading.get_ident()) == beside for one in threads)


@pytest.mark.parametrize(
    ("selector", "beside"),
    [("1_[0-999998:2,1-999999:2]", False), (f"1_[{','.join(map(str, range(5000)))}]", True)],
)
async def test_what_a_selector_lists_is_not_expanded_in_the_event_loop(
    tmp_path, monkeypatch, selector, beside
):
    """Three hundred such selectors, 10 KB, stopped the queue for a minute and a half, so that
    everybody's leases ended."""
    threads = []

    def recorded(*given):
        threads.append(threading.get_ident())
        return read_selectors(*given)

    monkeypatch.setattr(job_finder, "read_selectors", recorded)
    monkeypatch.setattr(index_list, "in_order", None)
    async with opened(tmp_path / "ledger.sqlite") as world:
        await world.submit(asking(count=2, is_array=True))
        found = await world.jobs(selectors=[selector], user="ann", some=True)
    assert [job.id for job in found.jobs] == ([1, 2] if beside else [])
    assert found.error == ("" if beside else TOO_MANY)
    assert [one != threading.get_ident() for one in threads] == [beside]


async def test_all_that_the_selectors_list_together_is_limited(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        await world.submit(asking(count=2, is_array=True))
        listed = ",".join(["0"] * (SELECTORS_MAX // 2))
        found = await world.jobs(selectors=[f"1_[{listed}]", f"1_[{listed},1]"], user="ann")
        assert found.error == TOO_MANY
