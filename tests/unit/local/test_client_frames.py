"""What a client of lbm.sock may have its LBM hold: long frames need room before they are read."""

import asyncio
import os
import socket

import pytest

from lbd.lbm.link.user_threads import Threads
from lbd.local import client_frames, frames
from lbd.local import client_tags as tags
from lbd.local.budget import Budget, Share
from lbd.local.client_frames import ClientFrames, latest
from tests.unit.until import until

USUAL, LONG = 1 << 12, 1 << 20
ANN = 1001


class Clients:
    """Connections to one LBM."""

    def __init__(self):
        self.budget = Budget(each=3 << 20, total=4 << 20)
        self.sockets = []

    def connect(self, uid=ANN):
        ours, theirs = socket.socketpair()
        self.sockets += [ours, theirs]
        for sock in (ours, theirs):
            sock.setblocking(False)
        split = frames.Splitter(USUAL, b"R", LONG)
        return ClientFrames(ours, split, Share(self.budget, uid), USUAL, Threads()), theirs


@pytest.fixture
def clients(monkeypatch):
    monkeypatch.setattr(client_frames, "PATIENCE_S", 0.1)
    clients = Clients()
    yield clients
    for sock in clients.sockets:
        sock.close()


async def begun(clients, uid=ANN):
    """Returns a connection with a long frame in progress."""
    intake, theirs = clients.connect(uid)
    theirs.send(frames.pack(b"R", bytes(LONG))[:100])
    reading = asyncio.create_task(intake.read())
    for _ in range(5):
        await asyncio.sleep(0)
    return intake, reading


async def test_frames_arrive_whole_with_their_attachments(clients):
    intake, theirs = clients.connect()
    null = os.open(os.devnull, os.O_RDONLY)
    socket.send_fds(theirs, [frames.pack(b"R", b"x") + frames.pack(b"S", b"y")], [null])
    assert await intake.read() == [(b"R", b"x"), (b"S", b"y")]
    assert len(intake.descriptors) == 1
    theirs.close()
    assert await intake.read() == []
    intake.close()
    os.close(null)


async def test_a_long_frame_is_read_into_reserved_room_which_is_given_back(clients):
    intake, theirs = clients.connect()
    loop = asyncio.get_running_loop()
    sending = asyncio.create_task(loop.sock_sendall(theirs, frames.pack(b"R", bytes(LONG))))
    assert await intake.read() == [(b"R", bytes(LONG))]
    await sending
    assert clients.budget.of(ANN) == LONG + frames.HEADER_BYTES
    intake.close()
    assert clients.budget.held == 0


async def test_a_client_without_room_is_refused_and_can_read_the_refusal(clients):
    """The rest of the frame is read and dropped: otherwise the client's send would fail."""
    held = [await begun(clients) for _ in range(2)]
    intake, theirs = clients.connect()
    loop = asyncio.get_running_loop()
    sending = asyncio.create_task(loop.sock_sendall(theirs, frames.pack(b"R", bytes(LONG))))
    with pytest.raises(ValueError, match="user_request_bytes"):
        await intake.read()
    await asyncio.wait_for(sending, 10)
    assert clients.budget.of(ANN) == 2 * (LONG + frames.HEADER_BYTES)
    other, theirs = clients.connect(ANN + 1)  # another user's frame is read
    sending = asyncio.create_task(loop.sock_sendall(theirs, frames.pack(b"R", bytes(LONG))))
    assert len(await other.read()) == 1
    await sending
    for intake, reading in held:
        reading.cancel()
        intake.close()


async def test_all_users_together_have_a_bound_and_short_requests_need_no_room(clients):
    held = [await begun(clients, uid) for uid in (ANN, ANN + 1, ANN + 2)]
    assert clients.budget.held == 3 * (LONG + frames.HEADER_BYTES)
    intake, theirs = clients.connect(ANN + 3)
    theirs.send(frames.pack(b"R", bytes(USUAL - frames.HEADER_BYTES)))
    assert len(await intake.read()) == 1
    refused, reading = await begun(clients, ANN + 4)
    theirs = clients.sockets[-1]
    theirs.close()  # it does not wait
    with pytest.raises(ValueError, match="long requests"):
        await reading
    for intake, reading in held:
        reading.cancel()
        intake.close()
    assert clients.budget.held == 0
    refused.close()


