"""The spools of the other hosts: what attempts printed there, and the packs that they left."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import grpc.aio
from google.protobuf.message import DecodeError

from lbd.errors import Unavailable
from lbd.lbm.queue.spool import PIECE_BYTES
from lbd.lbm.session.cluster import Cluster, NotInCluster
from lbd.local.json_socket import AWAY, Refusal
from lbd.local.rate_limit import TimeShares
from lbd.net.details import SILENT, in_plain_words
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.parsing import parsed_answer
from lbd.net.peers import Peers
from lbd.net.question import ChannelMayClose, Unanswered
from lbd.text.job_phrases import OUTPUT_GONE

if TYPE_CHECKING:
    Follow = grpc.aio.UnaryStreamMultiCallable[bytes, bytes]

Logs = Callable[[pb.LogsRequest], AsyncIterator[pb.LogsPiece]]
PieceKind = TypeVar("PieceKind", pb.LogsPiece, pb.FilesPiece)
LOGS, FILES = "/lbd.v1.Lbm/Logs", "/lbd.v1.Lbm/Files"
# A host may send empty pieces without end. So each piece counts as if it took PIECE_S, and those of
# one host may take SHARE of this LBM's time: 600 MB/s at 256 KiB a piece.
SHARE, PIECE_S = 0.25, 1e-4
STALLED_S = 5.0  # of a reader; asking for the rest later costs one call
# Besides what a host would keep of an attempt by our own settings: its own may be larger, or its
# disk unable to give back a part of a file.
SPARE_BYTES = 1 << 28
# Of an ended attempt few pieces are short: the last ones, and those before what was dropped.
SHORT_BYTES, SHORT_MAX = PIECE_BYTES // 4, 64


class NotKept(Unavailable):
    """The host does not have the file, or not any more."""


class Unending(Unavailable):
    """A host does not end what it sends."""


class OtherSpools:
    def __init__(self, own_name: str, peers: Peers, cluster: Cluster) -> None:
        self._own_name = own_name
        self._peers, self._cluster = peers, cluster
        self._shares = TimeShares(SHARE)
        self.own_logs: Logs | None = None  # this host's own spool, for which no host need be asked

    async def logs(self, host: str, request: pb.LogsRequest) -> AsyncGenerator[pb.LogsPiece, None]:
        """Yields output from that host's spool. While the reader stalls, the call is cancelled and
        nothing waits there: all users of this host share what may. Raises Unavailable, NotKept."""
        if host == self._own_name and self.own_logs is not None:
            async for piece in self.own_logs(request):
                yield piece
            return
        asked = pb.LogsRequest()
        asked.CopyFrom(request)
        goes_on = True
        while goes_on:
            goes_on = False
            try:
                target = await self._cluster.lbm_of(host)
            except NotInCluster:
                gone = f"the output was kept on {host}, {OUTPUT_GONE}, so it is lost"
                raise NotKept(gone) from None
            # Looked up each time: the last channel may have been closed while the reader stalled.
            asking: Follow = self._peers.channel(host, target).unary_stream(LOGS)
            call = asking(asked.SerializeToString(), metadata=self._peers.metadata)
            try:
                with ChannelMayClose():
                    async for message in call:
                        piece = await self._read(pb.LogsPiece, message, host)
                        asked.output_at, asked.error_at = piece.output_at, piece.error_at
                        with cancelled_if_stalled(call):
                            yield piece
                        if goes_on := call.cancelled():
                            break
            except (Unanswered, grpc.aio.AioRpcError, DecodeError) as problem:
                text = f"cannot get output from {host}: {why_of(problem)}"
                raise Unavailable(text) from None
            finally:
                call.cancel()

    async def files(self, host: str, request: pb.FilesRequest) -> AsyncIterator[bytes]:
        """Yields a pack that is kept there. Raises Unavailable, NotKept."""
        target = await self._cluster.lbm_of(host)
        asking: Follow = self._peers.channel(host, target).unary_stream(FILES)
        call = asking(request.SerializeToString(), metadata=self._peers.metadata)
        try:
            with ChannelMayClose():
                async for message in call:
                    piece = await self._read(pb.FilesPiece, message, host)
                    if piece.trouble:
                        raise NotKept(f"{host}: {piece.trouble}")
                    yield piece.data
        except (Unanswered, grpc.aio.AioRpcError, DecodeError) as problem:
            raise Unavailable(f"cannot get files from {host}: {why_of(problem)}") from None
        finally:
            call.cancel()

    async def _read(self, kind: type[PieceKind], message: bytes, host: str) -> PieceKind:
        """In its host's turn. Raises DecodeError."""
        await self._shares.turn(host)
        self._shares.charge(host, PIECE_S)
        return parsed_answer(kind, message)


async def first_piece(
    spools: OtherSpools, host: str, asked: pb.LogsRequest, give_up_s: float
) -> pb.LogsPiece:
    """Returns output, for `lbctl logs`; an empty piece if there is none. Raises Refusal if its host
    is away, or has not answered by then (loop time); NotKept if it was removed."""
    try:
        async with (
            asyncio.timeout_at(give_up_s),
            contextlib.aclosing(spools.logs(host, asked)) as pieces,
        ):
            return await anext(pieces, pb.LogsPiece())
    except NotKept:
        raise
    except Unavailable as problem:
        raise Refusal(str(problem), AWAY) from None
    except TimeoutError:
        raise Refusal(f"cannot get output from {host}: {SILENT}", AWAY) from None


def sent_bytes(host: str, piece: pb.LogsPiece, before_bytes: int, kept_bytes: int) -> int:
    """Returns how much that host has sent of an ended attempt: `before_bytes` and this piece, which
    counts as more than it has if it is short. `kept_bytes`: what a host keeps of an attempt. Raises
    Unending if it is too much."""
    most_bytes, size = kept_bytes + SPARE_BYTES, len(piece.output) + len(piece.error)
    is_short = size < SHORT_BYTES
    sent = before_bytes + (most_bytes // SHORT_MAX if is_short else size)
    if sent > most_bytes:
        much = "more output than it may keep (dispatch.max_output_bytes)"
        raise Unending(f"{host} sends {'its output in too many pieces' if is_short else much}")
    return sent


@contextlib.contextmanager
def cancelled_if_stalled(call: "grpc.aio.Call") -> Iterator[None]:
    """Cancels the call unless the body finishes within `STALLED_S`."""
    timer = asyncio.get_running_loop().call_later(STALLED_S, call.cancel)
    try:
        yield
    finally:
        timer.cancel()


def why_of(problem: Exception) -> str:
    if isinstance(problem, grpc.aio.AioRpcError):
        return in_plain_words(problem.details())
    return str(problem)
