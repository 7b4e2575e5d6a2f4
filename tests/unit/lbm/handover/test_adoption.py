"""What an LBM has left is resumed or refused in one line; what it does not name is ended."""

import asyncio
import logging
import math
import os
import select
from types import SimpleNamespace

import pytest

from lbd.errors import PeerError
from lbd.keeper import protocol as keeper
from lbd.lbm.core.execution import Phase
from lbd.lbm.core.execution_events import Exit
from lbd.lbm.core.jobs import Claims
from lbd.lbm.core.slots import Belongings, Grant, Granted, pack_belongings
from lbd.lbm.handover import codec
from lbd.lbm.handover import saving as leave
from lbd.lbm.handover.adoption import Adoption, Left, parse, read_left
from lbd.lbm.handover.fds import Bundle, Given
from lbd.lbm.handover.records import Attached, ClientState, LinkTo, StreamState
from lbd.lbm.keeper_link import ProcessExit
from lbd.lbm.link import wire
from lbd.lbm.link.accepted_links import AcceptedLinks
from lbd.lbm.usage.backlog import Unrecorded
from lbd.lbm.usage.gaps import Gap
from lbd.local.budget import Budget
from lbd.net.gen.handover_pb2 import Handover
from tests.unit.lbm.inbound.test_attached_job import Link, host_of, running
from tests.unit.until import until


def message(**fields):
    made = Handover(version=leave.VERSION, needs=leave.NEEDS)
    made.MergeFrom(Handover(**fields))
    return made


REFUSED = {
    "a newer release's": (
        message(needs=leave.VERSION + 1, version=9),
        "version 9; this release",
    ),
    "an older release's": (Handover(), "version 0; this release"),
    "cut short": (message(descriptors=3), "killed during the handover"),
    "another record": (
        message(attached=[codec.write(StreamState(""), Bundle())]),
        "invalid Attached",
    ),
}


@pytest.mark.parametrize(("record", "why"), REFUSED.values(), ids=REFUSED)
def test_a_record_that_cannot_be_resumed_is_refused(record, why):
    with pytest.raises(PeerError, match=why):
        parse(record, Given([-1]), 0)


@pytest.mark.parametrize("data", [b"\xff" * 9, message(descriptors=7).SerializeToString()])
def test_no_descriptor_is_kept_after_a_refusal(data, caplog):
    """The reader of a pipe whose other end we kept would never see its end."""
    reader, writer = os.pipe()
    with caplog.at_level(logging.WARNING):
        parts = os.memfd_create("handover")
        os.write(parts, data)
        assert read_left([parts, writer]) is None
    poll = select.poll()
    poll.register(reader)
    assert poll.poll(20_000) == [(reader, select.POLLHUP)]
    os.close(reader)
    assert [record.message.count("running commands are ended") for record in caplog.records] == [1]


def test_an_unreadable_client_is_given_up_alone():
    bundle = Bundle()
    known, unknown = (codec.write(ClientState(codec.Fd(one)), bundle) for one in (7, 8))
    unknown.record.fields[0].name = "new"
    left = parse(message(clients=[unknown, known], descriptors=2), Given([-1, 7, 8]), 2)
    assert left.clients == [ClientState(codec.Fd(7))]


def test_unreadable_records_for_the_accounting_are_given_up_alone():
    left = parse(
        message(unrecorded=codec.write(Unrecorded(lost=Gap(2, 1.0, 3.0)), Bundle())), Given([-1]), 0
    )
    assert left.unrecorded == Unrecorded((), Gap(2, 1.0, 3.0))
    assert parse(message(), Given([-1]), 0).unrecorded is None
    unknown = codec.write(StreamState(""), Bundle())
    assert parse(message(unrecorded=unknown, jobs=["5.1"]), Given([-1]), 0).jobs == ["5.1"]


class Leaving(Link):
    """The link to the keeper, with jobs that have been handed over."""

    def __init__(self):
        super().__init__()
        self.jobs = []

    def adopt(self, job, stopped, begun):
        self.jobs.append(job)
        return super().adopt(job, stopped, begun)

    def adopted(self):
        pass


@pytest.fixture
def host():
    host = host_of()
    host.link, host.requests = Leaving(), Budget(1 << 20, 1 << 20)
    return host


def adoption(host, streams=None, clients=None):
    home = SimpleNamespace(streams=streams)
    return Adoption(AcceptedLinks(host), home, clients, None)


async def test_a_command_that_only_the_keeper_knows_is_ended_and_holds_a_slot_until_then(host):
    adoption(host).take_up(Left([], [], [], [], ["h1-1.unpack"], None))
    await until(lambda: (keeper.END_TREE, "h1-1.unpack") in host.link.orders)
    assert host.slots.used == 1


async def test_a_command_that_the_keeper_of_a_killed_lbm_ends_holds_its_resources_until_then(host):
    host.slots.pool.totals = {"gpu": 2}
    grant = Grant((Granted("gpu", 1, (1,)),))
    host.link.has = {
        "h1-1": pack_belongings(Belongings(2, grant)), "h1-2": b"what is that?", "alone.1": b"",
    }  # fmt: skip
    adoption(host).take_up_nothing()
    assert (host.slots.used, host.slots.pool.grant_of("h1-1")) == (3, grant)
    assert host.link.orders == []
    job = host.link.jobs.index("h1-1")
    host.link.spawned[job].exited.set_result(ProcessExit(9, 0.0, 0.0, 0, False))
    await until(lambda: host.slots.used == 1)
    assert not host.slots.pool.held


