"""Predictions at submission: stored, compared with what happened, and reported."""

import asyncio
from dataclasses import replace

import pytest

from lbd.dispatch.core.discipline import Foretold, QueuedJob
from lbd.dispatch.core.ledger_rows import Submission, Wanted
from lbd.dispatch.core.records import Begin, Cause, Ending, Fate
from lbd.dispatch.core.run_times import line_of, name_hash
from lbd.dispatch.ledger.sqlite import SqliteLedger
from lbd.dispatch.prediction_info import Compared, why_uncorrected
from lbd.dispatch.predictions import Predictions, Turns, came_true
from lbd.errors import LbdError
from lbd.model import NO_NEEDS, HostId, JobId, JobState
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from lbd.theory.calibration import FEWEST, PROVEN, CameTrue, Trust, judged
from tests.unit.dispatch.core.malleable.test_heads import SHORT_LIVES_S, Table
from tests.unit.dispatch.gangs import Table as GangTable
from tests.unit.dispatch.ledger.test_ledger import changed

H1 = HostId("h1")


@pytest.fixture
async def ledger(tmp_path):
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    yield ledger
    await ledger.close()


async def ran(ledger, predicted_s, waited_s):
    """A job that came at 1000 s and started later."""
    sent = Submission(
        "ann", 1000, "h1", "", b"true", b"", foretold=Foretold(predicted_s, predicted_s)
    )
    await runs(ledger, JobId(str((await ledger.submit(sent, 1000.0)).first)), 1000.0 + waited_s)


async def runs(ledger, job, began_s):
    await ledger.record([Begin(job, 1, H1, 1, None)], 1000.0)
    await ledger.record([changed(job, JobState.RUNNING, Fate.RUNNING)], began_s)
    over = Ending(Cause.EXITED, 0)
    await ledger.record([changed(job, JobState.DONE, Fate.DONE, over)], 2000.0)


SHORT = [(1.0 + n % 3, 30.0) for n in range(60)]  # predicted far too short


def came_true_as(outcomes):
    return [CameTrue(*one) for one in outcomes]


def table():
    found = Table("pred", lives_s=SHORT_LIVES_S)
    found.host("h1", 4)
    return found


async def test_the_calibration_covers_all_ended_jobs_with_a_prediction(ledger):
    predictions = Predictions(table().queues, ledger, by_uid=False)
    for n in range(30):
        await ran(ledger, 10.0 * 1.1**n, 20.0 * 1.1**n)  # always twice as long
    await ledger.submit(Submission("ann", 1000, "h1", "", b"true", b""), 1.0)
    found = (await predictions.calibration()).calibration
    assert found.jobs == 30
    assert (found.slope, found.intercept) == pytest.approx((1.0, 0.30103), abs=1e-3)
    assert found.cc_raw == pytest.approx(1.0)
    predictions.learn_from(await predictions._came_true(1000))
    assert predictions.compared.jobs == 20  # as none proved an interval: each was longer
    assert predictions.correction.corrected_s(50.0) == pytest.approx(100.0, rel=1e-3)


async def test_forecasts_that_never_come_true_are_reported_as_such(ledger):
    world = table()
    world.arrive("first", slots=4)
    predictions = Predictions(world.queues, ledger, by_uid=False)
    bad = came_true_as([(20.0 + n, (20.0 + n) * 7.0 ** (-1) ** n) for n in range(60)])
    predictions.learn_from(bad[:19])
    assert not predictions.doubt
    predictions.learn_from(bad)
    said = "half of the last 50 forecasts here were off by a factor of 7.0 or more"
    assert predictions.doubt == said
    reply = await predictions.answer(pb.PredictAsked(slots=4, user="ann"))
    assert reply.how.endswith(f"; {predictions.doubt}")
    assert (await predictions.calibration()).calibration.doubt == ""  # of what is in the ledger
    predictions.learn_from(came_true_as([(20.0 + n, 40.0 + n) for n in range(60)]))
    assert not predictions.doubt


@pytest.mark.parametrize(
    ("factor", "before", "is_said"),
    [(2.9, False, False), (3.1, False, True), (2.1, True, True), (1.9, True, False)],
)
def test_the_verdict_on_forecasts_is_stable_between_two_looks(factor, before, is_said):
    predictions = Predictions(table().queues, None, by_uid=False)
    predictions.doubt = "before" if before else ""
    predictions.learn_from(came_true_as([(20.0, 20.0 * factor)] * 30))
    assert bool(predictions.doubt) is is_said


