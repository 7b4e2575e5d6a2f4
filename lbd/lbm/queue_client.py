"""The dispatcher as an LBM reaches it, and the spools of the other LBMs."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from lbd.config import Config
from lbd.errors import Unavailable
from lbd.lbm.spool import Spool
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.local import JsonClient
from lbd.rpc.transport import Peers

if TYPE_CHECKING:
    Call = grpc.aio.StreamStreamCall[bytes, bytes]
    OpenStream = grpc.aio.StreamStreamMultiCallable[bytes, bytes]
    Ask = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
    Follow = grpc.aio.UnaryStreamMultiCallable[bytes, bytes]

SERVICE = "/lbd.v1.Dispatch/"
LOGS = "/lbd.v1.Lbm/Logs"
ASK_S = 10.0
LIM_S = 1.0


class QueueClient:
    def __init__(self, config: Config, peers: Peers, lim: JsonClient) -> None:
        self._config = config
        self._peers = peers
        self._lim = lim
        own = config.dispatch
        self.spool = Spool(config.host.state_dir, own.max_output_bytes)

    async def work(self) -> "Call":
        """The line for this host's attempts. Raises Unavailable."""
        channel = await self._channel()
        opening: OpenStream = channel.stream_stream(SERVICE + "Work")
        return opening(metadata=self._peers.metadata)

    async def submit(self, request: pb.SubmitRequest) -> pb.SubmitReply:
        """Raises Unavailable; then it may be queued all the same."""
        return pb.SubmitReply.FromString(await self._ask("Submit", request.SerializeToString()))

    async def jobs(self, request: pb.JobsAsked) -> pb.JobsTold:
        """Raises Unavailable."""
        return pb.JobsTold.FromString(await self._ask("Jobs", request.SerializeToString()))

    async def act(self, request: pb.ActRequest) -> pb.ActReply:
        """Raises Unavailable."""
        return pb.ActReply.FromString(await self._ask("Act", request.SerializeToString()))

    async def watch(self, request: pb.JobsAsked) -> AsyncIterator[pb.JobsTold]:
        """As they change, until all have ended. Raises Unavailable when it breaks."""
        channel = await self._channel()
        asking: Follow = channel.unary_stream(SERVICE + "Watch")
        call = asking(request.SerializeToString(), metadata=self._peers.metadata)
        try:
            async for message in call:
                yield pb.JobsTold.FromString(message)
        except (grpc.aio.AioRpcError, DecodeError) as problem:
            raise self._unavailable(problem) from None
        finally:
            call.cancel()

    async def logs(self, host: str, request: pb.LogsRequest) -> AsyncIterator[pb.LogsPiece]:
        """From that host's spool. Raises Unavailable."""
        target = await self._lbm_of(host)
        asking: Follow = self._peers.channel(host, target).unary_stream(LOGS)
        call = asking(request.SerializeToString(), metadata=self._peers.metadata)
        try:
            async for message in call:
                yield pb.LogsPiece.FromString(message)
        except grpc.aio.AioRpcError as problem:
            raise Unavailable(f"{host} cannot be asked for output: {problem.details()}") from None
        finally:
            call.cancel()

    async def _ask(self, method: str, data: bytes) -> bytes:
        channel = await self._channel()
        asking: Ask = channel.unary_unary(SERVICE + method)
        try:
            return await asking(data, metadata=self._peers.metadata, timeout=ASK_S)
        except grpc.aio.AioRpcError as problem:
            raise self._unavailable(problem) from None

    def _unavailable(self, problem: Exception) -> Unavailable:
        why = problem.details() if isinstance(problem, grpc.aio.AioRpcError) else str(problem)
        return Unavailable(f"the dispatcher on {self._config.dispatch.host} does not answer: {why}")

    async def _channel(self) -> grpc.aio.Channel:
        """To the dispatcher, ready. Raises Unavailable."""
        host = self._config.dispatch.host
        if not host:
            raise Unavailable("this cluster has no queue (dispatch.host names no host)")
        address = (await self._lbm_of(host)).rpartition(":")[0]
        channel = self._peers.channel(host, f"{address}:{self._config.dispatch.port}")
        if channel.get_state(try_to_connect=True) != grpc.ChannelConnectivity.READY:
            try:
                async with asyncio.timeout(self._config.lbm.connect_timeout_s):
                    await channel.channel_ready()
            except TimeoutError:
                raise Unavailable(f"the dispatcher on {host} cannot be reached") from None
        return channel

    async def _lbm_of(self, host: str) -> str:
        """ "address:port" of its LBM. Raises Unavailable."""
        own = self._config
        if host == own.host.name:
            return f"{own.host.address}:{own.lbm.port}"
        for entry in own.cluster.hosts:
            if entry.name == host:
                return f"{entry.address}:{entry.lbm_port}"
        answer = await self._lim.call({"op": "peers"}, LIM_S)
        peers = answer.get("peers")
        for peer in peers if isinstance(peers, list) else []:
            if isinstance(peer, dict) and peer.get("name") == host:
                return str(peer.get("lbm"))
        raise Unavailable(f"host {host} is not in this cluster")
