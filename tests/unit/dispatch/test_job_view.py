"""What the dispatcher says of jobs: in several messages where they are many."""

import asyncio
import math
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.dispatch.array_view import add_tally
from lbd.dispatch.core.discipline import Foretold
from lbd.dispatch.core.ledger_room import Disk
from lbd.dispatch.core.ledger_rows import Submission, Tally, Wanted
from lbd.dispatch.core.outlook.forecast import Prediction
from lbd.dispatch.core.ownership import Asker
from lbd.dispatch.job_view import (
    JobViews,
    cost_bytes,
    encoded,
    in_pieces,
    job_info,
    newest_of,
    time_of_day,
)
from lbd.dispatch.ledger.sqlite import SqliteLedger
from lbd.dispatch.metrics import dispatcher_metrics
from lbd.dispatch.service import ANSWER_BYTES
from lbd.local import steps
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.parsing import ANSWER_FIELDS_MAX
from lbd.process.boot_clock import clock_s
from lbd.text.job_phrases import is_taken_by_none
from tests.unit.dispatch.core.outlook.test_needs_outlook import two_gpus_in_use
from tests.unit.dispatch.core.test_needs import GPU
from tests.unit.dispatch.services import asking, opened, request
from tests.unit.turns import others_turns
from tests.unit.until import until


def test_no_piece_exceeds_the_limit_unless_it_has_a_single_job():
    jobs = [pb.JobInfo(id=n, command=[bytes(size)]) for n, size in enumerate((400, 300, 900, 10))]
    pieces = in_pieces(jobs, 800)
    assert [[job.id for job in piece] for piece in pieces] == [[0, 1], [2], [3]]
    assert all(pb.JobsInfo(jobs=piece).ByteSize() <= 800 for piece in (pieces[0], pieces[2]))
    assert in_pieces([], 800) == [[]]


