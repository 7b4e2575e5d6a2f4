"""gRPC between hosts: one server per daemon, one warm channel per peer, and proof of who is at the
other end.

A `Trust` says how hosts know each other: by certificates (`tls.py`), or in a lab on loopback by a
shared key (`Plain`). Either way a server learns the caller's name, and a caller reaches the host it
asked for or nobody.

The chosen options and the reasons:

- keepalive both ways, so that a cut cable ends a stream within `orphan_after_s` on both sides; the
  server must be told to tolerate the pings, or it closes the connection with ENHANCE_YOUR_CALM
- the same limit for the answer to a ping: a frozen peer's kernel accepts what we send, so only its
  silence tells, for which gRPC's default is a minute
- no retries inside gRPC: whether a command may run twice is for us to decide
- one event loop a process: grpc.aio with several prints BlockingIOError (grpc/grpc#42357)
"""

import asyncio
import hmac
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

import grpc
import grpc.aio

from lbd.errors import ConfigError, NoAddress
from lbd.model import target_of
from lbd.net import call_watch
from lbd.net.call_watch import CallWatch, place_of
from lbd.net.connection_share import ConnectionShares, connections_to, descriptors, reset
from lbd.net.guarded_calls import CALLS_MAX, GuardedCalls
from lbd.net.listeners import count_listeners
from lbd.net.neighbours import NeighbourCheck, Skewed, ignore

if TYPE_CHECKING:  # generic in the stubs only
    from collections.abc import Awaitable

    Context = grpc.aio.ServicerContext[object, object]
    Handler = grpc.RpcMethodHandler[object, object] | None
    Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Handler]]

KEY_HEADER = "lbd-key"
HOST_HEADER = "lbd-host"
MIB = 1 << 20
NOBODY = "who is no host"
WRITING_S = 0.5  # a server that stops writes no longer than this to a peer that does not read
RESET_EVERY_S = 0.1  # until it has ended: a handshake may have come to its end meanwhile
CONNECTIONS_MAX = 2048  # beyond that, connections are closed before any byte of them is read
HANDSHAKE_MS = 10_000  # for TLS and the start of HTTP/2; gRPC's default is 2 min
KEPT_S = 2e-3 * HANDSHAKE_MS  # how long a stopped server is kept: see `Server`
LOOPBACK_6 = socket.inet_pton(socket.AF_INET6, "::1")
Options = list[tuple[str, int]]


Metadata = tuple[tuple[str, str], ...]


