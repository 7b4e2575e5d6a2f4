"""The answers to `lbctl logs --daemons`: log lines of the daemons of all hosts about one job.

The LBM of the user who asks ensures that the job is the user's, or the user is an administrator.
Another host gives its lines to anybody to whom it would show such a job: for a user if the asking
host may speak for its users here ([admission] origins), for an administrator if admin.hosts here
names it.
"""

import asyncio
import math
import time
from pathlib import Path

from lbd.errors import LbdError, PeerError, Unavailable
from lbd.keeper.local_account import Asker
from lbd.lbm.core.vouching import why_withheld
from lbd.lbm.inbound.request import JOB_ID
from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.owner.accounts import user_name
from lbd.lbm.session.cluster import ClusterHost
from lbd.lbm.session.command_questions import CommandAnswers
from lbd.lbm.session.queue_questions import QueueAnswers
from lbd.local.admins import Admins
from lbd.local.caller import Caller
from lbd.local.json_client import OneQuestion
from lbd.local.json_socket import Json, Refusal
from lbd.net.gen import lbm_pb2 as pb
from lbd.policy.even_share import even_share
from lbd.process import job_log
from lbd.process.job_log import Line, RecentLines
from lbd.text.job_limits import TIME_MAX
from lbd.text.one_line import one_line

LIM, LBM, DISPATCHER = DAEMONS = ("lim", "lbm", "dispatcher")
PEER_S, DAEMON_S = 4.0, 2.0  # a host asks its other daemons within PEER_S
AT_ONCE = 64  # hosts
SKEW_S = 60.0  # by which the clocks of hosts may differ


class DaemonLines:
    def __init__(
        self,
        home: OutboundContext,
        admins: Admins,
        queue: QueueAnswers,
        commands: CommandAnswers,
        recent: RecentLines = job_log.RECENT,
    ) -> None:
        self._home, self._admins, self._recent = home, admins, recent
        self._queue, self._commands = queue, commands

    async def answer(self, question: Json, caller: Caller) -> Json:
        """Raises LbdError, KeyError."""
        name, is_plain = str(question["id"]), question["op"] == "command.lines"
        asked = await (self._of_command if is_plain else self._of_queue)(name, caller)
        gathered = Gathered()
        gathered.add(self._home.config.host.name, asked.job, await self._own(asked))
        try:
            peers = await self._home.cluster.others()
        except LbdError as problem:
            gathered.missing["the other hosts"] = str(problem)
            peers = []
        turns = asyncio.Semaphore(AT_ONCE)
        uid = caller.uid
        await asyncio.gather(*(self._ask(uid, peer, asked, turns, gathered) for peer in peers))
        return gathered.answer(asked.job)

    async def _of_command(self, name: str, caller: Caller) -> pb.LinesRequest:
        """Raises LbdError."""
        found = await self._commands.seen_by(name, caller)
        if found is None:
            return pb.LinesRequest(job=name)
        return request_of(name, Asker(user_name(caller.uid), caller.uid), found.submitted)

    async def _of_queue(self, name: str, caller: Caller) -> pb.LinesRequest:
        """Raises LbdError."""
        asker = Asker(user_name(caller.uid), caller.uid)
        question: Json = {"ids": [name]}
        try:
            found = await self._queue.find(question, caller, explained=False, by_array=True)
        except Unavailable:  # a missing dispatcher may be what the administrator looks for
            if self._admins.include(caller) and (name.isdecimal() or job_log.array_of(name)):
                return pb.LinesRequest(job=name)
            raise
        if len(found) != 1:
            raise Refusal("daemon lines are shown for one job at a time")
        job = found[0]
        array = str(job.array_id or job.id)
        shown = name if job_log.array_of(name) == array else array
        if not self._queue.is_of(asker, job):
            return pb.LinesRequest(job=shown, since=job.submitted)
        return request_of(shown, asker, job.submitted)

    async def _ask(
        self,
        uid: int,
        peer: ClusterHost,
        asked: pb.LinesRequest,
        turns: asyncio.Semaphore,
        gathered: "Gathered",
    ) -> None:
        if peer.is_down:
            gathered.missing[peer.name] = "down"
            return
        async with turns:
            try:
                ask = self._home.cluster.ask
                reply = await ask(uid, peer, "Lines", asked, pb.LinesReply, PEER_S)
            except Unavailable as problem:
                gathered.missing[peer.name] = str(problem)
                return
        gathered.add(peer.name, asked.job, reply)

    # For this host

    async def for_peer(self, asked: pb.LinesRequest, host: str) -> pb.LinesReply:
        """Raises PeerError."""
        if not JOB_ID.fullmatch(asked.job):
            raise PeerError("not the id of a job")
        uid, admission = asked.uid if asked.HasField("uid") else None, self._home.rules.config
        withheld = why_withheld(self._home.config, admission.admission, host, asked.user, uid)
        return pb.LinesReply(withheld=withheld) if withheld else await self._own(asked)

    async def _own(self, asked: pb.LinesRequest) -> pb.LinesReply:
        """The lines of all daemons on this host that answer."""
        runtime = Path(self._home.config.host.runtime_dir)
        question: Json = {"op": "lines", "job": asked.job}
        others = (LIM, DISPATCHER)
        answers = await asyncio.gather(
            *(OneQuestion(runtime / f"{name}.sock").ask(question, DAEMON_S) for name in others)
        )
        lines, more = self._recent.of(asked.job, time.time())
        said = [(LBM, line) for line in lines]
        for daemon, answer in zip(others, answers, strict=True):
            rows = (answer or {}).get("lines")
            said += [(daemon, Line(*row)) for row in (rows if isinstance(rows, list) else ())]
            more |= bool((answer or {}).get("more"))
        since_s = asked.since - SKEW_S
        shown = [as_message(daemon, line) for daemon, line in said if line.unix_s >= since_s]
        return pb.LinesReply(lines=shown, more=more)


