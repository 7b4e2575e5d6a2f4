"""Questions to the dispatcher: each host gets its turn, whatever another asks."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import Config
from lbd.dispatch import calls, host_connection
from lbd.dispatch.calls import Calls
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.host_connection import HostConnection
from lbd.dispatch.predictions import Predictions
from lbd.dispatch.service import FREE_WORDS
from lbd.dispatch.submissions import Submissions
from lbd.local import long_answers
from lbd.local.long_answers import in_turns
from lbd.local.rate_limit import CHEAPER, TURN_BYTES, TURNS_MIN, TimeShares
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.command_words import QUEUED_FIELDS_MAX
from tests.unit.dispatch import services
from tests.unit.dispatch.services import Trust, opened

RATE = 1 << 16
AT_ONCE = int(4 * RATE / TURN_BYTES / TURNS_MIN)  # for the shortest questions
METHODS = ("Submit", "Jobs", "Predict", "Act", "Tags", "Status")


class Aborted(Exception):
    pass


class Context:
    async def abort(self, code, text):
        raise Aborted(f"{code.name} {text}")

    def invocation_metadata(self):
        return (("lbd-host", "h2"),)


class Clock:
    now_s = 1000.0

    def __call__(self):
        return self.now_s


def problem_of(task):
    return str(task.exception()) if task.done() else ""


def asking(desk, method):
    found = desk.handlers().service(SimpleNamespace(method=f"/lbd.v1.Dispatch/{method}"))
    return found.unary_unary or found.unary_stream


@pytest.mark.parametrize("method", [*METHODS, "Watch"])
async def test_a_host_that_asks_without_end_waits_and_others_do_not(tmp_path, method):
    config = Config(dispatch=DispatchConfig(host_bytes_per_s=RATE))
    async with opened(tmp_path / "ledger.sqlite", config) as world:
        ask, status = asking(world.desk, method), asking(world.desk, "Status")
        flood = [asyncio.create_task(ask(b"\xff", Context())) for _ in range(4 * AT_ONCE)]
        async with asyncio.timeout(20):
            for task in asyncio.as_completed(flood):
                with contextlib.suppress(Aborted):
                    await task
                if any("EXHAUSTED" in problem_of(task) for task in flood):
                    break
        world.trust.name = "h3"
        assert pb.StatusInfo.FromString(await status(b"", Context())).queued == 0
        assert not all(task.done() for task in flood)
        text = "h2 exceeds dispatch.host_bytes_per_s"
        assert any(text in problem_of(task) for task in flood)
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)


async def test_a_long_answer_counts_for_what_is_asked_next():
    paced = Calls(Trust(), RATE)

    async def long(_data, _context):
        return bytes(CHEAPER * 4 * RATE)

    ask = paced.paced(long)
    await ask(b"", Context())
    again = asyncio.create_task(ask(b"", Context()))
    await asyncio.sleep(0)
    assert not again.done()
    again.cancel()


@pytest.mark.parametrize(("method", "kind"), [("Jobs", pb.JobsAsked), ("Act", pb.ActRequest)])
async def test_jobs_named_in_few_bytes_count_for_what_is_asked_next(tmp_path, method, kind):
    """A hundred thousand of them are a few hundred KiB, and took most of a second to read."""
    config = Config(dispatch=DispatchConfig(host_bytes_per_s=RATE))
    async with opened(tmp_path / "ledger.sqlite", config) as world:
        ask = asking(world.desk, method)
        count = 4 * CHEAPER * RATE // calls.SELECTOR_BYTES
        await ask(kind(selectors=["1"] * count).SerializeToString(), Context())
        again = asyncio.create_task(ask(b"", Context()))
        world.trust.name = "h3"
        await asking(world.desk, "Status")(b"", Context())
        assert not again.done()
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)


async def test_predictions_count_as_long_questions(tmp_path, monkeypatch):
    running, go_on = [], asyncio.Event()

    async def slow(_predictions, *_asked):
        running.append(1)
        await go_on.wait()
        return pb.PredictInfo()

    monkeypatch.setattr(Predictions, "calibration", slow)
    monkeypatch.setattr(Predictions, "answer", slow)
    async with opened(tmp_path / "ledger.sqlite") as world:
        asked = [pb.PredictAsked(user="ann", calibration=n % 2 == 0) for n in range(6)]
        data = [one.SerializeToString() for one in asked]
        tasks = [asyncio.create_task(world.desk._predict(one, Context())) for one in data]
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(running) == calls.LONG_OF_USER
        go_on.set()
        await asyncio.gather(*tasks)
        assert len(running) == 6


async def test_what_waits_for_other_jobs_is_submitted_like_an_order(tmp_path, monkeypatch):
    """Looking up the dependencies takes a second of a thread, and may leave nothing on record."""
    running, go_on = [], asyncio.Event()

    async def slow(_submissions, asked):
        running.append(asked.user)
        await go_on.wait()
        return pb.SubmitReply()

    monkeypatch.setattr(Submissions, "take", slow)
    async with opened(tmp_path / "ledger.sqlite") as world:
        waiting = [services.asking(after=["ok:1"]) for _ in range(6)]
        others = [services.asking(user="bob", after=["ok:1"]), services.asking()]
        tasks = [asyncio.create_task(world.submit(one)) for one in (*waiting, *others)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert sorted(running) == ["ann"] * (calls.LONG_OF_USER + 1) + ["bob"]
        go_on.set()
        await asyncio.gather(*tasks)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"after": ["ok:1"] * 999, "command": [b"id"]}, 0),
        ({"command": [b""] * 20_000}, 20_000 - FREE_WORDS),
        ({"after": ["ok:1"] * 400_000}, QUEUED_FIELDS_MAX),  # 0.3 s of the event loop
    ],
)
async def test_a_host_is_charged_for_what_a_submission_has_of_small_things(
    tmp_path, monkeypatch, fields, words
):
    """A user's half million words after --after, 1.2 MB, kept it busy for half a second each
    time."""
    charged = []
    monkeypatch.setattr(Calls, "looked_into", lambda _self, host, count: charged.append(count))
    asked = services.asking(**fields).SerializeToString()
    async with opened(tmp_path / "ledger.sqlite") as world:
        with contextlib.suppress(Aborted):
            await world.desk._read_submission(asked, Context())
    assert charged == [pytest.approx(words, abs=1)]


@pytest.mark.parametrize("method", ["Jobs", "Watch", "Act", "Predict"])
async def test_no_user_has_a_name_that_fills_our_memory(tmp_path, method):
    """Turns are remembered for each user of a host: with names of 15 MiB that were 60 GiB."""
    kinds = {"Act": pb.ActRequest, "Predict": pb.PredictAsked}
    kind = kinds.get(method, pb.JobsAsked)
    fields = ("user", "of_user") if kind is pb.JobsAsked else ("user",)
    async with opened(tmp_path / "ledger.sqlite") as world:
        for field in fields:
            asked = kind(**{field: "x" * 256})
            answer = asking(world.desk, method)(asked.SerializeToString(), Context())
            with pytest.raises(Aborted, match="INVALID_ARGUMENT not a "):
                await answer
        paced = world.desk._calls
        for known in (paced._time_of_user, paced._orders_of_user, paced._long_of_user):
            assert not len(known)


async def test_few_long_questions_of_a_host_are_looked_into_at_once():
    paced, running, go_on = Calls(Trust(), 1 << 30), set(), asyncio.Event()

    async def slow(number):
        async with paced.long("h2", f"user {number}"):
            running.add(number)
            await go_on.wait()

    asked = [asyncio.create_task(slow(number)) for number in range(30)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(running) == calls.LONG_AT_ONCE
    go_on.set()
    await asyncio.gather(*asked)
    assert len(running) == 30
    assert not len(paced._long_of_host)


async def test_no_host_submits_in_the_name_of_another(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        world.trust.name = "h3"
        assert (await world.submit(services.asking())).error == "h3 submits in the name of h2"
        assert await world.ledger.live() == []


async def test_a_host_gets_half_of_the_time_for_long_answers_whatever_they_contain():
    """Lists of jobs that need what no host has took seconds each, and few bytes."""
    calls = Calls(Trust(), RATE, clock := Clock())
    calls._time.charge("h2", 45.0)
    done = []

    async def ask(host):
        async with calls.listing(host, "ann"):
            done.append(host)

    asking = asyncio.create_task(ask("h2"))
    await ask("h1")
    assert done == ["h1"]
    clock.now_s += 20.0
    asking.cancel()
    await ask("h2")
    assert done == ["h1", "h2"]


def ordering(asked, host, user):
    return asked.ordering(host, user)


@pytest.mark.parametrize("kind", [Calls.listing, ordering], ids=["lists", "orders"])
async def test_who_asks_for_long_answers_waits_and_others_of_that_host_do_not(kind):
    """Two kills of 100,000 tasks left a debt of a minute to all users of their host; lists made
    them wait for six seconds each time."""
    asked, both = Calls(Trust(), RATE, clock := Clock()), asyncio.Barrier(2)

    async def ask():
        async with kind(asked, "h2", "ann"):
            await both.wait()
            clock.now_s += 10.0

    await asyncio.gather(ask(), ask())
    again = asyncio.create_task(ask())
    async with asyncio.timeout(1.0), kind(asked, "h2", "bob"):
        pass
    assert not both.n_waiting
    again.cancel()


async def test_what_an_answer_takes_of_our_own_time_is_charged_in_full(monkeypatch):
    """Of a list of 100,000 lines, which took 20 s, only two were: there was always one to answer.
    What waits for a disk may take long through no fault of its user."""
    asked, charged = Calls(Trust(), RATE, clock := Clock()), dict[str, float]()
    monkeypatch.setattr(long_answers, "time", SimpleNamespace(monotonic=clock, thread_time=clock))
    monkeypatch.setattr(
        asked._time_of_user, "charge", lambda who, spent_s: charged.update({who[1]: spent_s})
    )

    async def other():
        while True:
            clock.now_s += 7.0
            await asyncio.sleep(0)

    others = asyncio.create_task(other())
    async with asked.listing("h2", "ann"):
        async for _ in in_turns(range(20)):
            clock.now_s += 1.0
    async with asked.listing("h2", "bob"):
        await asyncio.sleep(0)
    others.cancel()
    assert charged == {"ann": 20.0, "bob": calls.CHARGED_S_MAX}


async def test_two_of_the_longest_answers_of_a_user_keep_no_other_of_that_host_waiting():
    asked = Calls(Trust(), RATE, Clock())
    for _ in range(calls.LONG_OF_USER):
        asked._time.charge("h2", calls.LONGEST_S)
    async with asyncio.timeout(1.0), asked.listing("h2", "bob"):
        pass


async def test_an_order_does_not_wait_for_the_lists_of_its_user():
    asked = Calls(Trust(), RATE, clock := Clock())
    async with asked.listing("h2", "ann"):
        clock.now_s += 10.0
    async with asyncio.timeout(1.0), ordering(asked, "h2", "ann"):
        pass


async def test_short_orders_cost_nothing():
    asked = Calls(Trust(), RATE, clock := Clock())
    for _ in range(100):
        async with asyncio.timeout(1.0), asked.ordering("h2", "ann"):
            clock.now_s += calls.ORDER_S


async def test_concurrent_long_answers_share_the_time(monkeypatch):
    calls, charged = Calls(Trust(), RATE), []
    monkeypatch.setattr(calls._time, "charge", lambda host, spent_s: charged.append(spent_s))
    both = asyncio.Barrier(2)

    async def ask(user):
        async with calls.listing("h2", user):
            await both.wait()
            await asyncio.sleep(0.1)

    await asyncio.gather(ask("ann"), ask("bob"))
    first, last = charged
    assert first == pytest.approx(last / 2, rel=0.3)


async def test_a_host_whose_heartbeats_take_long_has_half_of_the_time(tmp_path, monkeypatch):
    """A host that reported another number of slots each time had all waiting jobs examined."""
    clock, heard = Clock(), []
    monkeypatch.setattr(host_connection, "time", SimpleNamespace(monotonic=clock))

    def slow(_dispatcher, name, _line, _up):
        heard.append(name)
        clock.now_s += 10.0

    monkeypatch.setattr(Dispatcher, "heard", slow)
    async with opened(tmp_path / "ledger.sqlite") as world:
        world.desk._paces.seconds = TimeShares(clock_s=clock, cpu_s=clock)
        line, beat = HostConnection(None, 1), pb.WorkUp(heartbeat=pb.Heartbeat())
        tasks = [
            asyncio.create_task(world.desk._hear(name, line, beat.SerializeToString()))
            for name in ("h2", "h2", "h3")
        ]
        for _ in range(10):
            await asyncio.sleep(0)
        assert heard == ["h2", "h3"]
        for task in tasks:
            task.cancel()


@pytest.mark.parametrize("number", [0, 7])
async def test_only_the_first_heartbeat_of_a_connection_is_its_first(tmp_path, number):
    """With the number 0 each was: that alone would prove that what was sent since is not there."""

    async def write(_message):
        pass

    async with opened(tmp_path / "ledger.sqlite") as world:
        line = HostConnection(write, 1 << 20)
        beat = pb.Heartbeat(number=number, slots=1, open_slots=1, keeper="k", said_s=1.0)
        for _ in range(3):
            world.dispatcher._heartbeat("h2", line, beat)
        assert world.dispatcher.life.hosts.contact("h2").number == 1


async def test_the_orders_of_all_users_of_a_host_have_half_of_the_time():
    """It could make up one user after the other."""
    asked = Calls(Trust(), RATE, clock := Clock())

    async def order(host, user, own_s):
        async with asyncio.timeout(0.1), asked.ordering(host, user) as own:
            clock.now_s += own_s
            own.seconds += own_s

    for number in range(8):
        await order("h2", f"user{number}", 10.0)
    with pytest.raises(TimeoutError):
        await order("h2", "another", 1.0)
    await order("h3", "ann", 1.0)
    clock.now_s += 20.0
    await order("h2", "another", 1.0)