async def test_an_answer_has_room_for_so_many_words():
    """Each takes its reader as much time as several bytes."""
    jobs = [pb.JobInfo(id=number, command=[b""] * 1000) for number in range(9)]
    assert [len(piece) for piece in in_pieces(jobs, 31_000)] == [3, 3, 3]
    assert await newest_of(jobs, 31_000) == jobs[-3:]
    # Twelve megabytes of them can be read.
    assert 1000 * (ANSWER_BYTES // (10 * 1000)) < ANSWER_FIELDS_MAX // 2


async def test_a_command_is_listed_as_far_as_people_read_it(tmp_path):
    """Whoever listed thirty jobs of a quarter of a million words held up the LBM for seconds."""
    async with opened(tmp_path / "ledger.sqlite") as world:
        assert (await world.submit(asking(command=[b"true"] + [b""] * 19_000))).error == ""
        (row,) = await world.ledger.find(Wanted())
    assert len(row.command) == 19_004, "it is on record as it is"
    assert job_info(row, "", is_final=True).command == [b"true", *[b""] * 999, "…".encode()]


def test_a_round_time_stays_round_when_the_clocks_differ_by_a_little():
    half_past = time.mktime((2026, 12, 1, 17, 30, 0, 0, 0, -1))
    shown = time_of_day(clock_s() + half_past - time.time() - 0.01)
    assert shown.endswith("17:30")


async def test_a_job_that_waits_for_a_resource_has_an_interval():
    table, forecast = two_gpus_in_use()
    for name in "36":
        table.arrive(name, needs=GPU)
    life = SimpleNamespace(queues=table.queues)
    views = JobViews(life, None, SimpleNamespace(forecast=forecast))
    job = pb.JobInfo(id=3, predicted_wait_s=60.0)
    await views.add_interval(job)
    assert 0 < job.predicted_low_s < job.predicted_high_s
    corrected = pb.JobInfo(id=3, predicted_wait_s=60.0, predicted_low_s=50.0, predicted_high_s=70.0)
    await views.add_interval(corrected)
    assert (corrected.predicted_low_s, corrected.predicted_high_s) == (50.0, 70.0)
    behind, gone = (pb.JobInfo(id=n, predicted_wait_s=60.0) for n in (6, 9))
    for other in (pb.JobInfo(id=3), behind, gone):
        await views.add_interval(other)
        assert not other.HasField("predicted_low_s")


async def test_the_interval_of_a_forecast_is_shown_as_it_was_made(tmp_path):
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    await ledger.submit(Submission("ann", 1000, "h1", "", b"true", b""), 1000.0)
    (row,) = await ledger.find(Wanted())
    await ledger.close()
    found = job_info(row, "", False, Prediction(9.0, "how", within_s=(4.0, 30.0)))
    assert (found.predicted_low_s, found.predicted_high_s) == (4.0, 30.0)
    for none in (None, (4.0, math.inf)):
        assert not job_info(row, "", False, Prediction(9.0, "", within_s=none)).HasField(
            "predicted_low_s"
        )


async def test_of_a_job_in_a_directory_of_its_own_it_is_known_where_it_was_submitted(tmp_path):
    command, given = request(directory=b"/home/ann"), []
    staged = request(directory=b"/home/ann")
    staged.workdir.fetch.extend([b"o.txt", b"log.%a"])
    async with opened(tmp_path / "ledger.sqlite") as world:
        for job, run in (("1", staged), ("2", command)):
            spec = pb.StoredSpec(run_request=run.SerializeToString())
            await world.submit(asking(spec=spec))
            asked = {"selectors": [job], "with_attempts": True, "ended_too": True, "user": "ann"}
            given.append((await world.jobs(**asked)).jobs[0].given)
    assert [(one.directory, one.submitted_in, list(one.fetch)) for one in given] == [
        (b"", b"/home/ann", [b"o.txt", b"log.%a"]), (b"/home/ann", b"", [])
    ]  # fmt: skip


async def test_an_array_shows_what_was_predicted_for_its_first_task(tmp_path):
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    foretold = Foretold(60.0, 66.0, 39.0, 108.0)
    sent = Submission(
        "ann", 1000, "h1", "", b"true", b"", first_index=1, count=3, foretold=foretold
    )
    await ledger.submit(sent, 1000.0)
    (row,) = await ledger.find(Wanted(((3, 3),)))
    tally = (await ledger.tallies([row]))[1]
    await ledger.close()
    found = job_info(row, "", False)
    assert not found.HasField("foretold_s")
    add_tally(found, row, tally)
    assert (found.foretold_s, found.foretold_low_s, found.foretold_high_s) == (66.0, 39.0, 108.0)
    assert not found.foretold_is_rough
    add_tally(found, row, replace(tally, foretold=Foretold(None, math.nan)))
    assert not found.HasField("foretold_s")


async def test_what_was_a_rough_guess_at_submission_is_one_after_it(tmp_path):
    """It looked like a promise that was broken: "waited 15s (predicted: 7.0s)"."""
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    sent = Submission("ann", 1000, "h1", "", b"true", b"", foretold=Foretold(None, 7.0))
    await ledger.submit(sent, 1000.0)
    await ledger.submit(replace(sent, first_index=1, count=3), 1000.0)
    await ledger.submit(replace(sent, foretold=Foretold(7.0, 7.0)), 1000.0)
    alone, first, second, _, known = await ledger.find(Wanted())
    shown = [job_info(row, "", False) for row in (alone, first, second, known)]
    assert [one.foretold_is_rough for one in shown] == [True, True, False, False]
    tally = (await ledger.tallies([second]))[second.first]
    await ledger.close()
    add_tally(shown[2], second, tally)
    assert shown[2].foretold_is_rough


@pytest.mark.parametrize(
    ("free_bytes", "once"),
    [
        (0, "there is room on h1: /srv/ledger is full"),
        (1 << 30, "h1 can write the ledger: disk full"),
    ],
)
async def test_a_job_whose_end_is_not_on_disk_says_so_and_counts_as_running(
    tmp_path, monkeypatch, free_bytes, once
):
    """It was listed as running, without a word, while the metric and the status said 0."""
    async with opened(tmp_path / "ledger.sqlite", Config(host=HostConfig(name="h1"))) as world:
        line = world.host("h2")
        for _ in range(2):
            await world.submit(asking())
        world.host("h2", held=[])
        await until(lambda: len(line.starts) == 2)
        reports = [
            pb.AttemptReport(job=one.job, attempt=one.attempt, event="begun") for one in line.starts
        ]
        world.dispatcher.heard("h2", line, pb.WorkUp(reports=reports, sent_s=clock_s()))
        await world.dispatcher.settled()
        never = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(world.ledger, "record", lambda *_: never)
        monkeypatch.setattr(world.ledger, "disk", lambda: Disk(free_bytes, 1 << 40, "/srv/ledger"))
        world.ledger.trouble = "disk full"
        ended = pb.AttemptReport(job="1", attempt=1, event="ended", cause="exited", exit_status=0)
        world.dispatcher.heard("h2", line, pb.WorkUp(reports=[ended], sent_s=clock_s()))
        said = [(job.state, job.reason) for job in (await world.jobs(user="ann")).jobs]
        (unexplained, _) = (await world.jobs(user="ann", unexplained=True)).jobs
        status, shown = await world.status(), dispatcher_metrics(world.dispatcher)["jobs"]
    why = f"the command has ended; it can be recorded once {once}"
    assert said == [("running", why), ("running", "")]
    assert unexplained.reason == why, "`lbctl wait` asks so"
    assert status.running == 2
    assert ["queued", "running", 2] in shown


async def test_a_dispatcher_that_has_just_started_blames_no_host(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        await world.submit(asking())
        said = []
        for until_s in (clock_s() + 60.0, clock_s() - 1.0):
            world.dispatcher.life.hosts.more_until_s = until_s
            said.append((await world.jobs(user="ann")).jobs[0].reason)
    assert said == [
        "no host accepts jobs: none has connected yet, as the dispatcher has just started",
        "no host accepts jobs: none has connected since the dispatcher started",
    ]
    assert not any(map(is_taken_by_none, said))


def test_the_tasks_that_have_not_ended_are_the_same_in_all_lines_of_an_array():
    """`9 pending, 4 running` was followed by `12 not ended`: an end was not on disk yet."""
    row = SimpleNamespace(first=1, slots=1, indexes="", at_once=0, count=20)
    tally = Tally({"pending": 9, "running": 4, "done": 7}, None, None, None, 4)
    shown = pb.JobInfo(target=pb.TargetInfo(left=12, running=4))
    add_tally(shown, row, tally)
    assert shown.target.left == 13
    plain = pb.JobInfo()
    add_tally(plain, row, tally)
    assert not plain.HasField("target")


@pytest.mark.parametrize("by_array", [True, False], ids=["arrays", "tasks"])
async def test_a_long_list_lets_others_be_heard_and_looks_at_the_disk_once(
    tmp_path, monkeypatch, by_array
):
    """A list of eight thousand arrays, of whoever asked, held everything up for 1.5 s."""
    monkeypatch.setattr(steps, "STEP_S", 0.0)  # as if each line took long
    async with opened(tmp_path / "ledger.sqlite") as world:
        for _ in range(20):
            await world.submit(asking(is_array=True, count=2))
        looks, disk = 0, world.ledger.disk

        def look():
            nonlocal looks
            looks += 1
            return disk()

        rows = await world.ledger.find(Wanted())
        lines = await world.desk._finder.lines([], Asker(""), False, 1 << 20)
        monkeypatch.setattr(world.ledger, "disk", look)
        views = world.desk._job_views
        with others_turns() as turns:
            if by_array:
                found = await views.of_lines(lines, explained=True, foretold=True)
            else:
                found = await views.of(rows, explained=True, foretold=True)
        assert len(found) == (20 if by_array else 40)
        assert turns() >= len(found)
        assert looks <= 2


async def test_a_long_answer_is_encoded_while_others_are_heard(monkeypatch):
    monkeypatch.setattr(steps, "STEP_S", 0.0)
    jobs = [pb.JobInfo(id=n, command=[bytes(100)]) for n in range(20)]
    with others_turns() as turns:
        newest = await newest_of(jobs, 10 * (cost_bytes(jobs[1]) + 1))
        data = await encoded(newest, ["no job 7"])
    assert [job.id for job in newest] == list(range(10, 20))
    assert pb.JobsInfo.FromString(data) == pb.JobsInfo(jobs=newest, absent=["no job 7"])
    assert turns() >= 20
    assert await newest_of(jobs[:3], 1) == jobs[2:3]
    assert await newest_of([], 1) == []
