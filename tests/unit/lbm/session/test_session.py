"""The tasks of one client's connection, at its end."""

import asyncio
import contextlib
import socket
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config
from lbd.lbm.core.journey import JourneyPhase
from lbd.lbm.link.user_threads import UserThreads
from lbd.lbm.session.client import Attending
from lbd.lbm.session.session import Connection
from lbd.local import client_tags as tags
from lbd.local import frames
from lbd.local.budget import Budget
from lbd.local.json_socket import decode, encode
from lbd.local.long_answers import LongAnswers
from tests.unit.until import until


async def attended(listening, journey):
    """Returns the outcome for a client that listens this way."""
    attending = Attending(lambda: listening, lambda: None)
    try:
        attending.listen()
        return await attending.run(journey)
    finally:
        await attending.end()


async def returned():
    return True


async def failed(problem):
    raise problem


async def test_a_silent_client_is_listened_to_only_as_long_as_the_command_takes():
    async with asyncio.timeout(20):
        assert await attended(asyncio.sleep(3600), returned()) is True


@pytest.mark.parametrize("problem", [ValueError(), BrokenPipeError()])
async def test_an_invalid_message_of_a_client_ends_only_its_command(problem):
    async with asyncio.timeout(20):
        assert await attended(failed(problem), asyncio.sleep(3600, result=True)) is False


async def test_an_error_of_our_own_is_not_hidden():
    with pytest.raises(RuntimeError):
        await attended(failed(RuntimeError()), asyncio.sleep(3600, result=True))


