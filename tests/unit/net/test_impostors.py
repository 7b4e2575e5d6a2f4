"""Certificates that our authority has signed, for names that TLS could confuse with another host's.

No authority of ours gives them, and both ends refuse them.
"""

import time
from dataclasses import dataclass

import grpc
import grpc.aio
import pytest

from lbd.errors import PeerError
from lbd.net.tls import Tls
from lbd.trust import certificates
from lbd.trust.authority import Authority
from lbd.trust.enrol import enrol
from lbd.trust.files import Credentials, HostFiles
from lbd.trust.names import names_of
from tests.unit.enrolment import joined, made_authority

METHOD = "/test.Service/Who"


@dataclass
class Cluster:
    authority: Authority
    caller: Tls  # of h2

    def credentials(self, host, issue=0, names=None):
        """Returns a key and a certificate for any name."""
        key = certificates.new_key()
        public = certificates.private_key(key).public_key()
        root = self.authority.credentials()
        given = tuple(names or names_of(host, issue))
        chain = certificates.signed(root, public, host, given, time.time(), 3600.0)
        return Credentials(key, chain + root.chain)


@pytest.fixture
def cluster(tmp_path):
    authority = made_authority(tmp_path / "authority")
    return Cluster(authority, joined(authority, "h2"))


async def answer_as(cluster, own, asked):
    """Returns what h2 gets when it asks for `asked` at a server with these credentials."""

    async def who(_request, _context):
        return b"reached"

    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    handlers = {"Who": grpc.unary_unary_rpc_method_handler(who)}
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test.Service", handlers),)
    )
    shown = grpc.ssl_server_credentials(
        [(own.key, own.chain)], cluster.authority.certificate, require_client_auth=True
    )
    port = server.add_secure_port("127.0.0.1:0", shown)
    await server.start()
    try:
        async with cluster.caller.channel(asked, f"127.0.0.1:{port}", []) as channel:
            return await channel.unary_unary(METHOD)(b"", timeout=10)
    except grpc.aio.AioRpcError as problem:
        return b"" if problem.code() is grpc.StatusCode.UNAVAILABLE else problem.details()
    finally:
        await server.stop(None)


@pytest.mark.parametrize("host", ["h1", "a.b-c_d", "lbd", "H-1.example.org", "h" * 200])
async def test_the_requested_host_is_reached(cluster, host):
    assert await answer_as(cluster, cluster.credentials(host), host) == b"reached"
    assert await answer_as(cluster, cluster.credentials(host), "") == b"reached"
    assert await answer_as(cluster, cluster.credentials(host, 12), host) == b""  # 0 is not in it


@pytest.mark.parametrize(
    "shown", ["0.h1.lbd.", "0.H1.LBD.", "*.h1.lbd.", "*.lbd.", "h3", "x.h1", "0.h1", "h1.", "*"]
)
async def test_who_has_another_name_is_not_the_host_asked_for(cluster, shown):
    """TLS drops a dot at the end, ignores the case, and lets * stand for any label."""
    assert await answer_as(cluster, cluster.credentials(shown), "h1") == b""


async def test_after_a_revocation_a_host_is_requested_by_its_next_issue(cluster):
    enrol(
        cluster.authority, HostFiles(cluster.authority.root.parent / "h1"), "h1", "-", time.time()
    )
    made = cluster.authority.new_token("h3", 60.0, time.time())
    request = certificates.new_request(certificates.new_key(), "h3")
    cluster.authority.join(made.id, "h3", request, time.time())
    cluster.caller.learn(cluster.authority.revoke("h3"))
    assert await answer_as(cluster, cluster.credentials("h3", 0), "h3") == b""
    assert await answer_as(cluster, cluster.credentials("1.h3.lbd."), "h3") == b""
    assert await answer_as(cluster, cluster.credentials("h3", 1), "h3") == b"reached"


@pytest.mark.parametrize(
    "names",
    [
        names_of("0.h1.lbd.", 0), names_of("h1.", 0), names_of("*", 0),
        [*names_of("h1", 0), "h3"], [*names_of("h1", 0), "x.h1"], [*names_of("h1", 0), "h1"],
        ["h1", "0.h1.lbd"], ["h1", "00.h1.lbd", "any.lbd"], ["h1", "5.h1.lbd", "any.lbd"],
        [*names_of("h1", 0), "1.H1.lbd"],
    ],
)  # fmt: skip
def test_a_caller_with_any_other_names_is_refused(cluster, names):
    """Only the names that the authority gives to a host make the certificate's holder that host."""
    certificate = cluster.credentials("h1", names=names).certificate.encode()
    with pytest.raises(PeerError, match="only for hosts that have joined"):
        cluster.caller.host_of(certificate, time.time())
    proper = cluster.credentials("h1").certificate.encode()
    assert cluster.caller.host_of(proper, time.time()) == "h1"
