"""Joining a cluster, from the point of view of the joining host.

First it checks who answers: a handshake without a certificate, in which nothing is revealed, shows
the server's certificates. Only if the authority among them has the fingerprint in the token, and
has signed the server's own, is anything sent, and then inside mutual TLS, to a host that this
authority vouches for, under a certificate signed by the token's key.
"""

import hashlib
import socket
import ssl
from dataclasses import dataclass
from functools import partial

import grpc

from lbd import __version__
from lbd.errors import ConfigError, LbdError, PeerError, Unavailable
from lbd.model import target_of
from lbd.net.gen import trust_pb2 as pb
from lbd.net.parsing import parsed_answer
from lbd.text.host_name import is_host_name
from lbd.trust import certificates
from lbd.trust.authority import verified
from lbd.trust.evidence import check_issued
from lbd.trust.files import Credentials
from lbd.trust.names import ANY_HOST
from lbd.trust.token import Token

TIMEOUT_S = 10.0
LIM_PORT = 7901
METHOD = "/lbd.v1.Trust/Join"


@dataclass(frozen=True, slots=True)
class Joined:
    """What the authority has issued."""

    cluster: str
    home: str  # the authority's host
    credentials: Credentials
    authority: bytes
    revocations: bytes


def parse_address(text: str) -> tuple[str, int]:
    """Parses "host", "host:port" or "[IPv6]:port". Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
        host, port = text, str(LIM_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536 or " " in host:
        raise ConfigError(f"{text!r} is not an address; like 10.0.0.1 or 10.0.0.1:{LIM_PORT}")
    return host, int(port)


def own_address(address: tuple[str, int]) -> str:
    """Returns the address of this host that the other one sees. Nothing is sent. Raises
    ConfigError."""
    try:
        kind, _, _, _, found = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as sock:
            sock.connect(found)
            return str(sock.getsockname()[0])
    except socket.gaierror as problem:
        raise ConfigError(f"{address[0]!r} does not resolve: {problem.strerror}") from None
    except OSError as problem:
        raise ConfigError(
            f"cannot tell at which address other hosts reach this one ({problem.strerror}): give "
            "--address"
        ) from None


def join(address: tuple[str, int], token: Token, host: str, now_s: float) -> Joined:
    """Joins. Raises Unavailable if that host cannot be reached, PeerError if it is not the right
    one, LbdError with the reason if it refuses."""
    authority = authority_at(address, token.fingerprint)
    key = certificates.new_key()
    proof = certificates.certificate_of_newcomer(token, key, host, now_s)
    request = pb.JoinRequest(
        host=host, request=certificates.new_request(key, host), version=__version__
    )
    reply = ask(address, authority, Credentials(key, proof), request)
    credentials = Credentials(key, reply.certificates)
    # Any host of the cluster may have answered in place of the authority's host.
    check_issued(authority, reply.certificates, host, key)
    if not (reply.cluster.isprintable() and is_host_name(reply.authority_host)):
        raise PeerError(f"{target_of(*address)} sent a malformed description of its cluster")
    if reply.revocations:
        verified(reply.revocations, authority)
    return Joined(reply.cluster, reply.authority_host, credentials, authority, reply.revocations)


def authority_at(address: tuple[str, int], fingerprint: bytes) -> bytes:
    """Returns the authority's certificate, PEM, from those shown at this address."""
    own, *rest = chain_at(address)
    authority = next((c for c in rest if hashlib.sha256(c).digest() == fingerprint), None)
    if authority is not None:
        pem = ssl.DER_cert_to_PEM_cert(authority).encode()
        if certificates.is_signed_by(ssl.DER_cert_to_PEM_cert(own).encode(), pem):
            return pem
    found = hashlib.sha256(rest[-1] if rest else own).hexdigest()
    raise PeerError(
        f"{target_of(*address)} is not in the token's cluster: its authority is {found[:16]}…, the "
        f"token's {fingerprint.hex()[:16]}…; nothing was sent"
    )


def chain_at(address: tuple[str, int]) -> list[bytes]:
    """Returns the certificates shown there, DER, the server's own first. Raises Unavailable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # `authority_at` checks everything
    context.verify_mode = ssl.CERT_NONE
    # older versions show them only to known callers
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    where = target_of(*address)
    try:
        with (
            socket.create_connection(address, TIMEOUT_S) as sock,
            context.wrap_socket(sock) as connection,
        ):
            return chain_of(connection)
    except ssl.SSLError as problem:
        text = f"{where} does not speak TLS like a LIM ({problem.reason}); is that its port?"
        raise Unavailable(text) from None
    except TimeoutError:
        raise Unavailable(f"{where} did not answer within {TIMEOUT_S:g} s") from None
    except OSError as problem:
        text = f"cannot reach {where}: {problem.strerror}; is `lbd up` running there?"
        raise Unavailable(text) from None


def chain_of(connection: ssl.SSLSocket) -> list[bytes]:
    """Returns the chain: by a method that is public since Python 3.13; before, by the object
    inside, as PEM."""
    given = getattr(connection, "get_unverified_chain", None)
    if given is not None:
        return list(given())
    inside = getattr(connection, "_sslobj")  # noqa: B009
    return [ssl.PEM_cert_to_DER_cert(one.public_bytes()) for one in inside.get_unverified_chain()]


def ask(
    address: tuple[str, int], authority: bytes, own: Credentials, request: pb.JoinRequest
) -> pb.JoinReply:
    """Returns the requested certificate. Raises Unavailable, or LbdError with the reason of a
    refusal."""
    where = target_of(*address)
    credentials = grpc.ssl_channel_credentials(authority, own.key, own.chain)
    options = [("grpc.ssl_target_name_override", ANY_HOST), ("grpc.enable_http_proxy", 0)]
    with grpc.secure_channel(where, credentials, options) as channel:
        call = channel.unary_unary(
            METHOD,
            request_serializer=pb.JoinRequest.SerializeToString,
            response_deserializer=partial(parsed_answer, pb.JoinReply),
        )
        try:
            reply: pb.JoinReply = call(request, timeout=TIMEOUT_S)
        except grpc.RpcError as problem:
            if problem.code() is grpc.StatusCode.UNAVAILABLE:
                raise LbdError(
                    f"{where} does not know this token: it was revoked, or used or expired days "
                    "ago, or the authority is on another host; create one with `lbctl token "
                    "create` there"
                ) from None
            raise LbdError(f"{where}: {problem.details()}") from None
    return reply
