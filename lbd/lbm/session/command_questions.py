"""The answers to `lbctl job, kill, wait` about one plain command, such as h1-26.

The id names the host where the command was started, and the LBM there knows it: a question from
another host is passed on to it. The asking host vouches for its users, as it does for the users of
the commands that it sends, unless its commands are not accepted here ([admission] origins). It
vouches for administrators only if admin.hosts on this host names it.
"""

import asyncio
import contextlib
import logging
import os
import signal
from functools import partial

from lbd.errors import LbdError, Unavailable
from lbd.keeper.file_worker import send_signal
from lbd.keeper.local_account import NO_UID, ROOT_UID, Asker, is_same
from lbd.lbm.core.jobs import Job
from lbd.lbm.core.vouching import fault_of_speaker
from lbd.lbm.inbound.request import JOB_ID
from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.owner.accounts import user_name
from lbd.lbm.session.job_records import ended_record, is_plain_of, job_json, job_record
from lbd.lbm.session.peer_process import PeerProcess
from lbd.load.process_table import task_of
from lbd.local.admins import Admins
from lbd.local.caller import Caller
from lbd.local.json_socket import Json, Refusal, bounded_s
from lbd.local.turns import Turns
from lbd.model import JobId, JobState
from lbd.net.gen import lbm_pb2 as pb
from lbd.process.job_log import JobLog
from lbd.text.job_phrases import NO_HOST
from lbd.text.one_line import one_line
from lbd.text.spelling import nearest

job_log = JobLog(logging.getLogger("lbd.lbm"))

PEER_S = 3.0
PATIENCE_MAX_S = 20.0  # for one answer
SENDING_MAX = 64  # concurrent signals of one user to commands that run here
WAITS_MAX = 512  # at once; beyond that the answer comes at once, and the client asks again
AT_ONCE = 2  # questions of one user, or one other host, to the accounting
USER_CHARS, HOST_CHARS = 255, 253
VERBS = ("show", "kill", "wait")
CODES = ("denied", "missing", "unavailable", "usage")


