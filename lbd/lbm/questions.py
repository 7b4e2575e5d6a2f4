"""What `lbctl` and the other LBMs ask of an LBM: its jobs, its slots, its keeper."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from lbd import __version__
from lbd.errors import Unavailable
from lbd.lbm.account_cache import user_name
from lbd.lbm.checks import Checks
from lbd.lbm.home import Home
from lbd.lbm.host import Host
from lbd.lbm.queue_answers import NO_UID, QueueAnswers
from lbd.lbm.state import Job
from lbd.lbm.usage_answers import UsageAnswers
from lbd.lbm.users import Asker, is_same
from lbd.model import JobId
from lbd.rpc.admins import Admins
from lbd.rpc.gen import lbm_pb2
from lbd.rpc.local import Caller, Json, Refusal

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[bytes, lbm_pb2.JobsReply]

ASK_LIM_S = 2.0
PEER_JOBS_TIMEOUT_S = 2.0


class Questions:
    """Answers from the state of one LBM."""

    def __init__(self, host: Host, home: Home, reload: Callable[[], None]) -> None:
        self._host = host
        self._reload = reload
        self._home = home
        self.checks = Checks(host, home)
        self._admins = Admins(host.config.admin)
        self._queue = QueueAnswers(home, self._admins)
        self.usage = UsageAnswers(home, self._admins)

    async def answer(self, question: Json, caller: Caller) -> Json:
        operation = question.get("op")
        if operation == "jobs":
            everybody = self._admins.include(caller)
            asker = None if everybody else Asker(user_name(caller.uid), caller.uid)
            return await self._jobs(question, asker)
        if str(operation).startswith("queue."):
            return await self._queue.answer(question, caller)
        if operation in ("stats", "history"):
            return await self.usage.answer(question, caller)
        if operation == "signal":
            self._signal(question, caller)
            return {}
        if operation == "reload":
            self._admins.check(caller)
            self._reload()
            return {}
        if operation == "status":
            return {
                "slots": {"total": self._host.slots.total, "used": self._host.slots.used},
                "waiting": len(self._host.slots.waiting) + len(self._home.room.waiting),
                "keeper": self._host.link.pid,
                "containment": self._host.link.containment,
                "limits": self._host.link.limits,
                "version": __version__,
            }
        if operation in ("eligible", "shims"):
            return self._home.eligible.answer(question, caller.uid)
        if operation == "explain":
            return await self.checks.explain(question, caller)
        if operation == "cut":
            if not caller.is_daemon:
                raise Refusal("only root and the daemon's own user may", "denied")
            if self._home.peers is not None:
                await self._home.peers.cut({str(name) for name in as_list(question["hosts"])})
            return {}
        raise Refusal(f"unknown operation {operation!r}")

    async def _jobs(self, question: Json, asker: Asker | None) -> Json:
        """Those of `asker`, of everybody if that is None."""
        everything = bool(question.get("all", False))
        jobs = self._own_jobs(everything, asker)
        missing: list[str] = []
        if question.get("cluster", True):
            more, missing = await self._peers_jobs(everything, asker)
            jobs += more
        found = [job_json(job) for job in jobs]
        if question.get("cluster", True) and self._home.config.dispatch.host:
            try:
                found += await self._queue.jobs(everything, asker)
            except Unavailable:
                missing.append("the dispatcher")
        return {"jobs": found, "missing": missing}

    def _signal(self, question: Json, caller: Caller) -> None:
        """To a command of this host's users that runs elsewhere. Raises Refusal."""
        name, number = JobId(str(question["job"])), question["number"]
        command = self._home.commands.get(name)
        if command is None or not self._may_touch(caller, command.job):
            raise Refusal(f"no job {name} of yours runs elsewhere", "unavailable")
        if not isinstance(number, int) or number not in signal.valid_signals():
            raise Refusal(f"{number} is no signal")
        command.signal(number)

    def _may_touch(self, caller: Caller, job: Job) -> bool:
        return job.uid == caller.uid or self._admins.include(caller)

    def _own_jobs(self, everything: bool, asker: Asker | None) -> list[lbm_pb2.JobRecord]:
        """The jobs of this host's users, or of one; with `everything` those ended lately."""
        users = self._host.config.users
        jobs: list[Job] = list(self._host.jobs.running.values())
        if everything:
            jobs += self._host.jobs.ended
        own = self._host.config.host.name
        return [
            job_record(job)
            for job in jobs
            if job.origin == own
            and (asker is None or is_same(users, asker, Asker(job.user, job.uid)))
        ]

    async def jobs_for_peer(
        self, data: bytes, context: "Context", _caller: str
    ) -> lbm_pb2.JobsReply:
        """What another LBM asks for `lbctl jobs`."""
        try:
            request = lbm_pb2.JobsRequest.FromString(data)
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not a JobsRequest")
        uid = request.uid if request.HasField("uid") else NO_UID
        asker = Asker(request.user, uid) if request.user else None
        return lbm_pb2.JobsReply(jobs=self._own_jobs(request.all, asker))

    async def _peers_jobs(
        self, everything: bool, asker: Asker | None
    ) -> tuple[list[lbm_pb2.JobRecord], list[str]]:
        """Their users' jobs, and the hosts that did not answer in time."""
        if self._home.peers is None or not self._home.lim.connected:
            return [], []
        hosts = as_list((await self._home.lim.call({"op": "peers"}, ASK_LIM_S)).get("peers", []))
        named = [
            (str(host["name"]), str(host["lbm"]))
            for host in hosts
            if isinstance(host, dict)
            and host["name"] != self._host.config.host.name
            and host["state"] != "down"
        ]
        request = lbm_pb2.JobsRequest(all=everything)
        if asker is not None:
            request.user, request.uid = asker.user, asker.uid
        answers = await asyncio.gather(
            *(self._ask_jobs(name, target, request) for name, target in named)
        )
        found = [  # each speaks of its own users only
            job
            for (name, _), reply in zip(named, answers, strict=True)
            if reply is not None
            for job in reply.jobs
            if job.origin == name
        ]
        return found, [
            name for (name, _), reply in zip(named, answers, strict=True) if reply is None
        ]

    async def _ask_jobs(
        self, name: str, target: str, request: lbm_pb2.JobsRequest
    ) -> lbm_pb2.JobsReply | None:
        assert self._home.peers is not None
        try:
            ask = self._home.peers.channel(name, target).unary_unary(
                "/lbd.v1.Lbm/Jobs",
                request_serializer=lbm_pb2.JobsRequest.SerializeToString,
                response_deserializer=lbm_pb2.JobsReply.FromString,
            )
            reply: lbm_pb2.JobsReply = await ask(
                request,
                metadata=self._home.peers.metadata,
                timeout=PEER_JOBS_TIMEOUT_S,
            )
        except (grpc.aio.AioRpcError, Unavailable):
            return None
        return reply