class Gathered:
    """The lines of all hosts. Lines from other hosts are checked and bounded here: a host that says
    much, or dates its lines ahead, takes no room from the others."""

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}
        self._withheld: dict[str, str] = {}
        self._rows: dict[str, list[tuple[Line, str]]] = {}  # by host; with the daemon
        self._more = False

    def add(self, host: str, job: str, reply: pb.LinesReply) -> None:
        if reply.withheld:
            self._withheld[host] = one_line(reply.withheld)
        told = reply.lines[-len(DAEMONS) * job_log.SHOWN_LINES :]
        rows = [(checked(one), one.daemon) for one in told if is_about(one, job)]
        self._rows[host] = sorted(rows)
        self._more |= reply.more
        counts = [len(rows) for rows in self._rows.values()]
        sizes = [sum(job_log.size_of(line) for line, _ in rows) for rows in self._rows.values()]
        most = even_share(counts, job_log.SHOWN_LINES)
        chars = even_share(sizes, job_log.SHOWN_CHARS)
        if most is None and chars is None:
            return
        for of, rows in self._rows.items():
            shown, is_cut = job_log.newest([line for line, _ in rows], most, chars)
            self._rows[of] = rows[len(rows) - len(shown) :]
            self._more |= is_cut

    def answer(self, job: str) -> Json:
        lines = [
            {"time": line.unix_s, "host": host, "daemon": daemon, "level": line.level,
             "job": line.job, "text": line.text}
            for line, host, daemon in sorted(
                (line, host, daemon) for host, rows in self._rows.items() for line, daemon in rows
            )
        ]  # fmt: skip
        missing = dict(sorted(self.missing.items()))
        withheld = dict(sorted(self._withheld.items()))
        return {"job": job, "lines": lines, "more": self._more, "missing": missing,
                "withheld": withheld}  # fmt: skip


def request_of(job: str, asker: Asker, submitted: float) -> pb.LinesRequest:
    """The request about a job of the asker's own."""
    uid = max(0, asker.uid)
    return pb.LinesRequest(job=job, user=asker.user, uid=uid, since=submitted)


def as_message(daemon: str, line: Line) -> pb.LogLine:
    return pb.LogLine(
        unix_s=line.unix_s, daemon=daemon, level=line.level, job=line.job, text=line.text
    )


def is_about(line: pb.LogLine, job: str) -> bool:
    """Whether the line is about that job at all."""
    is_known = line.daemon in DAEMONS and line.level in job_log.LEVELS.values()
    in_time = math.isfinite(line.unix_s) and 0 <= line.unix_s <= TIME_MAX
    return is_known and in_time and job_log.concerns(line.job, job)


def checked(line: pb.LogLine) -> Line:
    text = one_line(line.text, job_log.LINE_CHARS_MAX)
    return Line(line.unix_s, line.level, line.job, text)
