"""What `lbctl stats` and `lbctl advise` ask: of this LBM, or by way of it of another host's.

One question is of one host, so that who asks does the adding up, not a daemon that serves commands.
"""

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from lbd.errors import PeerError, Unavailable
from lbd.lbm.account_cache import user_name
from lbd.lbm.home import Home
from lbd.lbm.measures import Measure
from lbd.lbm.usage import Usage
from lbd.model import HostId
from lbd.one_line import one_line
from lbd.rpc.admins import Admins
from lbd.rpc.gen import lbm_pb2 as pb
from lbd.rpc.local import Caller, Json, Refusal

if TYPE_CHECKING:
    from google.protobuf.message import Message

    Context = grpc.aio.ServicerContext[bytes, Message]

PAGE_MAX = 2000  # past jobs in one answer
ROWS_MAX = 1000  # figures of one kind in an answer of another host's
PEER_S = 3.0
ASK_LIM_S = 2.0
UNIX_S_MAX = 1e11
COUNT_MAX = 1 << 53
KINDS = {"by_command": "command", "by_user": "user", "by_host": "host"}

Asked = TypeVar("Asked", pb.StatsRequest, pb.HistoryRequest)
Told = TypeVar("Told", pb.StatsReply, pb.HistoryReply)


class UsageAnswers:
    def __init__(self, home: Home, admins: Admins) -> None:
        self._home = home
        self._log = home.usage
        self._admins = admins

    async def answer(self, question: Json, caller: Caller) -> Json:
        """Raises LbdError, KeyError, TypeError, ValueError."""
        host = HostId(str(question["of"]))
        if question["op"] == "history":
            self._admins.check(caller)
            page = pb.HistoryRequest(
                since=moment(question["since"]), after=whole(question["after"]), limit=PAGE_MAX
            )
            own = host == self._own
            history = await (self._history(page) if own else self._ask_history(host, page))
            return {"jobs": [past_json(job) for job in history.jobs[:PAGE_MAX]]}
        user = "" if self._admins.include(caller) else user_name(caller.uid)
        asked = pb.StatsRequest(since=moment(question["since"]), user=user)
        own = host == self._own
        stats = await (self._stats(asked) if own else self._ask_stats(host, asked))
        return stats_json(stats, user)

    @property
    def _own(self) -> str:
        return self._home.config.host.name

    # Of this host

    async def _stats(self, asked: pb.StatsRequest) -> pb.StatsReply:
        """Raises Unavailable."""
        (total, groups), first = await self._log.ask(
            lambda store: (store.summary(asked.since, asked.user), store.first())
        )
        return pb.StatsReply(
            all=figures(total),
            **{
                kind: [figures(measure, key) for key, measure in groups[column].items()]
                for kind, column in KINDS.items()
            },
            first=first,
            lost=self._log.lost,
            trouble=self._log.trouble,
        )

    async def _history(self, asked: pb.HistoryRequest) -> pb.HistoryReply:
        """Raises Unavailable."""
        limit = min(asked.limit, PAGE_MAX)
        rows = await self._log.ask(lambda store: store.page(asked.since, asked.after, limit))
        return pb.HistoryReply(jobs=[past(number, usage) for number, usage in rows])

    async def stats_for_peer(self, data: bytes, context: "Context", _caller: str) -> pb.StatsReply:
        request = await read(pb.StatsRequest(), data, context)
        try:
            return await self._stats(request)
        except Unavailable as problem:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(problem))

    async def history_for_peer(
        self, data: bytes, context: "Context", _caller: str
    ) -> pb.HistoryReply:
        request = await read(pb.HistoryRequest(), data, context)
        try:
            return await self._history(request)
        except Unavailable as problem:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(problem))

    # Of another

    async def _ask_stats(self, host: HostId, asked: pb.StatsRequest) -> pb.StatsReply:
        return await self._ask(host, "Stats", asked, pb.StatsReply)

    async def _ask_history(self, host: HostId, asked: pb.HistoryRequest) -> pb.HistoryReply:
        return await self._ask(host, "History", asked, pb.HistoryReply)

    async def _ask(self, host: HostId, method: str, asked: Asked, reply: type[Told]) -> Told:
        """Raises Unavailable with the reason."""
        peers, target = self._home.peers, await self._target(host)
        if peers is None:
            raise Unavailable("this host has no trust in others (security.key_file, tls)")
        try:
            ask = peers.channel(host, target).unary_unary(
                f"/lbd.v1.Lbm/{method}",
                request_serializer=type(asked).SerializeToString,
                response_deserializer=reply.FromString,
            )
            return await ask(asked, metadata=peers.metadata, timeout=PEER_S)
        except grpc.aio.AioRpcError as problem:
            raise Unavailable(why(problem)) from None

    async def _target(self, host: HostId) -> str:
        answer = await self._home.lim.call({"op": "peers"}, ASK_LIM_S)
        peers = answer.get("peers")
        for peer in peers if isinstance(peers, list) else []:
            if isinstance(peer, dict) and peer.get("name") == host:
                if peer.get("state") == "down":
                    raise Unavailable("down")
                return str(peer["lbm"])
        raise Refusal(f"no host {host!r} in this cluster")


