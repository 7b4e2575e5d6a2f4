"""gRPC between hosts: one server a daemon, one warm channel a peer, the cluster's key on each call.

Chosen options and why:
- keepalive both ways, so that a cut cable ends a stream within `orphan_after_s` on both sides;
  the server must be told to tolerate the pings, or it closes the connection with ENHANCE_YOUR_CALM
- no retries inside gRPC: whether a command may run twice is for us to decide
- one event loop a process: grpc.aio with several prints BlockingIOError (grpc/grpc#42357)
"""

import hmac
import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from lbd.errors import ConfigError, Unavailable

if TYPE_CHECKING:  # generic in the stubs only
    from collections.abc import Awaitable, Callable

    Context = grpc.aio.ServicerContext[object, object]
    Handler = grpc.RpcMethodHandler[object, object] | None
    Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Handler]]

KEY_HEADER = "lbd-key"
HOST_HEADER = "lbd-host"
MIB = 1 << 20


def options(max_message_bytes: int, silence_s: float) -> list[tuple[str, int]]:
    """Channel and server options; a peer silent for about `silence_s` is given up."""
    half_ms = max(500, int(silence_s * 500))
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.keepalive_time_ms", half_ms),
        ("grpc.keepalive_timeout_ms", half_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", half_ms // 2),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", half_ms // 2),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.http2.max_frame_size", MIB),
        ("grpc.http2.write_buffer_size", MIB),
        ("grpc.so_reuseport", 0),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 500),
        ("grpc.max_reconnect_backoff_ms", 2000),
    ]


MAKE_KEY = "make one: (umask 077; head -c 48 /dev/urandom | base64 -w0 >"


def read_key(key_file: str) -> str:
    """The cluster's key. Raises ConfigError if it is missing, short or readable by others."""
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
        raise ConfigError(f"security.key_file {key_file} is open to others; chmod 600 it")
    if len(key) < 32:
        raise ConfigError(f"security.key_file {key_file} holds fewer than 32 characters")
    return key


def check_listen_address(address: str, plain_lab: bool) -> None:
    """Plain transport only on loopback, or on a lab's own private network. Raises ConfigError."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        raise ConfigError(f"host.address {address!r} is not an IP address") from None
    if not ip.is_loopback and not (plain_lab and ip.is_private):
        raise ConfigError(
            f"host.address {address}: without TLS the daemons listen on loopback only "
            "(anybody on the network could read and alter what runs)"
        )


class KeyCheck(grpc.aio.ServerInterceptor):
    """Refuses a call that does not carry the cluster's key, or that comes from a cut-off host."""

    def __init__(self, key: str, cuts: set[str]) -> None:
        self._key = key.encode()
        self._cuts = cuts

        async def refuse(_request: object, context: "Context") -> None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong or missing cluster key")

        async def cut(_request: object, context: "Context") -> None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "cut off by the lab")

        self._refusal: Handler = grpc.stream_stream_rpc_method_handler(refuse)
        self._cut: Handler = grpc.stream_stream_rpc_method_handler(cut)

    async def intercept_service(  # type: ignore[override]  # the stubs make it generic
        self,
        continuation: "Continuation",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler":
        headers = dict(handler_call_details.invocation_metadata or ())
        given = headers.get(KEY_HEADER, "")
        if not hmac.compare_digest(str(given).encode(), self._key):
            return self._refusal
        if headers.get(HOST_HEADER) in self._cuts:
            return self._cut
        return await continuation(handler_call_details)


class Peers:
    """Warm channels by "address:port", and which hosts a lab has cut off from us."""

    def __init__(self, own_name: str, key: str, channel_options: list[tuple[str, int]]) -> None:
        self.metadata = ((KEY_HEADER, key), (HOST_HEADER, own_name))
        self.cuts: set[str] = set()
        self._options = channel_options
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._owner: dict[str, str] = {}

    def channel(self, name: str, target: str) -> grpc.aio.Channel:
        """The channel to host `name` at `target`. Raises Unavailable while it is cut off."""
        if name in self.cuts:
            raise Unavailable(f"{name} is cut off from here")
        channel = self._channels.get(target)
        if channel is None:
            channel = grpc.aio.insecure_channel(target, options=self._options)
            self._channels[target] = channel
            self._owner[target] = name
        return channel

    async def cut(self, names: set[str]) -> None:
        """Behave from now on as if exactly these hosts were unreachable (the lab's `cut`)."""
        self.cuts.clear()
        self.cuts.update(names)
        for target in [t for t, owner in self._owner.items() if owner in names]:
            await self.drop(target)

    async def drop(self, target: str) -> None:
        """Forget the channel to a host that left or moved."""
        self._owner.pop(target, None)
        channel = self._channels.pop(target, None)
        if channel is not None:
            await channel.close()

    async def close(self) -> None:
        for target in list(self._channels):
            await self.drop(target)


def bind(
    address: str,
    port: int,
    key: str,
    cuts: set[str],
    handlers: list[grpc.GenericRpcHandler],
    server_options: list[tuple[str, int]],
) -> grpc.aio.Server:
    """A server that has its port, to be started. Raises ConfigError if it cannot have it."""
    server = grpc.aio.server(options=server_options, interceptors=[KeyCheck(key, cuts)])
    server.add_generic_rpc_handlers(tuple(handlers))
    try:
        bound = server.add_insecure_port(f"{address}:{port}")
    except RuntimeError:
        bound = 0
    if bound == 0:
        raise ConfigError(
            f"cannot listen on {address}:{port}: in use, or not an address of this host"
        )
    return server
