"""An incompatible release is attributed to the certificate's host, not to the call's own claim."""

from types import SimpleNamespace

import grpc
import pytest

from lbd.net import release as wire
from lbd.net.neighbours import NeighbourCheck

HOST_HEADER = "lbd-host"
TOO_NEW = "99 98 9.0 "


class Refused(Exception):
    pass


class Call:
    def auth_context(self):
        return {}

    async def abort(self, code, text):
        raise Refused(code, text)


def call_of(host, announced):
    headers = ((HOST_HEADER, host), (wire.HEADER, announced))
    return SimpleNamespace(invocation_metadata=headers, method="/lbd.v1.Lim/Deliver")


async def refused(check, host):
    handler = await check.intercept_service(None, call_of(host, TOO_NEW))
    with pytest.raises(Refused) as answer:
        await handler.stream_stream(None, Call())
    code, text = answer.value.args
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    return text


async def proven(_call):
    return "h2"


async def nobody(call):
    await call.abort(grpc.StatusCode.PERMISSION_DENIED, "h2 is revoked")


async def nothing_is_proven(_call):
    return ""


@pytest.mark.parametrize(
    ("caller", "told"), [(proven, ["h2"]), (nobody, []), (nothing_is_proven, ["h3"])]
)
async def test_no_host_has_another_taken_for_one_of_another_release(caller, told):
    """With `lbd-host: h3` in its calls, h2 made every LIM take h3 for down, once for revoked."""
    skewed = []
    check = NeighbourCheck("h1", HOST_HEADER, lambda host, why: skewed.append((host, why)), caller)
    text = await refused(check, "h3")
    assert [host for host, _ in skewed] == told
    assert all("upgrade h1" in why and host in why for host, why in skewed)
    assert "upgrade h1" in text, "who joins is told the same"
