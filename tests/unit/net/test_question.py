"""One question to another host that is not answered."""

import grpc
import grpc.aio
import pytest

from lbd.net.question import Unanswered, ask


class Channel:
    def __init__(self, problem):
        self.problem = problem

    def unary_unary(self, _method):
        async def call(_data, metadata, timeout):
            raise self.problem

        return call


def failure(code, details):
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


@pytest.mark.parametrize(
    ("problem", "code", "text"),
    [
        (failure(grpc.StatusCode.ABORTED, "revoked"), grpc.StatusCode.ABORTED, "revoked"),
        (failure(grpc.StatusCode.CANCELLED, ""), grpc.StatusCode.CANCELLED, "cancelled"),
        (grpc.aio.UsageError("Channel is closed."), None, "Channel is closed."),
        (grpc.aio.InternalError("closed"), None, "closed"),
    ],
)
async def test_no_answer_is_an_error_that_says_why(problem, code, text):
    with pytest.raises(Unanswered) as found:
        await ask(Channel(problem), "/lbd.v1.Lbm/Jobs", b"", (), 1.0)
    assert (found.value.code, str(found.value)) == (code, text)