def as_list(value: object) -> list[object]:
    """Raises TypeError if it is none."""
    if not isinstance(value, list):
        raise TypeError("a list was expected")
    return value


def job_record(job: Job) -> lbm_pb2.JobRecord:
    record = lbm_pb2.JobRecord(
        id=job.id,
        name=job.name,
        command=job.command,
        user=job.user,
        origin=job.origin,
        host=job.host,
        state=job.state.value,
        attempt=1,
        submitted=job.submitted,
        started=job.started or 0.0,
        finished=job.finished or 0.0,
        cpu_s=job.cpu_s or 0.0,
        reason=job.reason,
    )
    if job.exit_status is not None:
        record.exit_status = job.exit_status
    return record


def job_json(job: lbm_pb2.JobRecord) -> Json:
    """The object of the contract; absent values are null."""
    return {
        "id": job.id,
        "name": job.name or None,
        "command": [os.fsdecode(part) for part in job.command],
        "user": job.user,
        "origin": job.origin,
        "host": job.host or None,
        "state": job.state,
        "attempt": job.attempt,
        "tier": None,
        "exit_status": job.exit_status if job.HasField("exit_status") else None,
        "submitted": job.submitted,
        "started": job.started or None,
        "finished": job.finished or None,
        "cpu_s": job.cpu_s or None,
        "slots": 1,
        "array_index": None,
        "reason": job.reason or None,
    }
