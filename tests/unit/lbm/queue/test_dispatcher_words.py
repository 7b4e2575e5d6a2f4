"""What a dispatcher sends on its connection, if its host may be compromised."""

import asyncio
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config
from lbd.dispatch.intake import ending_of
from lbd.lbm.core.jobs import Jobs
from lbd.lbm.core.leases import Leases
from lbd.lbm.core.slots import Slots
from lbd.lbm.inbound.executions import Executions
from lbd.lbm.inbound.submitted import Submitted
from lbd.lbm.queue.dispatcher_line import DispatcherLine
from lbd.lbm.queue.dispatcher_words import (
    HELD_BYTES_MAX,
    OWN_TOO_MUCH,
    SAID_MAX,
    TOO_MUCH,
    WORD_CHARS_MAX,
    HeldOrders,
    order_bytes,
    read_down,
)
from lbd.lbm.queue.held_attempts import Held
from lbd.local.rate_limit import TimeShares
from lbd.local.steps import STEP_S
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from lbd.process.boot_clock import clock_s
from lbd.text.job_limits import HELD_MAX

ONE = pb.Held(job="1", attempt=1)


@pytest.fixture
def line():
    slots = Slots(2, 10)
    host = SimpleNamespace(
        config=Config(), rules=SimpleNamespace(config=Config(), owner=""), slots=slots,
        jobs=Jobs(10), submitted=Submitted(), executions=Executions(slots),
    )  # fmt: skip
    client = SimpleNamespace(
        spool=SimpleNamespace(files=SimpleNamespace()),
        spools=SimpleNamespace(),
        leases=Leases(),
        obeys=lambda _: None,
    )
    return DispatcherLine(host, client, lambda: None)


@pytest.mark.parametrize(
    "down",
    [
        pb.WorkDown(reply=pb.HeartbeatReply(lease_s=30.0, renewed=[ONE] * (SAID_MAX + 1))),
        pb.WorkDown(settled=[ONE] * (SAID_MAX + 1)),
        pb.WorkDown(released=[ONE] * (SAID_MAX + 1)),
        pb.WorkDown(stops=[pb.Stop(job="1")] * (SAID_MAX + 1)),
        pb.WorkDown(starts=[pb.Start(job="1")] * SAID_MAX, settled=[ONE]),
    ],
    ids=["renewed", "settled", "released", "stops", "starts"],
)
def test_no_message_takes_seconds_to_go_through(down):
    """Three million words in one message took seconds, in which nothing else was done here."""
    with pytest.raises(ValueError, match="orders at once"):
        read_down(down.SerializeToString())


def test_no_other_dispatcher_would_take_a_reason_that_long():
    """It was repeated with the end of the attempt, to the next dispatcher, whichever that was: that
    one closed the connection, each time, and this host had no queue until its LBM was restarted."""
    kept = pb.AttemptReport(job="1", attempt=1, event="ended", cause="lost")
    kept.stop_reason = "x" * WORD_CHARS_MAX
    assert ending_of(kept).stop_reason == kept.stop_reason
    stop = pb.Stop(job="1", attempt=1, stop_reason="x" * (WORD_CHARS_MAX + 1))
    with pytest.raises(ValueError, match="a stop reason"):
        read_down(pb.WorkDown(stops=[stop]).SerializeToString())


@pytest.mark.parametrize("lease_s", [float("nan"), 0.0, -1.0, float("inf"), 86401.0, 1e308])
def test_a_lease_that_cannot_be_is_not_believed(lease_s):
    """NaN would never have expired; 1e308 s ended the LBM, and a month the keeper."""
    down = pb.WorkDown(reply=pb.HeartbeatReply(number=1, lease_s=lease_s))
    with pytest.raises(ValueError, match="lease"):
        read_down(down.SerializeToString())


def test_its_mode_is_a_word():
    """A megabyte of it was more than the LIM accepts, which then heard no more of its LBM."""
    said = pb.WorkDown(reply=pb.HeartbeatReply(number=1, lease_s=1.0, mode="f\33cfs" * (1 << 20)))
    mode = read_down(said.SerializeToString()).reply.mode
    assert mode.isprintable()
    assert len(mode) < 100


def test_a_host_holds_a_limited_number_of_orders_and_of_their_bytes():
    small = pb.Start(job="1", attempt=1, user="ann")
    held = HeldOrders(HELD_MAX - 1, 100 * HELD_MAX)
    assert not held.why_not(small)
    held.change("bob", 100, 1)
    assert held.why_not(small) == TOO_MUCH
    long = pb.Start(job="1", attempt=1, user="ann", spec=pb.StoredSpec(input=bytes(4 << 20)))
    assert not HeldOrders(1, HELD_BYTES_MAX - long.ByteSize()).why_not(long)
    assert HeldOrders(1, HELD_BYTES_MAX - long.ByteSize() + 1).why_not(long) == TOO_MUCH