async def test_room_that_becomes_free_in_time_is_used(clients):
    first = [await begun(clients) for _ in range(2)]
    _, reading = await begun(clients)
    await asyncio.sleep(0)
    first[0][1].cancel()
    first[0][0].close()
    await until(lambda: clients.budget.of(ANN) > 2 * LONG)
    assert not reading.done()
    assert clients.budget.of(ANN) == 2 * (LONG + frames.HEADER_BYTES)
    for task in (reading, first[1][1]):
        task.cancel()


@pytest.mark.parametrize("tag", [b"J", b"S", b"I"])
async def test_only_requests_may_be_long(clients, tag):
    intake, theirs = clients.connect()
    theirs.send(frames.pack(tag, bytes(USUAL + 1))[:10])
    with pytest.raises(frames.TooLong):
        await intake.read()


class Stuck(Threads):
    def why_stuck(self):
        return "too many"


async def test_who_is_stuck_has_no_descriptors_received(clients):
    """Otherwise each connection could bring hundreds. Frames without descriptors are still read."""
    intake, theirs = clients.connect()
    intake._owner = Stuck()
    theirs.send(frames.pack(b"S", b"y"))
    assert await intake.read() == [(b"S", b"y")]
    null = os.open(os.devnull, os.O_RDONLY)
    socket.send_fds(theirs, [frames.pack(b"R", b"x")], [null])
    with pytest.raises(ValueError, match="too many"):
        await intake.read()
    assert not intake.descriptors
    intake.close()
    os.close(null)


INT, STOP, CONT = ((tags.SIGNAL, bytes((number,))) for number in (2, 20, 18))
TYPED = (tags.INPUT, b"x")


@pytest.mark.parametrize(
    ("received", "kept"),
    [
        ([INT], [INT]),
        ([INT] * 10_000, [INT]),
        ([STOP, CONT, STOP], [CONT, STOP]),  # it is stopped in the end
        ([TYPED, INT, TYPED, INT], [(tags.INPUT, b"xx"), INT]),
        ([(tags.RESIZE, b"1 2"), TYPED, (tags.RESIZE, b"3 4")], [TYPED, (tags.RESIZE, b"3 4")]),
        ([INT, (tags.FORCE, b""), (tags.FORCE, b"")], [INT, (tags.FORCE, b"")]),
        ([(tags.GROUND, b"\1"), (tags.GROUND, b"\0")], [(tags.GROUND, b"\0")]),
    ],
)
def test_of_simultaneous_signals_the_overtaken_ones_are_dropped(received, kept):
    assert latest(received) == kept


def test_what_was_typed_is_one_frame_however_small_its_pieces():
    """Each piece would be a message to the other host, many times as large as its bytes."""
    typed = [(tags.INPUT, b"a"), (tags.RESIZE, b"1"), (tags.INPUT, b"b"), (tags.RESIZE, b"2")]
    assert latest(typed * 1000) == [(tags.INPUT, b"ab" * 1000), (tags.RESIZE, b"2")]
    at_end = [(tags.INPUT, b"a"), (tags.INPUT, b""), (tags.INPUT, b"b")]
    assert latest(at_end) == at_end


async def test_of_many_frames_that_come_at_once_few_are_held_and_all_are_read(clients):
    """Thousands arrived in one read, and waited for their turns on each of a user's connections."""
    intake, theirs = clients.connect()
    theirs.send(frames.pack(b"J", b"{}") * 1000)
    theirs.shutdown(socket.SHUT_WR)
    found = []
    while some := await intake.read():
        assert len(some) <= client_frames.FRAMES_AT_ONCE
        found += some
    assert found == [(b"J", b"{}")] * 1000
