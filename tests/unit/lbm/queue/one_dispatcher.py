"""A dispatcher on a port of its own, for a client of its own."""

import socket

import grpc
import grpc.aio

from lbd.net import transport
from lbd.net.gen import dispatch_pb2 as pb


class Lim:
    async def call(self, request, timeout_s):
        return {"peers": [{"name": "h3", "lbm": "[fd00::3]:7902"}]}


class PlainPeers:
    metadata = ()

    def __init__(self):
        self.channels = {}

    def channel(self, _host, target):
        if target not in self.channels:
            options = transport.options(1 << 20, 10.0)
            self.channels[target] = grpc.aio.insecure_channel(target, options=options)
        return self.channels[target]


class OneDispatcher:
    """A dispatcher on a port that is ours whether it listens or not. It accepts submissions by
    their keys, and may go away before it answers one."""

    def __init__(self):
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._place.bind(("127.0.0.1", 0))
        self.port = self._place.getsockname()[1]
        self.keys, self.answer = [], pb.JobsInfo()
        self.goes_away, self.ledger_token = False, b"one"
        self.asked = []  # the method by which each submission was queued
        self._server = None

    async def start(self):
        one = grpc.unary_unary_rpc_method_handler
        watch = grpc.unary_stream_rpc_method_handler(self._watch)
        handlers = {
            "Watch": watch,
            "Submit": one(self._submit),
            "Jobs": one(self._jobs),
            "Act": one(self._act),
            "Queue": grpc.unary_stream_rpc_method_handler(self._queue),
        }
        self._server = grpc.aio.server()
        handler = grpc.method_handlers_generic_handler("lbd.v1.Dispatch", handlers)
        self._server.add_generic_rpc_handlers([handler])
        assert self._server.add_insecure_port(f"127.0.0.1:{self.port}") == self.port
        await self._server.start()

    async def stop(self):
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def _leave(self, context):
        self.goes_away = False
        await context.abort(grpc.StatusCode.UNAVAILABLE, "it is being started again")

    async def _queue(self, data, context):
        submitted = await self._submitted("Queue", data, context)
        await context.write(pb.JobsInfo(submitted=submitted).SerializeToString())
        jobs = [pb.JobInfo(id=submitted.first, state="done")]
        await context.write(pb.JobsInfo(jobs=jobs).SerializeToString())

    async def _submit(self, data, context):
        return (await self._submitted("Submit", data, context)).SerializeToString()

    async def _submitted(self, method, data, context):
        self.asked.append(method)
        self.keys.append(pb.SubmitRequest.FromString(data).key)
        if self.goes_away:
            await self._leave(context)
        first = 1 + list(dict.fromkeys(self.keys)).index(self.keys[-1])
        return pb.SubmitReply(first=first, count=1, ledger_token=self.ledger_token)

    async def _watch(self, _data, context):
        while True:
            await context.write(self.answer.SerializeToString())

    async def _jobs(self, _data, _context):
        return self.answer.SerializeToString()

    async def _act(self, _data, context):
        self.keys.append("act")
        if self.goes_away:
            await self._leave(context)
        return pb.ActReply(done_ids=["1"], ledger_token=self.ledger_token).SerializeToString()