def test_no_user_has_a_host_hold_so_many_bytes_that_it_takes_no_others_orders():
    """24 sleeping jobs of 230,000 words each took all that a host holds, and with one more at the
    head of the queue everybody's jobs waited seconds."""
    held, long = HeldOrders(), pb.Start(job="1", attempt=1, user="ann")
    long.spec.input = bytes(1 << 20)
    while not held.why_not(long):
        held.change("ann", long.ByteSize(), 1)
    assert held.why_not(long) == OWN_TOO_MUCH
    long.user = "bob"
    assert not held.why_not(long)
    held.change("ann", long.ByteSize(), -1)
    long.user = "ann"
    assert not held.why_not(long)


def test_each_word_of_an_order_counts_with_what_it_takes_in_memory():
    """Orders of 100,000 words of one letter are 0.3 MiB, and took 4.3: an LBM grew to 4 GiB."""
    request = lbm_pb2.RunRequest(argv=[b"x"] * 100_000)
    spec = pb.StoredSpec(run_request=request.SerializeToString())
    start = pb.Start(job="1", attempt=1, spec=spec)
    assert order_bytes(start, request) > 9 << 20
    assert order_bytes(start, lbm_pb2.RunRequest(argv=[b"true"])) < 1 << 20


async def test_an_order_is_measured_once_however_many_follow(line):
    """Measuring a message means serialising it. A host that held 500 orders of a megabyte spent 44
    ms of its event loop on that for each new one."""

    class Order:
        weighed, user = 0, "ann"

        def ByteSize(self):  # a method of protobuf
            Order.weighed += 1
            return 1 << 20

    for number in range(3):
        attempt = SimpleNamespace(start=Order(), request=lbm_pb2.RunRequest(), id=str(number))
        line._held[str(number), 1] = Held(attempt, b"")
    long = pb.Start(job="1", attempt=1, spec=pb.StoredSpec(input=bytes(4 << 20)))
    for _ in range(5):
        assert not line._held.orders.why_not(long)
    assert Order.weighed == 3
    assert line._held.orders.all_bytes == 3 << 20


async def test_what_is_too_much_waits_at_the_dispatcher(line):
    """Everything was accepted, sixteen megabytes at a time."""
    line._held.orders.change("ann", 100 * HELD_MAX, 1)
    line._held.orders.number = HELD_MAX
    start = pb.Start(job="7000000", attempt=1, lease_s=30.0)
    start.anchor = line._leases.heartbeat(clock_s())
    line._start(start)
    (news,) = line._pending.take()
    assert (news.event, news.phase, news.reason) == ("refused", "no-room", TOO_MUCH)
    assert not line._held


async def test_who_reads_no_refusals_is_not_heard_on(line):
    line._ending = True
    for number in range(1, SAID_MAX + 1):
        line._start(pb.Start(job=str(number), attempt=1, lease_s=30.0))
    with pytest.raises(ValueError, match="is not read"):
        line._start(pb.Start(job="9000000", attempt=1, lease_s=30.0))
    assert len(line._pending) <= SAID_MAX


async def test_it_has_half_of_the_time_and_no_more(line, monkeypatch):
    """Endless messages of a dispatcher took all of it."""
    heard, turns = [], []

    class Shares:
        async def turn(self, _call):
            turns.append(len(heard))

        def spending(self, _call):
            return Spending()

        async def in_turns(self, _call, orders):
            for order in orders:
                yield order

    class Spending:
        def __enter__(self):
            heard.append("begun")

        def __exit__(self, *_):
            heard.append("done")

    async def work():
        return SimpleNamespace(cancel=lambda: None, write=never)

    messages = [pb.WorkDown(ledger_token=b"one").SerializeToString()] * 3 + [None]

    async def read(_call, _lease_s):
        return messages.pop(0)

    monkeypatch.setattr("lbd.lbm.queue.dispatcher_line.TimeShares", Shares)
    line._client.work, line._client.read = work, read
    line._heartbeat = pb.Heartbeat
    await line._converse()
    assert heard == ["begun", "done"] * 3
    assert turns == [0, 2, 4]


async def test_others_are_served_between_the_orders_of_one_message(line, monkeypatch):
    """20,000 starts, or a hundred thousand renewals of one attempt, were one step of seconds in
    which the LBM of that host answered nobody."""
    turns, obeyed, now_s = [], [], [0.0]

    class Call:
        write = staticmethod(never)

        def cancel(self):
            pass

    class Shares(TimeShares):
        def __init__(self):
            super().__init__(clock_s=lambda: now_s[0], cpu_s=lambda: now_s[0])

        async def turn(self, _call):
            turns.append(len(obeyed))

    def obey(order):
        now_s[0] += 0.6 * STEP_S
        obeyed.append(order.job)

    async def work():
        return Call()

    starts = [pb.Start(job=f"{n}") for n in range(4)]
    down = pb.WorkDown(ledger_token=b"one", starts=starts)
    down.stops.add(job="s")
    messages = [down.SerializeToString(), None]

    async def read(_call, _lease_s):
        return messages.pop(0)

    monkeypatch.setattr("lbd.lbm.queue.dispatcher_line.TimeShares", Shares)
    line._client.work, line._client.read = work, read
    line._heartbeat, line._start = pb.Heartbeat, obey
    line._feed = lambda order, _event: obey(order)
    await line._converse()
    assert obeyed == ["s", "0", "1", "2", "3"]
    assert turns == [0, 2, 4]


async def never(_message):
    await asyncio.get_running_loop().create_future()