class CommandAnswers:
    def __init__(self, home: OutboundContext, admins: Admins) -> None:
        self._home = home
        self._admins = admins
        self._waits = 0
        self._turns = Turns(AT_ONCE)
        self._sending: dict[asyncio.Task[None], int] = {}  # and the uids of their users

    async def answer(self, question: Json, caller: Caller) -> Json:
        """Raises LbdError, KeyError, TypeError, ValueError."""
        verb, number = str(question["op"]).removeprefix("command."), question.get("signal", 0)
        job = str(question["id"])
        if not JOB_ID.fullmatch(job):
            raise Refusal(f"no job {one_line(job, 80)!r}", "missing")
        asked = pb.CommandRequest(
            id=job,
            verb=verb,
            user=user_name(caller.uid),
            uid=max(0, caller.uid),
            is_admin=self._admins.include(caller),
            signal=number if isinstance(number, int) and 0 <= number < signal.NSIG else 0,
            patience_s=min(PATIENCE_MAX_S, bounded_s(question, "patience_s")),
            host=self._home.config.host.name,
        )
        reply = await self._passed_on(asked)
        if reply.error:
            raise Refusal(one_line(reply.error), reply.code if reply.code in CODES else "usage")
        if not is_plain_of(job.rpartition("-")[0], reply.job):
            raise Unavailable(f"malformed answer about {job}")
        return {"job": shown(reply.job), "open": reply.open}

    async def seen_by(self, job: str, caller: Caller) -> pb.JobRecord | None:
        """A command of the caller's; None for an administrator if it is not. Raises LbdError."""
        if not JOB_ID.fullmatch(job):
            raise Refusal(f"no job {one_line(job, 80)!r}", "missing")
        user, is_admin = user_name(caller.uid), self._admins.include(caller)
        asked = pb.CommandRequest(id=job, verb="show", user=user, uid=max(0, caller.uid))
        try:
            reply = await self._passed_on(asked)
        except Unavailable:
            if is_admin:  # a missing host may be what the administrator looks for
                return None
            raise
        if reply.error and not (is_admin and reply.code == "denied"):
            raise Refusal(one_line(reply.error), reply.code)
        return None if reply.error else reply.job

    async def _passed_on(self, asked: pb.CommandRequest) -> pb.CommandReply:
        """Asks the host that knows the command. Raises LbdError."""
        own, cluster = self._home.config.host.name, self._home.cluster
        origin = asked.id.rpartition("-")[0]
        if origin == own:
            return await self.of_own(asked, own)
        try:
            peer = await cluster.peer(origin)
        except Refusal:
            near = nearest(origin, [own, *(one.name for one in await cluster.others())])
            why = f"no job {asked.id}: {NO_HOST}{origin!r} in this cluster"
            meant = f'; did you mean "{near}"?' if near else ""
            raise Refusal(why + meant, "missing") from None
        if peer.is_down:
            raise Unavailable(f"{origin}, where {asked.id} was started, is down")
        patience_s = asked.patience_s + PEER_S
        try:
            return await cluster.ask(
                asked.uid, peer, "Command", asked, pb.CommandReply, patience_s,
                is_order=asked.verb == "kill",
            )  # fmt: skip
        except Unavailable as problem:
            raise Unavailable(f"{origin}, where {asked.id} was started: {problem}") from None

    async def of_own(self, asked: pb.CommandRequest, host: str) -> pb.CommandReply:
        """About a command of this host's users. `host` asks; its question may be malformed."""
        try:
            if asked.verb not in VERBS or not JOB_ID.fullmatch(asked.id):
                raise Refusal(f"malformed question about {one_line(asked.id, 80)!r}")
            return await self._answered(asked, host)
        except Refusal as refusal:
            return pb.CommandReply(error=str(refusal), code=refusal.code)
        except LbdError as problem:
            return pb.CommandReply(error=str(problem), code="unavailable")

    async def _answered(self, asked: pb.CommandRequest, host: str) -> pb.CommandReply:
        """Raises LbdError."""
        job = self._home.jobs.find(JobId(asked.id))
        if job is None or job.origin != self._home.config.host.name:
            return await self._from_the_accounting(asked, host)
        self._check(asked, Asker(job.user, job.uid), host, job.host)
        if asked.verb == "kill":
            self._kill(job, asked, host)
        if asked.verb == "wait" and asked.patience_s > 0:
            await self._end_of(job, min(PATIENCE_MAX_S, asked.patience_s))
        is_open = job.id in self._home.jobs.running
        record = job_record(job, self._home.staying, self._home.commands)
        return pb.CommandReply(job=record, open=is_open)

    def _check(self, asked: pb.CommandRequest, owner: Asker, host: str, runs_on: str) -> None:
        """Raises Refusal, which does not tell whose command it is."""
        config = self._home.config
        own = config.host.name
        vouches = host == own or config.admin.are_on(host)
        fault = fault_of_speaker(config, self._home.rules.config.admission, host)
        asker = Asker(asked.user, asked.uid if asked.HasField("uid") else NO_UID)
        is_theirs = is_same(config.users, asker, owner) and (not fault or host == runs_on)
        if not (asked.is_admin and vouches) and not is_theirs:
            more = f"; ask on {own} ({fault} there)" if fault else ""
            if asked.is_admin:
                more = f"; administrators can ask on {own}, or on hosts listed in admin.hosts there"
            others = f"permission denied: {asked.id} is not yours"
            raise Refusal(f"{asked.id}: permission denied{more}" if more else others, "denied")

    async def _from_the_accounting(self, asked: pb.CommandRequest, host: str) -> pb.CommandReply:
        """Raises LbdError."""
        asker = asked.uid if host == self._home.config.host.name else host
        async with self._turns.turn(asker):
            found = await self._home.usage.ask(lambda store: store.by_id(asked.id))
        if found is None:
            raise Refusal(f"no job {asked.id}", "missing")
        number, usage = found
        self._check(asked, Asker(usage.user, usage.uid), host, usage.host)
        if asked.verb == "kill":
            raise over(asked.id, usage.state, usage.host)
        return pb.CommandReply(job=ended_record(number, usage))

    async def _end_of(self, job: Job, patience_s: float) -> None:
        """Waits until the command has ended, at most `patience_s`."""
        if job.id not in self._home.jobs.running or self._waits >= WAITS_MAX:
            return
        ended = asyncio.Event()
        self._waits += 1
        self._home.jobs.once_ended(job.id, ended.set)
        try:
            async with asyncio.timeout(patience_s):
                await ended.wait()
        except TimeoutError:
            pass
        finally:
            self._waits -= 1
            self._home.jobs.no_longer(ended.set)

    # Signals

    def _kill(self, job: Job, asked: pb.CommandRequest, host: str) -> None:
        """`host`: where it was ordered, "" if hosts prove no names. Raises Refusal."""
        if job.id not in self._home.jobs.running:
            raise over(asked.id, job.state.value, job.host)
        if asked.signal and asked.signal not in signal.valid_signals():
            raise Refusal(f"{asked.signal} is not a signal")
        if asked.signal in (0, signal.SIGTERM, signal.SIGKILL):
            where = host or one_line(asked.host, HOST_CHARS)  # as the queue says it
            job.killed_by = "@".join(filter(None, (one_line(asked.user, USER_CHARS), where)))
            job.must_end |= asked.signal != signal.SIGTERM  # sent alone, it may mean anything
        if asked.signal:
            self._send(job, asked.signal, whole_tree=asked.signal == signal.SIGKILL)
            return
        self._send(job, signal.SIGTERM, whole_tree=True)
        # else a stopped one would not get TERM
        self._send(job, signal.SIGCONT, whole_tree=True)
        grace_s = self._home.config.lbm.kill_grace_s
        asyncio.get_running_loop().call_later(grace_s, self._force, job)

    def _force(self, job: Job) -> None:
        """Kills a command whose grace period is over."""
        if (command := self._home.commands.get(job.id)) is not None:
            command.force()
        elif job.id in self._home.staying:
            with contextlib.suppress(Refusal):
                self._send(job, signal.SIGKILL, whole_tree=True)

    def _send(self, job: Job, number: int, *, whole_tree: bool) -> None:
        """Sends a signal. Raises Refusal."""
        if (command := self._home.commands.get(job.id)) is not None:
            if number == signal.SIGKILL:
                command.force()
            else:
                command.signal(number)
            return
        process = self._home.staying.get(job.id)
        if process is not None and process.pid and process.is_there:
            if list(self._sending.values()).count(job.uid) >= SENDING_MAX:
                raise Refusal(f"{job.id}: too many signals in flight", "unavailable")
            sending = asyncio.create_task(self._send_here(job, process, number, whole_tree))
            self._sending[sending] = job.uid
            sending.add_done_callback(self._sending.pop)

    async def _send_here(
        self, job: Job, process: PeerProcess, number: int, whole_tree: bool
    ) -> None:
        """Signals a process of this host that is nobody's child here, as its user: it may have
        become another user's, or have children that are."""
        as_user, own_uid = self._home.looker.as_user, os.geteuid()
        # its user can hold up who reads this
        task = await self._home.threads.of(job.uid).run(partial(task_of, process.pid))
        if task is None or not process.is_there:
            return
        words = process.pid, task.started_ticks, number, int(whole_tree)
        try:
            if own_uid == job.uid or (own_uid != ROOT_UID and not as_user.is_needed):
                if trouble := send_signal(*words):
                    raise Unavailable(os.strerror(trouble))
            else:
                await as_user.work(job.uid, b"signal", *(b"%d" % word for word in words))
        except LbdError as problem:  # it has ended, or belongs to another user by now
            job_log.info(job.id, "signal %d: %s", words[2], problem)


def shown(record: pb.JobRecord) -> Json:
    """The object of the contract, with its one attempt if it has begun."""
    found = job_json(record) | {
        "pid": record.pid or None,
        "directory": os.fsdecode(record.directory) or None,
    }
    keys = "host", "tier", "state", "started", "finished", "cpu_s", "exit_status", "reason"
    attempt = {"number": 1, **{key: found[key] for key in keys}}
    return found | {"attempts": [attempt] if found["started"] else []}


def over(job: str, state: str | None, host: str) -> Refusal:
    """Says that nothing can be done to a command any more. Of one that stayed on its host, and that
    nobody saw end, it is not known that it has ended."""
    if state != JobState.UNKNOWN.value:
        return Refusal(f"{job} has ended", "missing")
    why = f"lbd on {host} was stopped while it ran; if it still does, end it there by its pid"
    return Refusal(f"{job} is not watched any more: {why}", "missing")