class Call(Protocol):
    """What a server sees of a call, whatever its messages."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]: ...

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn: ...


class Trust(Protocol):
    """How the hosts of a cluster authenticate each other."""

    metadata: Metadata  # for each call
    proves_names: bool  # otherwise every admitted caller is believed to be who it says
    generation: int  # incremented when channels made earlier must take no new calls

    def interceptor(self, cuts: set[str]) -> grpc.aio.ServerInterceptor: ...

    def add_port(self, server: grpc.aio.Server, where: str) -> int: ...

    def channel(self, name: str, target: str, options: Options) -> grpc.aio.Channel:
        """Returns a channel to host `name` and no other; "" = any host of the cluster at that
        address."""
        ...

    async def caller(self, context: Call) -> str:
        """Returns the calling host, "" = unproven. Aborts the calls of hosts that are not
        admitted."""
        ...

    def asker(self, context: "Context") -> str:
        """Returns whose share of this daemon a call uses: a host, perhaps revoked, or NOBODY."""
        ...

    def held(self, caller: str) -> "AbstractContextManager[None]":
        """Wraps a long call. Raises PeerError inside it if its caller is revoked."""
        ...

    def when_revoked(self, notify: "Callable[[set[str]], None]") -> None:
        """Calls `notify` with the hosts whose channels must be closed."""
        ...


def options(max_message_bytes: int, silence_s: float) -> Options:
    """Returns channel and server options; a peer silent for about `silence_s` is given up.

    Most of that time is for its answer, since a peer short of CPU is late, not gone.
    """
    third_ms = max(300, int(silence_s * 333))
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.keepalive_time_ms", third_ms),
        ("grpc.keepalive_timeout_ms", 2 * third_ms),
        ("grpc.http2.ping_timeout_ms", 2 * third_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", third_ms // 2),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", third_ms // 2),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.http2.max_frame_size", MIB),
        ("grpc.http2.write_buffer_size", MIB),
        # Without the probe, the window of an unread stream stays at 64 KiB. With it, gRPC lets a
        # fast sender have 128 MiB each. The probe measures speed with a ping after messages, which
        # costs half as much as a short message.
        ("grpc.http2.bdp_probe", 0),
        # No host of ours compresses. For CallWatch a message would explain as many bytes as it
        # unpacks to, a thousand times those received; and gRPC 1.66 unpacks without limit.
        ("grpc.compression_enabled_algorithms_bitset", 1),
        ("grpc.max_concurrent_streams", CALLS_MAX),  # per connection; more wait at the caller
        ("grpc.max_allowed_incoming_connections", CONNECTIONS_MAX),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
        ("grpc.so_reuseport", 1),  # the keeper has a socket on the port: keeper/kept_ports.py
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 500),
        ("grpc.max_reconnect_backoff_ms", 2000),
    ]


MAKE_KEY = "create one: (umask 077; head -c 48 /dev/urandom | base64 -w0 >"


def read_key(key_file: str) -> str:
    """Returns the cluster's key. Raises ConfigError if it is missing, short or readable by
    others."""
    path = Path(key_file)
    try:
        mode = path.stat().st_mode & 0o077
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "not ASCII text"
        raise ConfigError(
            f"security.key_file {key_file}: {why}; {MAKE_KEY}{key_file})"
        ) from problem
    if mode:
        raise ConfigError(f"security.key_file {key_file} is accessible to others; chmod 600 it")
    if len(key) < 32:
        raise ConfigError(f"security.key_file {key_file} contains fewer than 32 characters")
    return key


def check_listen_address(address: str) -> None:
    """Allows plain transport on loopback only. Raises ConfigError."""
    packed = packed_address(address)
    if not (packed[0] == 127 if len(packed) == 4 else packed == LOOPBACK_6):
        raise ConfigError(
            f"host.address {address}: without TLS the daemons listen on loopback only; to get "
            "certificates, run `lbctl init` on the first host and `lbctl join` on the others"
        )


def packed_address(address: str) -> bytes:
    """Returns four bytes, or sixteen for IPv6. Raises ConfigError if it is not an address."""
    plain, mark, scope = address.partition("%")
    family = socket.AF_INET6 if ":" in plain else socket.AF_INET
    try:
        if mark and not (scope and family == socket.AF_INET6):
            raise ValueError
        return socket.inet_pton(family, plain)
    except (OSError, ValueError):
        raise ConfigError(f"host.address {address!r} is not an IP address") from None


async def cut_off(_request: object, context: "Context") -> None:
    await context.abort(grpc.StatusCode.UNAVAILABLE, "cut off by the lab")


class CutCheck(grpc.aio.ServerInterceptor):
    """Refuses calls of a host that a lab has cut off from us."""

    def __init__(self, cuts: set[str]) -> None:
        self._cuts = cuts
        self._cut: Handler = grpc.stream_stream_rpc_method_handler(cut_off)

    async def intercept_service(  # type: ignore[override]  # the stubs make it generic
        self,
        continuation: "Continuation",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler":
        headers = dict(handler_call_details.invocation_metadata or ())
        return self._refused(headers) or await continuation(handler_call_details)

    def _refused(self, headers: Mapping[str, str | bytes]) -> "Handler":
        return self._cut if headers.get(HOST_HEADER) in self._cuts else None


class KeyCheck(CutCheck):
    """Also refuses calls without the cluster's key."""

    def __init__(self, key: str, cuts: set[str]) -> None:
        super().__init__(cuts)
        self._key = key.encode()

        async def refuse(_request: object, context: "Context") -> None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong or missing cluster key")

        self._refusal: Handler = grpc.stream_stream_rpc_method_handler(refuse)

    def _refused(self, headers: Mapping[str, str | bytes]) -> "Handler":
        given = str(headers.get(KEY_HEADER, "")).encode()
        if not hmac.compare_digest(given, self._key):
            return self._refusal
        return super()._refused(headers)


