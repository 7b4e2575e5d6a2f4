"""What the dispatcher is told by an LBM that is to stop."""

import asyncio
import contextlib
from functools import partial
from types import SimpleNamespace

import grpc
import pytest

from lbd.config.dispatch import HEARTBEAT_S_MAX, DispatchConfig
from lbd.config.schema import Config
from lbd.lbm.core.kept_free import KeptFree
from lbd.lbm.core.leases import Leases
from lbd.lbm.core.slots import Slots
from lbd.lbm.inbound.executions import Executions
from lbd.lbm.queue import dispatcher_line
from lbd.lbm.queue.dispatcher_line import DispatcherLine
from lbd.lbm.queue.held_attempts import Held
from lbd.lbm.queue.spool import Spool
from lbd.model import JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from lbd.process.boot_clock import clock_s
from tests.unit.until import until

LEASE_S = 5.0


class Call:
    def __init__(self, write):
        self.down = asyncio.Queue()  # None: its end
        self.write, self.read = write, self.down.get
        self.cancel = partial(self.down.put_nowait, None)


class Line:
    """The dispatcher's end of the connections, and what arrives there."""

    spool, leader, ledger_token = None, "h1", b"one"

    def __init__(self):
        self.up = asyncio.Queue()
        self.spools = SimpleNamespace()
        self.leases = Leases()
        self.has_queue = asyncio.Event()
        self.has_queue.set()

    async def work(self):
        call = Call(self.write)
        self.down = call.down
        self.down.put_nowait(pb.WorkDown(ledger_token=self.ledger_token))
        return call

    async def read(self, call, lease_s):
        down = await call.read()
        return grpc.aio.EOF if down is None else down.SerializeToString()

    async def write(self, data):
        self.up.put_nowait(pb.WorkUp.FromString(data))

    def leads(self, host):
        pass

    def obeys(self, ledger):
        pass

    def doubt(self):
        pass


async def nothing_beside():
    await asyncio.Event().wait()


@pytest.fixture
async def line():
    line = Line()
    line.spool = Spool("/nonexistent", 1 << 20)
    return line


@pytest.fixture
async def attempts(line):
    slots = Slots(2, max_waiting=10)
    rules = SimpleNamespace(opens=lambda: 0.0, rules=SimpleNamespace(number=7))
    host = SimpleNamespace(
        config=Config(),
        slots=slots,
        executions=Executions(slots),
        link=SimpleNamespace(pid=1, jobs=[], has={}, about=SimpleNamespace(life="k")),
        rules=rules,
        why_drained="drained by ann",
    )
    attempts = DispatcherLine(host, line, nothing_beside)
    running = asyncio.create_task(attempts.run())
    yield attempts
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_an_attempt_that_arrives_during_the_stop_is_refused(line, attempts):
    first = await asyncio.wait_for(line.up.get(), 5)
    assert not first.heartbeat.closed
    assert first.heartbeat.rules == 7
    await attempts.end_all()
    attempts.load_is(0.0, None)  # the host itself is not drained
    start = pb.Start(job="12", attempt=1, anchor=first.heartbeat.number, lease_s=LEASE_S)
    line.down.put_nowait(pb.WorkDown(starts=[start]))
    heard, refused = [], []
    while not refused:
        heard.append(await asyncio.wait_for(line.up.get(), 5))
        refused += heard[-1].reports
    (news,) = refused
    assert (news.job, news.event, news.phase) == ("12", "refused", "late")
    assert news.reason == "its LBM is stopping"
    assert all(up.heartbeat.closed for up in heard if up.HasField("heartbeat"))


async def test_the_dispatcher_is_told_at_once_that_the_load_has_crossed_the_ceiling(line, attempts):
    """In either direction; a load on the same side is sent with the next heartbeat."""
    first = await asyncio.wait_for(line.up.get(), 5)
    ceiling = Config().dispatch.load_ceiling
    heard = []
    for load in (ceiling + 1, ceiling + 2, ceiling - 1):
        attempts.load_is(load, None)
        if load != ceiling + 2:
            heard.append(await asyncio.wait_for(line.up.get(), 5))
    assert [up.heartbeat.load > ceiling for up in (first, *heard)] == [False, True, False]


