"""Jobs that are requeued again and again, as their users may: the record of each is bounded, and so
is what is read of all."""

from types import SimpleNamespace

from lbd.dispatch.core.ledger_rows import ATTEMPTS_KEPT
from lbd.dispatch.core.records import Begin
from lbd.dispatch.job_view import ATTEMPTS_SHOWN, add_attempts
from lbd.model import JobId
from lbd.net.gen import dispatch_pb2 as pb
from tests.unit.dispatch.ledger.test_ledger import H1, ledger, submission  # noqa: F401  # a fixture


async def begin(ledger, *numbers, jobs=("1",)):  # noqa: F811
    for number in numbers:
        await ledger.record([Begin(JobId(job), number, H1, 1, None) for job in jobs], 2.0)


async def numbers(ledger, *more):  # noqa: F811
    return [one.number for one in await ledger.attempts([JobId("1")], *more)]


async def test_of_each_job_the_last_attempts_are_kept(ledger):  # noqa: F811
    await ledger.submit(submission(count=2), 1.0)
    await begin(ledger, *range(1, ATTEMPTS_KEPT + 1), jobs=("1", "2"))
    assert await numbers(ledger) == list(range(1, ATTEMPTS_KEPT + 1))
    await begin(ledger, ATTEMPTS_KEPT + 1, ATTEMPTS_KEPT + 2)
    assert await numbers(ledger, 10 * ATTEMPTS_KEPT) == list(range(3, ATTEMPTS_KEPT + 3))
    assert await numbers(ledger, 2) == [ATTEMPTS_KEPT + 1, ATTEMPTS_KEPT + 2]
    assert len(await ledger.attempts([JobId("2")])) == ATTEMPTS_KEPT


async def test_records_that_an_earlier_release_kept_are_dropped_with_the_next(ledger, monkeypatch):  # noqa: F811
    await ledger.submit(submission(), 1.0)
    monkeypatch.setattr("lbd.dispatch.ledger.work.ATTEMPTS_KEPT", 1000)
    await begin(ledger, *range(1, ATTEMPTS_KEPT + 20))
    monkeypatch.undo()
    await begin(ledger, ATTEMPTS_KEPT + 20)
    assert await numbers(ledger, 1000) == list(range(21, ATTEMPTS_KEPT + 21))


async def test_an_answer_about_many_jobs_has_the_last_attempts_of_each():
    asked = []

    async def attempts(jobs, most):
        asked.append(most)
        return [SimpleNamespace(job=int(job), number=7, host="h1", tier=1, fate="done",
                                cutoff_s=None, started=1.0, finished=2.0, reason="", slots=1,
                                exit_status=0, cpu_s=0.5) for job in jobs]  # fmt: skip

    for count in (1, 1000, 3 * ATTEMPTS_SHOWN):
        jobs = [pb.JobInfo(id=number) for number in range(1, count + 1)]
        await add_attempts(jobs, SimpleNamespace(attempts=attempts))
        assert all(job.attempts[0].number == 7 for job in jobs)
    assert asked == [ATTEMPTS_SHOWN, ATTEMPTS_SHOWN // 1000, 1]
