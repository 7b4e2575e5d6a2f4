"""What the dispatcher says of jobs: in several messages where they are many."""

import time
from types import SimpleNamespace

from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.job_view import JobViews, in_pieces, time_of_day
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from tests.unit.dispatch.core.test_queues import Table
from tests.unit.dispatch.services import asking, opened, request


def test_no_piece_exceeds_the_limit_unless_it_has_a_single_job():
    jobs = [pb.JobInfo(id=n, command=[bytes(size)]) for n, size in enumerate((400, 300, 900, 10))]
    pieces = in_pieces(jobs, 800)
    assert [[job.id for job in piece] for piece in pieces] == [[0, 1], [2], [3]]
    assert all(pb.JobsInfo(jobs=piece).ByteSize() <= 800 for piece in (pieces[0], pieces[2]))
    assert in_pieces([], 800) == [[]]


def test_a_round_time_stays_round_when_the_clocks_differ_by_a_little():
    half_past = time.mktime((2026, 12, 1, 17, 30, 0, 0, 0, -1))
    shown = time_of_day(clock_s() + half_past - time.time() - 0.01)
    assert shown.endswith("17:30")


async def test_a_waiting_job_has_an_interval_before_predictions_can_be_corrected():
    table = Table()
    for life_s in range(5, 100, 5):
        table.queues.resource_times.slots.ended(float(life_s))
    table.host("h1", 1)
    for name in "123":
        table.arrive(name)
    life, forecast = SimpleNamespace(queues=table.queues), Forecast(table.queues)
    views = JobViews(life, None, SimpleNamespace(forecast=forecast))
    job = pb.JobInfo(id=3, predicted_wait_s=60.0)
    await views.add_interval(job)
    # 19 jobs are too few to know what one in twenty takes
    assert not job.HasField("predicted_low_s")
    table.queues.resource_times.slots.ended(100.0)
    await views.add_interval(job)
    assert 0 < job.predicted_low_s < job.predicted_high_s
    corrected = pb.JobInfo(id=3, predicted_wait_s=60.0, predicted_low_s=50.0, predicted_high_s=70.0)
    await views.add_interval(corrected)
    assert (corrected.predicted_low_s, corrected.predicted_high_s) == (50.0, 70.0)
    for other in (pb.JobInfo(id=3), pb.JobInfo(id=9, predicted_wait_s=60.0)):  # running, or gone
        await views.add_interval(other)
        assert not other.HasField("predicted_low_s")


async def test_of_a_job_in_a_directory_of_its_own_it_is_known_where_it_was_submitted(tmp_path):
    command = request(directory=b"/home/ann")
    command.workdir.fetch.extend([b"o.txt", b"log.%a"])
    packed = command.SerializeToString()
    given = []
    async with opened(tmp_path / "ledger.sqlite") as world:
        for job, spec in (("1", pb.StoredSpec(staged_request=packed)),
                          ("2", pb.StoredSpec(run_request=packed))):  # fmt: skip
            await world.submit(asking(spec=spec))
            asked = {"selectors": [job], "with_attempts": True, "ended_too": True, "user": "ann"}
            given.append((await world.jobs(**asked)).jobs[0].given)
    assert [(one.directory, one.submitted_in, list(one.fetch)) for one in given] == [
        (b"", b"/home/ann", [b"o.txt", b"log.%a"]), (b"/home/ann", b"", [])
    ]  # fmt: skip