async def test_a_fault_in_sending_ends_the_connection_alone(line, attempts, monkeypatch, caplog):
    """It was noticed when the dispatcher ended the stream, and ended the LBM."""
    monkeypatch.setattr(dispatcher_line, "RECONNECT_S", 0.01)
    await asyncio.wait_for(line.up.get(), 5)
    monkeypatch.setattr(attempts, "_heartbeat", None)  # cannot be called
    attempts.load_is(Config().dispatch.load_ceiling + 1, None)
    await until(lambda: "the connection to the dispatcher ended" in caplog.text)
    monkeypatch.undo()
    assert (await asyncio.wait_for(line.up.get(), 5)).HasField("heartbeat")


@pytest.mark.parametrize("lease_s", [0.0, 1e-9, 0.002, 0.99, 86401.0, float("nan")])
async def test_no_lease_is_believed_that_cannot_be_set(line, attempts, lease_s, caplog):
    """With very short ones heartbeats went out without a pause."""
    await asyncio.wait_for(line.up.get(), 5)
    line.down.put_nowait(pb.WorkDown(reply=pb.HeartbeatReply(number=1, lease_s=lease_s)))
    await until(
        lambda: f"protocol error from the dispatcher: a lease of {lease_s} s" in caplog.text
    )


@pytest.mark.parametrize(("lease_s", "every_s"), [(1.0, 0.25), (900.0, HEARTBEAT_S_MAX)])
async def test_heartbeats_follow_a_changed_lease_at_once(line, attempts, lease_s, every_s):
    """The next one came after a quarter of the old lease, until which no order could arrive."""
    attempts._host.config = Config(dispatch=DispatchConfig(lease_s=lease_s))
    first = await asyncio.wait_for(line.up.get(), 5)
    reply = pb.HeartbeatReply(number=first.heartbeat.number, lease_s=lease_s)
    line.down.put_nowait(pb.WorkDown(reply=reply))
    leases = attempts._leases
    await until(lambda: leases.lease_s == lease_s)
    assert leases.heartbeat_due_s - leases._last_sent_s == pytest.approx(every_s)
    if every_s < 1:
        again = await asyncio.wait_for(line.up.get(), 5)  # of 7.5 s otherwise
        assert again.HasField("heartbeat")


async def test_a_late_order_is_refused_with_a_heartbeat_for_the_next(line, attempts):
    """The host gets no other order before one, and none was due for minutes."""
    first = await asyncio.wait_for(line.up.get(), 5)
    start = pb.Start(job="12", attempt=1, anchor=first.heartbeat.number + 9, lease_s=LEASE_S)
    line.down.put_nowait(pb.WorkDown(starts=[start]))
    said = await asyncio.wait_for(line.up.get(), 5)
    (news,) = said.reports
    assert (news.phase, news.reason) == ("late", "the order arrived too late")
    assert said.heartbeat.number == first.heartbeat.number + 1


async def test_heartbeats_say_what_is_left_of_each_lease(line, attempts):
    execution = SimpleNamespace(stop_reason="", timers={})
    attempt = SimpleNamespace(
        execution=execution, start=pb.Start(), request=lbm_pb2.RunRequest(), id="12.1"
    )
    attempts._held["12", 1] = Held(attempt, attempts._held.ledger_token)
    attempts._leases.until_s["12", 1] = clock_s() + 800.0
    (held,) = attempts._heartbeat().held
    assert 700.0 < held.left_s <= 800.0
    attempts._leases.drop(("12", 1))  # it has ended
    assert attempts._heartbeat().held[0].left_s == 0.0
    attempts._held.data.clear()


async def test_what_is_no_longer_kept_for_a_waiting_command_is_open_in_the_next_heartbeat(attempts):
    """Nothing but the time has changed by then."""
    slots = attempts._host.slots
    slots.kept_free = KeptFree(limit_s=1e-9)
    slots.hold(JobId("h3-1"), "bob")
    assert slots.enqueue(JobId("h4-1"), "ann", width=2)
    assert [attempts._heartbeat().open_slots for _ in range(2)] == [0, 1]