class Plain:
    """For a lab on loopback: every holder of the key is believed to be who it says."""

    proves_names = False
    generation = 0

    def __init__(self, own_name: str, key: str) -> None:
        self.metadata: Metadata = ((KEY_HEADER, key), (HOST_HEADER, own_name))
        self._key = key

    def interceptor(self, cuts: set[str]) -> grpc.aio.ServerInterceptor:
        return KeyCheck(self._key, cuts)

    def add_port(self, server: grpc.aio.Server, where: str) -> int:
        return server.add_insecure_port(where)

    def channel(self, _name: str, target: str, options: Options) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(target, options=options)

    async def caller(self, _context: Call) -> str:
        return ""

    def asker(self, context: "Context") -> str:
        return str(dict(context.invocation_metadata() or ()).get(HOST_HEADER, NOBODY))

    def held(self, _caller: str) -> AbstractContextManager[None]:
        return nullcontext()

    def when_revoked(self, _listeners: Callable[[set[str]], None]) -> None:
        return


class Server:
    """A gRPC server that is bound to its port.

    gRPC closes a connection only after what it is writing there, which takes as long as the peer
    likes: one that reads too slowly would keep us from ending, and from starting again.

    Nor does gRPC cancel the timer of each handshake. If it runs out once the server has been freed,
    it uses freed memory, and the process may crash; so a stopped server is kept for that long.
    """

    def __init__(
        self,
        server: grpc.aio.Server,
        place: tuple[str, int],
        watches: tuple[ConnectionShares, CallWatch],
    ) -> None:
        self._server = server
        self.place = place
        self._watches = watches

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, grace_s: float | None) -> None:
        """Closes the port, and its connections once their calls have ended, at the latest after
        `grace_s` and a moment for what is being written."""
        resets = asyncio.create_task(self._reset_all((grace_s or 0.0) + WRITING_S), name="reset")
        try:
            await self._server.stop(grace_s)
        finally:
            resets.cancel()
            for watch in self._watches:
                watch.end()
            asyncio.get_running_loop().call_later(KEPT_S, let_go, self._server)

    async def _reset_all(self, later_s: float) -> None:
        """Resets the connections that are left after that time, until cancelled."""
        while True:
            await asyncio.sleep(later_s)
            for sock, _ in connections_to(*self.place, descriptors()):
                reset(sock)
            later_s = RESET_EVERY_S


def let_go(_server: grpc.aio.Server) -> None:
    """Ends the last reference to it."""


def bind(
    address: str,
    port: int,
    trust: Trust,
    cuts: set[str],
    handlers: list[grpc.GenericRpcHandler],
    server_options: Options,
    skewed: Skewed = ignore,
) -> Server:
    """Returns a server bound to its port, not started. Raises NoAddress if the port is not
    available."""
    own_name = dict(trust.metadata).get(HOST_HEADER, "")
    check = NeighbourCheck(own_name, HOST_HEADER, skewed, trust.caller)
    interceptors = [trust.interceptor(cuts), check]
    server = grpc.aio.server(
        options=[*server_options, call_watch.OPTION], interceptors=interceptors
    )
    calls = GuardedCalls(handlers, trust)
    server.add_generic_rpc_handlers((calls,))
    where, packed, bound = target_of(address, port), packed_address(address), 0
    with suppress(RuntimeError):
        if port == 0 or count_listeners(packed, port) == 0:
            bound = trust.add_port(server, where)
    # another process bound it at the same moment
    if bound == 0 or count_listeners(packed, bound) > 1:
        raise NoAddress(f"cannot listen on {where}: in use, or not an address of this host")
    place = (address, bound)
    shares = ConnectionShares(place, CONNECTIONS_MAX, lambda: set(map(place_of, calls.taken)))
    return Server(server, place, (shares, CallWatch(place, calls.taken, calls.read_bytes)))