async def test_only_the_first_task_of_an_array_is_compared(ledger):
    """Sixty tasks of two seconds ran one by one: the array was predicted to start at once."""
    sent = Submission("ann", 1000, "h1", "", b"true", b"", first_index=1, count=60)
    first = (await ledger.submit(replace(sent, foretold=Foretold(0.0, 0.0)), 1000.0)).first
    for n in range(60):
        await runs(ledger, JobId(str(first + n)), 1000.1 + 2.0 * n)
    predictions = Predictions(table().queues, ledger, by_uid=False)
    assert [one.outcome for one in await predictions._came_true(1000)] == [
        (0.0, pytest.approx(0.1))
    ]
    assert (await predictions.calibration()).calibration.jobs == 1


async def test_a_correction_is_used_while_it_improves_predictions(ledger):
    """Sixty short waits took thirty times as long as predicted; then long predictions come true."""
    predictions = Predictions(table().queues, ledger, by_uid=False)
    short = [(1.0 + n % 3, 30.0 * (1 + n % 3) + n % 5) for n in range(60)]
    predictions.learn_from(came_true_as(short))
    assert predictions.correction.is_known
    assert predictions.compared.jobs == 60
    predictions.learn_from(came_true_as([*short, *[(200.0 + n, 200.0 + n) for n in range(60)]]))
    assert not predictions.correction.is_known
    assert predictions.compared.jobs == 20, "as they were made they come true"
    assert not predictions.doubt
    apart = [(200.0 + n, (20.0, 2000.0)[n % 2]) for n in range(60)]
    predictions.learn_from(came_true_as([*short, *apart]))
    said = "half of the last 50 forecasts here were off by a factor of 10.0 or more"
    assert predictions.doubt == said
    held = [CameTrue(*one, within_s=(10.0, 3000.0)) for one in apart]
    predictions.learn_from(held)
    assert not predictions.doubt, "an interval so wide misleads nobody"


async def test_there_is_no_outcome_for_jobs_that_started_twice_or_were_not_predicted(ledger):
    await ran(ledger, 5.0, 7.0)
    (row,) = await ledger.find(Wanted(ended_only=True))
    others = replace(row, attempt=2), replace(row, predicted_s=None), replace(row, requeued=1.0)
    assert [one.outcome for one in came_true([row, *others])] == [(5.0, 7.0)]


def test_no_prediction_is_made_for_jobs_that_start_out_of_turn():
    gangs = GangTable()
    predictions = Predictions(gangs.life.queues, None, by_uid=False)
    sent = Submission("ann", 1000, "h1", "", b"true", b"")
    assert predictions.of_submission(sent) == Foretold(0.0, 0.0)
    assert predictions.of_submission(replace(sent, needs="gpu=1")) is None  # no host has one
    array = replace(sent, first_index=1, count=3)
    others = replace(array, gang=3), replace(array, target=1e9), replace(array, deadline=1e9)
    assert [predictions.of_submission(one) for one in others] == [None] * 3
    gangs.submit()
    gangs.gang(6)  # more than are free: slots are reserved for it
    assert predictions.of_submission(sent) is None


def test_what_is_kept_of_a_forecast_is_what_is_shown_of_it():
    world = Table("pred")
    world.now_s = clock_s()
    world.host("h1", 2)
    for n in range(30):
        world.queues.resource_times.slots.ended(5.0 * 1.1**n)
    for name in ("1", "2", "3", "4"):
        world.arrive(name)
    predictions = Predictions(world.queues, None, by_uid=False)
    kept = predictions.of_submission(Submission("ann", 1000, "h1", "", b"true", b""))
    world.arrive("5")
    shown = predictions.forecast.of(world.queues.registry[JobId("5")], clock_s())
    told = kept.wait_s, kept.low_s, kept.high_s
    assert told == pytest.approx((shown.wait_s, *shown.within_s), abs=0.2)
    assert shown.within_s[1] > 2 * shown.within_s[0]


async def test_a_question_is_answered_with_a_table(ledger):
    world = table()
    world.arrive("first", slots=3)
    predictions = Predictions(world.queues, ledger, by_uid=False)
    asked = pb.PredictAsked(slots=1, slots_most=4, parallelism=4.0, work_s=400.0, user="ann")
    reply = await predictions.answer(asked)
    assert (reply.free, [one.slots for one in reply.choices]) == (1, [1, 2, 3, 4])
    assert reply.choices[0].begins_in_s == reply.wait_s == 0.0
    assert reply.choices[3].runs_s == 100.0
    assert reply.picks["AVG"] == 1
    assert (reply.warning, reply.speedup.source) == ("", "given")


