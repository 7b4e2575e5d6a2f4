"""Questions about certificates: anyone whom TLS accepts may ask, but not without end."""

import asyncio
import contextlib
import logging
import time
from types import SimpleNamespace

import grpc
import pytest

from lbd.net import trust_service
from lbd.net.gen import trust_pb2 as pb
from lbd.net.trust_service import CALLS_AT_ONCE, SIGNED_AT_ONCE, TrustService
from lbd.trust import certificates
from lbd.trust.authority import Authority
from tests.unit.enrolment import enrolled, joined

METHODS = ("Join", "Renew", "Revocations")


class Refused(Exception):
    pass


class Call:
    def __init__(self, certificate):
        self._certificate = certificate

    def auth_context(self):
        return {"x509_pem_cert": [self._certificate]}

    async def abort(self, code, text):
        raise Refused(code, text)


@pytest.fixture
def service(authority):
    found = TrustService(joined(authority, "h1")).handler()

    def call(method, data, certificate):
        details = SimpleNamespace(method=f"/lbd.v1.Trust/{method}", invocation_metadata=())
        return found.service(details).unary_unary(data, Call(certificate))

    return call


def shown_by(authority: Authority, host):
    return enrolled(authority, host).read_credentials().certificate.encode()


def long_question(method):
    padding = b"\n" + b"[" * (1 << 20)
    kinds = {"Join": pb.JoinRequest, "Renew": pb.RenewRequest}
    kind = kinds.get(method)
    if kind is None:
        return pb.RevocationUpdate(signed=padding).SerializeToString()
    return kind(request=padding).SerializeToString()


async def refusals(service, method, data, certificate, calls):
    """Returns how many of this many calls at once are told that they are too many."""
    tasks = [asyncio.create_task(service(method, data, certificate)) for _ in range(calls)]
    await asyncio.wait(tasks, timeout=0.1)
    done = [task.exception() for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
    return [p for p in done if isinstance(p, Refused) and p.args[0] is exhausted]


@pytest.mark.parametrize("method", METHODS)
async def test_a_host_that_asks_without_end_is_refused_and_others_are_not(
    service, authority, method
):
    """Each question made the LIM read a megabyte of JSON, or try all tokens, and nobody was
    heard."""
    certificate = shown_by(authority, "h2")
    few = await refusals(service, method, long_question(method), certificate, 10)
    assert len(few) >= 5
    assert "h2 asks about certificates too often" in few[0].args[1]
    answer = await service("Revocations", b"", shown_by(authority, "h3"))
    assert pb.RevocationUpdate.FromString(answer) == pb.RevocationUpdate()


async def test_a_host_has_few_certificates_signed(service, authority, caplog, monkeypatch):
    """Each was a line in the log of the authority's LIM, two a second."""
    monkeypatch.setattr(trust_service, "PATIENCE_S", 0.0)
    caplog.set_level(logging.INFO)
    certificate = shown_by(authority, "h2")
    for _ in range(3 * int(SIGNED_AT_ONCE)):
        with contextlib.suppress(Refused):
            await service("Join", pb.JoinRequest(host="h1").SerializeToString(), certificate)
    assert len(caplog.records) <= SIGNED_AT_ONCE + 1


async def test_nor_is_one_that_was_revoked_served_without_end(service, authority):
    certificate = shown_by(authority, "h2")
    authority.revoke("h2")
    assert await refusals(service, "Revocations", b"", certificate, 3 * int(CALLS_AT_ONCE))


async def test_who_is_no_host_shares_a_turn_with_others_like_that(service, authority):
    """A holder of a token makes as many certificates with it as they like."""
    refused = []
    for _ in range(3):
        token = authority.new_token("", 60.0, time.time())
        key = certificates.new_key()
        shown = certificates.certificate_of_newcomer(token, key, "new", time.time())
        refused += await refusals(service, "Join", long_question("Join"), shown, 2)
    assert refused
    assert "who is no host" in refused[0].args[1]