def why(problem: grpc.aio.AioRpcError) -> str:
    code = problem.code()
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return "its release keeps no accounting"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"no answer within {PEER_S:g} s"
    if code is grpc.StatusCode.UNAVAILABLE:
        return "its lbm cannot be reached"
    return one_line(problem.details() or code.name.lower())


async def read(message: Asked, data: bytes, context: "Context") -> Asked:
    try:
        message.ParseFromString(data)
    except DecodeError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"not a {type(message).__name__}")
    return message


def moment(value: object) -> float:
    """UNIX seconds. Raises ValueError."""
    if not isinstance(value, int | float) or not 0 <= value <= UNIX_S_MAX:
        raise ValueError("since must be UNIX seconds")
    return float(value)


def whole(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= COUNT_MAX:
        raise ValueError("after must be the number of a job")
    return value


# As messages, and as JSON


def figures(measure: Measure, key: str = "") -> pb.Figures:
    return pb.Figures(
        key=key,
        jobs=measure.jobs,
        failed=measure.failed,
        moved=measure.moved,
        wrong=measure.wrong,
        cpu_s=measure.cpu_s,
        response=pb.Sums(**asdict(measure.response)),
        waiting=pb.Sums(**asdict(measure.waiting)),
        slowdown=pb.Sums(**asdict(measure.slowdown)),
    )


def stats_json(reply: pb.StatsReply, user: str) -> Json:
    """`user`: whose jobs alone. Raises PeerError if it is nonsense."""
    return {
        "all": figures_row(reply.all),
        **{kind: [figures_row(row) for row in getattr(reply, kind)[:ROWS_MAX]] for kind in KINDS},
        "first": finite(reply.first) or None,
        "lost": reply.lost,
        "trouble": one_line(reply.trouble),
        "user": user or None,
    }


def figures_row(told: pb.Figures) -> list[object]:
    """As `measures.measure_of_row` reads it."""
    sums = [
        part
        for moments in (told.response, told.waiting, told.slowdown)
        for part in (moments.count, finite(moments.total), finite(moments.squares))
    ]
    counts = [told.jobs, told.failed, told.moved, told.wrong]
    return [one_line(told.key), *counts, finite(told.cpu_s), *sums]


def finite(value: float) -> float:
    """Raises PeerError."""
    if not math.isfinite(value):
        raise PeerError("its figures are no numbers")
    return value


def past(number: int, usage: Usage) -> pb.PastJob:
    return pb.PastJob(
        number=number,
        submitted=usage.submitted,
        waiting_s=usage.waiting_s or 0.0,
        response_s=usage.response_s or 0.0,
        cpu_s=usage.cpu_s,
        command=usage.command,
        origin=usage.origin,
        host=usage.host,
        pinned=bool(usage.pinned),
    )


def past_json(job: pb.PastJob) -> list[object]:
    """Raises PeerError if it is nonsense."""
    return [
        job.number,
        finite(job.submitted),
        finite(job.waiting_s),
        finite(job.response_s),
        finite(job.cpu_s) if job.HasField("cpu_s") else None,
        one_line(job.command),
        one_line(job.origin),
        one_line(job.host),
        job.pinned,
    ]