@pytest.mark.parametrize(
    ("words", "slots", "runs_s", "said"),
    [
        (b"solve\0-n", 1, 30.0, "as the median of 3 earlier runs of this command line on 1 slot"),
        (b"solve\0-m", 1, 30.0, "30s, as the only other command line of this program on 1 slot"),
        (b"other", 1, 20.0, "no run of this command by you on 1 slot in the queue has come to its"),
        # It said that no run of it had ended.
        (b"solve\0-n", 2, 20.0, "by you on 2 slots in the queue has come to its own end yet"),
    ],
)  # fmt: skip
async def test_the_expected_duration_of_a_command_is_what_it_took_before(
    ledger, words, slots, runs_s, said
):
    world = table()
    predictions = Predictions(world.queues, ledger, by_uid=False)
    for took_s in (5.0, 30.0, 90.0):
        ran_before = QueuedJob(
            JobId("1"), user="ann", command=name_hash("solve"), command_line=line_of(b"solve\0-n")
        )
        world.queues.run_times.ended(ran_before, took_s)
    ended = world.queues.resource_times.slots
    while ended.count < 99:
        ended.ended((20.0, 5.0, 3600.0)[ended.count % 3])
    name = words.partition(b"\0")[0].decode()
    asked = pb.PredictAsked(slots=slots, user="ann", command=name, words=words)
    reply = await predictions.answer(asked)
    (choice,) = reply.choices
    assert (choice.runs_s, reply.runs_is_guess) == (runs_s, runs_s == 20.0)
    assert said in reply.how
    other = "how long it runs is a guess (it is the median of 99 ended jobs of other commands)"
    assert (other in reply.how) == reply.runs_is_guess
    assert not reply.warning  # one slot has no speedup


async def test_no_run_time_is_shown_where_no_job_has_ended(ledger):
    world = Table("pred")
    world.host("h1", 4)
    predictions = Predictions(world.queues, ledger, by_uid=False)
    asked = pb.PredictAsked(slots=1, user="ann", command="solve", words=b"solve")
    reply = await predictions.answer(asked)
    assert not reply.choices[0].HasField("runs_s")
    assert "how long it runs is not known: no run of this command" in reply.how
    asked.slots_most = 4
    wide = await predictions.answer(asked)
    assert wide.runs_is_guess
    assert not any(one.HasField("runs_s") for one in wide.choices)


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([(20.0, 20.0)] * 14, "14 forecasts so far could be compared with what happened, and 20"),
        ([(10.0 * 2**n, 20.0 * 2**n) for n in range(30)], ""),
        ([(2e6 + n, 2e6) for n in range(30)], "no forecast that was compared with what happened"),
        (SHORT + [(80.0 + n, 80.0 + n) for n in range(60)],
         "half of the last forecasts were off by less than 5 %, and correcting them makes"),
        (SHORT + [(80.0 + n, (20.0, 320.0)[n % 2]) for n in range(60)],
         "half of the last forecasts were off by a factor of 4.0 or more, and correcting them"),
    ],
)  # fmt: skip
def test_why_a_forecast_is_not_corrected_is_said(outcomes, said):
    predictions = Predictions(table().queues, None, by_uid=False)
    predictions.learn_from(came_true_as(outcomes))
    why = why_uncorrected(predictions.correction, predictions.compared, [90.0], NO_NEEDS)
    assert why.startswith(said)
    assert bool(why) == bool(said)


def test_forecasts_that_cannot_be_made_better_are_no_guesses():
    """They were "a guess: correcting forecasts has not made them better", while the calibration
    said that they can be relied on: there was nothing to correct."""
    predictions, job = Predictions(table().queues, None, by_uid=False), QueuedJob(JobId("1"))
    true = [CameTrue(5.0 + n, 5.0 + n, within_s=(4.0, 90.0)) for n in range(50)]
    predictions.learn_from([*came_true_as(SHORT), *true])
    assert not predictions.corrects(job, 20.0, is_rough=False)
    found = [predictions.comparable(job, raw_s, is_rough=raw_s == 30.0) for raw_s in (20.0, 30.0)]
    assert found == [70, 0]
    assert predictions.comparable(job, 2000.0, is_rough=False) == 0  # none was for so long a wait


async def test_hosts_that_may_not_run_it_do_not_count(ledger):
    world = table()
    predictions = Predictions(world.queues, ledger, by_uid=False)
    for asked in (pb.PredictAsked(slots=1, only="h2"), pb.PredictAsked(slots=1, excluded=["h1"])):
        reply = await predictions.answer(asked)
        assert not reply.choices
    assert (await predictions.answer(pb.PredictAsked(slots=1, only="h1"))).wait_s == 0.0
    with pytest.raises(LbdError, match="hosts"):
        await predictions.answer(pb.PredictAsked(slots=1, excluded=["h 1"]))


