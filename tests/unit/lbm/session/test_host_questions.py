"""A host that asks without end, and another one."""

import asyncio

import grpc
import pytest

from lbd.errors import PeerError, Unavailable
from lbd.lbm.session.host_questions import BURST, LONG_AT_ONCE, TOO_MANY, HostQuestions
from lbd.net.gen import lbm_pb2 as pb


class Trust:
    async def caller(self, context):
        return context.host


class Aborted(Exception):
    pass


class Context:
    def __init__(self, host):
        self.host = host

    async def abort(self, code, text):
        raise Aborted(code, text)


def asking(answer, operation=""):
    questions = HostQuestions(Trust(), clock=lambda: 100.0)
    call = questions.handler(bytes, answer, operation).unary_unary
    return lambda host, data=b"": call(data, Context(host))


def said(host):
    return pb.JobsReply(jobs=[pb.JobRecord(id=host)])


async def at_once(_data, host):
    return said(host)


async def test_who_asks_without_end_is_refused_and_others_are_not():
    ask = asking(at_once)
    for _ in range(int(BURST)):
        assert await ask("h2") == said("h2").SerializeToString()
    asks = [asyncio.create_task(ask("h2")) for _ in range(1000)]
    assert await ask("h3") == said("h3").SerializeToString()
    for _ in range(10):
        await asyncio.sleep(0)
    refused = [why for one in asks if one.done() and (why := one.exception())]
    assert len(refused) > 500
    assert refused[0].args == (grpc.StatusCode.RESOURCE_EXHAUSTED, f"h2 {TOO_MANY}")
    for one in asks:
        one.cancel()


async def test_a_long_question_counts_as_many():
    ask = asking(at_once)
    asks = [asyncio.create_task(ask("h2", bytes(8 << 20))) for _ in range(20)]
    found = await asyncio.gather(*asks, return_exceptions=True)
    refused = [why for why in found if not isinstance(why, bytes)]
    assert len(refused) > 5
    assert all(isinstance(why, Aborted) for why in refused)


@pytest.mark.parametrize(("operation", "most"), [("past", LONG_AT_ONCE), ("", 9)])
async def test_few_long_answers_to_a_host_are_made_at_once(operation, most):
    inside, end = [], asyncio.Event()

    async def answer(_data, host):
        inside.append(host)
        await end.wait()
        return said(host)

    ask = asking(answer, operation)
    tasks = [asyncio.create_task(ask("h2")) for _ in range(9)]
    tasks.append(asyncio.create_task(ask("h3")))
    for _ in range(10):
        await asyncio.sleep(0)
    assert (inside.count("h2"), inside.count("h3")) == (most, 1)
    end.set()
    await asyncio.gather(*tasks)


async def answer(request, caller):
    if request.user == "bad":
        raise PeerError("made up")
    if request.user == "busy":
        raise Unavailable("too many")
    return pb.JobsReply(jobs=[pb.JobRecord(id=f"{caller}-1")])


def asked(data):
    handler = HostQuestions(Trust()).handler(pb.JobsRequest.FromString, answer)
    return handler.unary_unary(data, Context("h2"))


async def test_an_answer_goes_to_the_host_that_asked():
    reply = pb.JobsReply.FromString(await asked(b""))
    assert [job.id for job in reply.jobs] == ["h2-1"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff", grpc.StatusCode.INVALID_ARGUMENT),
        (pb.JobsRequest(user="bad").SerializeToString(), grpc.StatusCode.INVALID_ARGUMENT),
        (pb.JobsRequest(user="busy").SerializeToString(), grpc.StatusCode.FAILED_PRECONDITION),
    ],
)
async def test_an_unanswerable_question_is_refused(data, code):
    with pytest.raises(Aborted) as refused:
        await asked(data)
    assert refused.value.args[0] is code