async def test_stopping_the_lbm_cancels_both():
    task = asyncio.create_task(attended(asyncio.sleep(3600), asyncio.sleep(3600, result=True)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_command_whose_client_goes_away_as_it_is_to_run_it_has_ended():
    """It stayed in the list of running commands for ever, without a process."""
    client, ours = socket.socketpair()
    ours.setblocking(False)
    home = SimpleNamespace(
        config=Config(), threads=UserThreads(), long_requests=Budget(1 << 20, 1 << 20)
    )
    connection = Connection(ours, home, None)
    ended = []

    async def run():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        command.journey.phase = JourneyPhase.HERE
        return True

    journey = SimpleNamespace(phase=JourneyPhase.ASKING, stay=SimpleNamespace(is_measured=False))
    command = SimpleNamespace(run=run, journey=journey, far=None,
                              ended_here=lambda: ended.append(True))  # fmt: skip
    client.close()
    async with asyncio.timeout(20):
        await connection._attend(command)
    assert ended == [True]
    connection.close()


@pytest.fixture
async def asked():
    """Yields a function that sends a request and returns the complaint of the LBM."""
    client, ours = socket.socketpair()
    ours.setblocking(False)
    home = SimpleNamespace(
        config=Config(), threads=UserThreads(), long_requests=Budget(1 << 20, 1 << 20),
        rates=SimpleNamespace(turn_s=lambda *_: 0.01),
    )  # fmt: skip
    connection = Connection(ours, home, None)
    connection.caller = SimpleNamespace(person="ann", uid=0)

    async def complaint(sent):
        client.sendall(sent)
        async with asyncio.timeout(20):
            await connection.serve()
        heard = frames.Splitter(1 << 20).feed(client.recv(1 << 16))
        return [body.decode() for tag, body in heard if tag == tags.UNFIT]

    with client:
        yield complaint
        connection.close()


async def test_a_request_that_is_too_long_is_told_the_limit(asked):
    """It was: a frame of 11534623 bytes; the limit is 8388608."""
    announced = (11 << 20).to_bytes(4, "little") + tags.RUN
    assert await asked(announced) == [
        "the LBM cannot accept this request: it has 11534336 bytes with its arguments and "
        "environment; lbm.max_request_bytes is 8388608"
    ]


async def test_too_much_input_is_told_the_limit_of_the_input_too(asked):
    """It was lbm.max_request_bytes alone, and who raised that met the other."""
    announced = (11 << 20).to_bytes(4, "little") + tags.QUEUE
    assert await asked(announced) == [
        "the LBM cannot accept this request: it has 11534336 bytes with its standard input; "
        "lbm.max_request_bytes is 8388608, of which dispatch.max_input_bytes, 4194304, may be "
        "input: let the command read a file, or use --no-stdin"
    ]


async def test_a_host_that_cannot_be_named_is_shown(asked):
    """It was: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte."""
    body = frames.field(tags.HOST, b"a\xffb")
    said = "the LBM cannot accept this request: 'a\ufffdb' is not the name of a host"
    assert await asked(frames.pack(tags.QUEUE, body)) == [said]


@pytest.mark.parametrize("tells", [True, False])
async def test_only_who_expects_it_is_told_that_its_turn_takes_a_while(tells):
    """`lbctl` said: a frame tagged b'T' instead of JSON."""
    sent = []
    connection = SimpleNamespace(
        _home=SimpleNamespace(rates=SimpleNamespace(turn_s=lambda *_: 0.001)),
        caller=SimpleNamespace(person="ann", uid=0), _frames=SimpleNamespace(send=sent.append),
    )  # fmt: skip
    await Connection._turn(connection, b"", tells=tells)
    assert sent == [tags.TAKEN] * tells


class Answers:
    """Takes every question; none is answered before `free` is set."""

    def __init__(self):
        self.begun, self.ended, self.free = 0, 0, asyncio.Event()

    async def answer(self, question, caller):
        self.begun += 1
        await self.free.wait()
        self.ended += 1


@pytest.fixture
async def asking():
    """A client, the connection to it, and who answers."""
    client, ours = socket.socketpair()
    client.setblocking(False)
    ours.setblocking(False)
    home = SimpleNamespace(
        config=Config(), threads=UserThreads(), long_requests=Budget(1 << 20, 1 << 20),
        rates=SimpleNamespace(turn_s=lambda *_: 0.0), long_answers=LongAnswers(),
    )  # fmt: skip
    answers = Answers()
    connection = Connection(ours, home, answers.answer)
    with client:
        yield client, connection, answers
    connection.close()


@pytest.mark.parametrize("count", [1, 2])
async def test_the_answer_of_a_client_that_has_hung_up_is_given_up(asking, count):
    """It kept its place in lbm.max_clients while a host was asked that never answered."""
    client, connection, answers = asking
    client.send(count * encode({"op": "queue.logs", "id": 1}))
    async with asyncio.timeout(20):
        serving = asyncio.create_task(connection.serve())
        await until(lambda: answers.begun)
        client.close()
        await serving
    assert (answers.begun, answers.ended) == (1, 0)


@pytest.mark.parametrize("question", [{"op": "queue.act", "id": 1}, {"op": "anything"}])
async def test_what_was_ordered_is_done_though_its_client_has_hung_up(asking, question):
    client, connection, answers = asking
    client.send(encode(question))
    client.close()
    asyncio.get_running_loop().call_later(0.1, answers.free.set)
    async with asyncio.timeout(20):
        await connection.serve()
    assert answers.ended == 1


async def test_a_question_that_comes_before_the_last_answer_is_answered_in_turn(asking):
    client, connection, answers = asking
    heard, split = [], frames.Splitter(1 << 20)
    async with asyncio.timeout(20):
        serving = asyncio.create_task(connection.serve())
        client.send(encode({"op": "queue.logs", "id": 1}))
        await until(lambda: answers.begun)
        client.send(encode({"op": "queue.logs", "id": 2}))
        await until(lambda: connection._unheard)
        answers.free.set()
        while len(heard) < 2:
            heard += split.feed(await asyncio.get_running_loop().sock_recv(client, 1 << 16))
        client.close()
        await serving
    assert [decode(*frame)["id"] for frame in heard] == [1, 2]


async def test_who_sends_nonsense_after_a_question_gets_its_answer_first(asking):
    client, connection, answers = asking
    heard, split, loop = [], frames.Splitter(1 << 20), asyncio.get_running_loop()
    async with asyncio.timeout(20):
        serving = asyncio.create_task(connection.serve())
        client.send(encode({"op": "queue.logs", "id": 1}))
        await until(lambda: answers.begun)
        client.send(b"\xff" * 64)  # a frame of four gigabytes
        loop.call_later(0.1, answers.free.set)
        while not heard:
            data = await loop.sock_recv(client, 1 << 16)
            assert data, "it was closed without an answer"
            heard = split.feed(data)
        client.close()
        await serving
    assert decode(*heard[0])["id"] == 1