async def test_for_a_fixed_number_of_slots_a_command_has_a_duration(ledger):
    world = table()
    world.queues.heads.speedups.ended("ann", name_hash("solve"), 2, 30.0)
    predictions = Predictions(world.queues, ledger, by_uid=False)
    reply = await predictions.answer(pb.PredictAsked(slots=4, user="ann", command="solve"))
    assert [(one.slots, one.runs_s) for one in reply.choices] == [(4, 15.0)]
    assert set(reply.picks.values()) == {4}


async def test_an_assumed_linear_speedup_is_reported(ledger):
    predictions = Predictions(table().queues, ledger, by_uid=False)
    reply = await predictions.answer(pb.PredictAsked(slots=1, slots_most=4, user="ann"))
    assert reply.speedup.source == "linear"
    assert "assumed to be linear up to 4 slots" in reply.warning
    assert "no host" not in reply.warning
    wide = await predictions.answer(pb.PredictAsked(slots=1, slots_most=64))
    assert "assumed to be linear up to 64 slots" in wide.warning
    assert wide.warning.endswith("; no host that accepts jobs now has more than 4 slots")


@pytest.mark.parametrize(
    "fields",
    [{"slots": 1 << 20}, {"parallelism": 0.5}, {"parallelism": 2.0, "sigma": float("nan")},
     {"work_s": -1.0}, {"command": "x" * 300}, {"needs": "gpu=0"}],
)  # fmt: skip
async def test_what_cannot_be_is_refused(ledger, fields):
    predictions = Predictions(table().queues, ledger, by_uid=False)
    with pytest.raises(LbdError, match="this cannot be predicted"):
        await predictions.answer(pb.PredictAsked(**fields))


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


async def asks(turns, clock, order, host, user, took_s=1.0):
    async with turns.turn(host, user):
        order.append((host, user))
        clock.now_s += took_s


async def under_way(*tasks):
    """Lets the tasks proceed as far as they can without time passing."""
    for _ in range(20):
        await asyncio.sleep(0)
    return [task for task in tasks if not task.done()]


async def test_who_asks_again_and_again_has_a_quarter_of_the_time():
    clock, order = Clock(), []
    turns = Turns(clock)
    await asks(turns, clock, order, "h1", "ann")
    again = asyncio.create_task(asks(turns, clock, order, "h1", "ann"))
    assert await under_way(again)
    await asks(turns, clock, order, "h2", "bob")  # h2 does not wait for that
    assert (clock.now_s, order) == (102.0, [("h1", "ann"), ("h2", "bob")])
    assert (turns._left_s(("h1", "ann")), turns._left_s(("h1",))) == (2.0, 0.0)
    again.cancel()


async def test_quickly_answered_questions_do_not_wait():
    clock, order = Clock(), []
    turns = Turns(clock)
    for _ in range(50):
        await asks(turns, clock, order, "h1", "ann", took_s=0.01)
    assert clock.now_s == pytest.approx(100.5)


async def test_nor_has_a_host_all_of_it_by_users_of_many_names():
    clock, order = Clock(), []
    turns = Turns(clock)
    for number in range(3):
        clock.now_s = max(clock.now_s, clock.now_s + turns._left_s(("h1",)))
        await asks(turns, clock, order, "h1", f"user{number}")
    assert clock.now_s == 105.0
    assert turns._left_s(("h1",)) == 1.0


async def test_who_asks_the_same_again_soon_has_the_same_answer(ledger):
    predictions = Predictions(table().queues, ledger, by_uid=False)
    asked = pb.PredictAsked(slots=1, slots_most=4, parallelism=4.0, work_s=400.0, user="ann")
    kept = pb.PredictInfo(how="long")
    predictions._same[asked.SerializeToString(deterministic=True)] = clock_s() + 1e6, kept
    assert await predictions.answer(asked) is kept
    other = await predictions.answer(pb.PredictAsked(slots=2, user="ann"))
    assert other.how != "long"
    predictions._same[asked.SerializeToString(deterministic=True)] = clock_s() - 1.0, kept
    assert (await predictions.answer(asked)).how != "long"


@pytest.mark.parametrize(("held", "is_proven"), [(40, True), (23, False)])
def test_nothing_is_called_nine_in_ten_while_the_last_intervals_were_too_narrow(held, is_proven):
    """It was, beside `57% of the waits were within it`."""
    found = judged([(10.0, 11.0)] * 60)
    assert found.helps
    compared = Compared.of(found, Trust(count=40, intervals=40, held=held))
    assert (compared.jobs >= FEWEST + PROVEN) == is_proven
    assert compared.jobs >= FEWEST