async def test_a_process_that_runs_on_its_own_continues_and_holds_no_slot(host):
    """For example a line of --notify, which is run once."""
    adoption(host).take_up(Left([], [], [], [], ["alone.7", "as-user.8"], None))
    await until(lambda: host.link.orders)
    assert host.link.orders == [(keeper.END_TREE, "as-user.8")]
    assert host.slots.used == 1


async def link_of(before, number=1):
    """Returns a link with one running command."""
    job, serving = await running(before, number)
    return SimpleNamespace(
        key=("h1", "token"), stream=SimpleNamespace(left=lambda: StreamState("", 3, 4)),
        last_number=1, claims=Claims(before.jobs),
        jobs={1: SimpleNamespace(job=job, request=b"", task=serving, talk=job.talk)},
    )  # fmt: skip


def into(found):
    """Writes down a command, and reads it back."""

    def write(_job, held):
        found.append(codec.read(Attached, codec.write(held, Bundle()), Given([])))
        return True

    return write


async def test_a_command_continues_with_its_stream(host):
    before, attached = host_of(), []
    link = await link_of(before)
    left = leave.link_from(before, link, into(attached))
    taking = adoption(host)
    (command,) = attached
    taking.take_up(Left([left], [], [command], [], ["h1-1"], None))
    assert list(taking._links.open) == [("h1", "token")]
    (follower,) = taking._links.open.values()
    assert list(follower.jobs) == [1]
    assert (follower.stream.outbox.count, follower.stream.received) == (3, 4)
    assert (host.link.orders, host.slots.used) == ([], 1)
    (serving,) = [serving.task for serving in follower.jobs.values()]
    follower.close()
    await asyncio.wait([serving, *end(link)])


def end(link):
    tasks = [serving.task for serving in link.jobs.values()]
    for task in tasks:
        task.cancel()
    return tasks


async def test_the_origin_of_a_command_that_is_just_starting_is_told_that_it_is_lost():
    before, attached = host_of(), []
    link = await link_of(before)
    job = link.jobs[1].job
    job.execution.phase, job.spawned = Phase.SPAWNING, None
    assert leave.link_from(before, link, into(attached)).stream.unread == ()
    assert attached == []
    assert job.talk.said[-1] == wire.FAILED
    await asyncio.wait(end(link))


async def test_a_command_that_cannot_be_written_down_is_lost_alone(caplog):
    """Its state contains what its user or another host has made of it."""
    before = host_of(slots=2)
    before.link.jobs = ["h1-1", "h1-2"]
    links = [await link_of(before), await link_of(before, 2)]
    poisoned, other = (link.jobs[1].job for link in links)
    poisoned.execution.exit = Exit(0, heard_signals=1 << 64)
    place = SimpleNamespace(host=before, open=dict(enumerate(links)))
    usage = SimpleNamespace(finish=lambda: Unrecorded((), Gap(1, 0.0, math.nan)))
    home = SimpleNamespace(streams=None, usage=usage)
    record = Handover()
    leave.write_down(place, home, -1, [], [], record.MergeFrom)
    (left,) = [codec.read(Attached, held, Given([])) for held in record.attached]
    assert left.running.execution.spec.id == other.id
    assert poisoned.talk.said[-1] == wire.FAILED
    assert not record.HasField("unrecorded")
    assert "a command cannot be handed over and is lost" in caplog.text
    await asyncio.wait([task for link in links for task in end(link)])


async def test_a_command_that_waits_for_its_slot_asks_for_it_again():
    before, attached = host_of(), []
    link = await link_of(before)
    link.jobs[1].job.execution.phase = Phase.SLOT
    link.jobs[1].request = b"request"
    left = leave.link_from(before, link, into(attached))
    assert left.stream.unread == (wire.pack(1, wire.RUN, b"request"),)
    assert attached == []
    await asyncio.wait(end(link))


class Streams:
    """The streams to other hosts."""

    def __init__(self):
        self.resumed = []

    def resume(self, place, stream, token, last_number):
        self.resumed.append((place, stream, token, last_number))


async def test_a_conversation_that_nobody_resumes_is_closed(host):
    """Its client could not be resumed; otherwise its command would run with nobody to read it."""
    streams = Streams()
    left = LinkTo("h2", "h2:1", StreamState("token", 3, 4), last_number=5, open_numbers=(5,))
    adoption(host, streams).take_up(Left([], [left], [], [], [], None))
    ((_, stream, token, last_number),) = streams.resumed
    assert (token, last_number) == ("token", 5)
    assert stream.outbox.held() == [wire.pack(5, wire.HANGUP)]


async def test_a_stream_of_which_nothing_can_be_made_is_given_up_alone(host):
    """The LBM that was to follow ended, and with it the commands of everybody."""
    streams = Streams()
    links = [
        LinkTo(host_name, f"{host_name}:1", StreamState(host_name, 0, 1, (), unread), 5, (5,))
        for host_name, unread in (("h2", (b"?",)), ("h3", (wire.pack(5, b"?"),)))
    ]
    adoption(host, streams).take_up(Left([], links, [], [], [], None))
    assert [place for place, *_ in streams.resumed] == [("h3", "h3:1")]
