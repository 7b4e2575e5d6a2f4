"""A server of calls that tests answer themselves, and calls to it."""

import socket
from contextlib import asynccontextmanager

import grpc
import grpc.aio

from lbd.net import transport

MAKERS = {
    "Answers": grpc.unary_stream_rpc_method_handler,
    "Asks": grpc.stream_unary_rpc_method_handler,
    "Both": grpc.stream_stream_rpc_method_handler,
}
OPTIONS = transport.options(1 << 20, 10.0)
KEY = "k" * 40


@asynccontextmanager
async def serving(**bodies):
    """Serves methods by the start of their names, without certificates; yields the port."""
    makers = MAKERS | {"Once": grpc.unary_unary_rpc_method_handler}
    handlers = {name: makers[name](body) for name, body in bodies.items()}
    services = [grpc.method_handlers_generic_handler("test.S", handlers)]
    port = free_port()
    trust = transport.Plain("h1", KEY)
    server = transport.bind("127.0.0.1", port, trust, set(), services, OPTIONS)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


def as_host(name):
    return transport.Plain(name, KEY).metadata


async def said(channel, host, request):
    asking = channel.unary_unary("/test.S/Once")
    return await asking(request, metadata=as_host(host), timeout=20)


async def size_of(request, _context):
    return str(len(request)).encode()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
