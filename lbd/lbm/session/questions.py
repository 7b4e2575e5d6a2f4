"""The answers of an LBM to `lbctl` and to other LBMs: about its jobs, its slots, its keeper."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable

from lbd import __version__
from lbd.errors import Unavailable
from lbd.keeper.local_account import NO_UID, Asker, is_same
from lbd.lbm.core.jobs import Job
from lbd.lbm.core.owner_book import OwnerBook
from lbd.lbm.core.vouching import why_withheld
from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.owner.accounts import user_name
from lbd.lbm.queue.dispatcher_client import AnswerTooLong
from lbd.lbm.session.cluster import ClusterHost
from lbd.lbm.session.command_questions import CommandAnswers
from lbd.lbm.session.cpu_of_jobs import CpuOfJobs, add_cpu, used_in
from lbd.lbm.session.cpu_used import CpuUsed
from lbd.lbm.session.daemon_lines import DaemonLines
from lbd.lbm.session.explain import Checks
from lbd.lbm.session.job_records import is_plain_of, job_json, job_record
from lbd.lbm.session.owner_questions import OwnerAnswers
from lbd.lbm.session.queue_questions import QueueAnswers
from lbd.lbm.session.usage_questions import UsageAnswers
from lbd.load.input_devices import DEVICES, is_listed, of_this_machine, unreadable
from lbd.local.admins import Admins
from lbd.local.caller import Caller
from lbd.local.json_socket import Json, Refusal
from lbd.local.long_answers import in_turns
from lbd.model import JobId, JobState
from lbd.net.gen import lbm_pb2
from lbd.process.boot_clock import clock_s
from lbd.process.own_figures import OwnFigures
from lbd.process.written_disks import DiskLooks, disk_metrics, written
from lbd.text.job_phrases import DISPATCHER
from lbd.text.one_line import one_line

PEER_JOBS_TIMEOUT_S = 2.0
PEER_JOBS_MAX = 100_000  # of one host
STATES = (JobState.PENDING.value, JobState.RUNNING.value, JobState.SUSPENDED.value)


class Questions:
    """Answers from the state of one LBM.

    One class because it only hands each operation on to the part that answers it.
    """

    def __init__(
        self,
        host: InboundContext,
        home: OutboundContext,
        owner: OwnerBook,
        reload: Callable[[], list[str]],
    ) -> None:
        self._host = host
        self._reload = reload
        self._home = home
        self.checks = Checks(host, home)
        self._admins = Admins(host.config.admin)
        self._queue = QueueAnswers(home, self._admins)
        self.usage = UsageAnswers(home, host.rules, self._admins)
        self.commands = CommandAnswers(home, self._admins)
        self.lines = DaemonLines(home, self._admins, self._queue, self.commands)
        used = CpuUsed(host.executions, home.staying)
        self._cpu = CpuOfJobs(home.config.host.name, used, lambda: home.cluster)
        self._figures = OwnFigures()
        self._disks = DiskLooks(written(home.config))
        self.owners = OwnerAnswers(host.rules, home, owner)

    async def answer(self, question: Json, caller: Caller) -> Json:
        operation = question.get("op")
        if operation == "jobs":
            asker = Asker(user_name(caller.uid), caller.uid)
            return await self._jobs(question, asker, is_admin=self._admins.include(caller))
        if operation in ("queue.lines", "command.lines"):
            return await self.lines.answer(question, caller)
        if operation == "queue.predict" and not question.get("calibration"):
            reply = await self._queue.answer(question, caller)
            why = await self.checks.nobody_admits(question, caller)
            return reply | ({"nobody_takes": why} if why else {})
        if str(operation).startswith("queue."):
            return await self._with_cpu(await self._queue.answer(question, caller), caller)
        if str(operation).startswith("command."):
            reply = await self.commands.answer(question, caller)
            return await self._with_cpu(reply, caller) if operation == "command.show" else reply
        if operation in ("stats", "history", "past"):
            return await self.usage.answer(question, caller)
        if operation == "owners":
            return await self.owners.answer(question, caller.uid)
        if operation == "signal":
            self._signal(question, caller)
            return {}
        if operation == "reload":
            self._admins.check(caller)
            return {"needs_restart": self._reload()}
        if operation == "status":
            return {
                "slots": {"total": self._host.slots.total, "used": self._host.slots.used},
                "jobs": len(self._host.jobs.running),
                "waiting": len(self._host.slots.waiting) + len(self._home.room.waiting),
                "keeper": self._host.link.pid,
                "containment": self._host.link.about.containment,
                "limits": self._host.link.about.limits,
                "keeper_version": self._host.link.about.version,
                "keeper_is_killed": self._host.link.about.are_killed,
                **self._inputs(),
                "version": __version__,
            }
        if operation in ("eligible", "shims"):
            return self._home.eligible.answer(question, caller.uid)
        if operation == "explain":
            return await self.checks.explain(question, caller)
        if operation in ("cut", "metrics") and not caller.is_daemon:
            raise Refusal(
                "permission denied: only root and the daemon's own user can do that", "denied"
            )
        if operation == "metrics":
            disks = disk_metrics(self._disks.known())
            return {**self._figures.answer(), **lbm_metrics(self._host, self._home), **disks}
        if operation == "cut":
            if self._home.peers is not None:
                await self._home.peers.cut({str(name) for name in as_list(question["hosts"])})
            return {}
        raise Refusal(f"unknown operation {operation!r}")

    def _inputs(self) -> Json:
        """The keyboards and mice that should show us the owner, and those that cannot."""
        names = of_this_machine() if self._host.rules.config.admission.owner_idle_s else []
        has_directory = DEVICES.is_dir()
        return {
            "inputs": names,
            "inputs_listed": is_listed(),
            "unseen_inputs": unreadable(names),
            "dev_input": has_directory,
        }

    async def _with_cpu(self, reply: Json, caller: Caller) -> Json:
        """Adds to a reply what its running jobs have used so far."""
        listed = reply.get("jobs")  # a number in some replies
        found = [reply.get("job"), *(listed if isinstance(listed, list) else ())]
        jobs = [one for one in found if isinstance(one, dict)]
        await self._cpu.add(jobs, Asker(user_name(caller.uid), caller.uid))
        return reply

    async def _jobs(self, question: Json, asker: Asker, *, is_admin: bool) -> Json:
        """The jobs of `asker`, or of everybody for an administrator. Without `hosts` only those of
        the queue. `ended_since` and `of_user` are for those of the queue only."""
        everything, whose = bool(question.get("all", False)), None if is_admin else asker
        asks_hosts = question.get("hosts", True)
        jobs = self._own_jobs(everything, whose) if asks_hosts else []
        used = {self._home.config.host.name: await self._cpu.here.by_job()}
        missing: list[str] = []
        withheld: Json = {}
        unlisted = 0
        if asks_hosts and question.get("cluster", True):
            for host, reply in (await self._peers_jobs(everything, asker, is_admin)).items():
                if reply is None:
                    missing.append(host)
                    continue
                jobs += reply.jobs
                used[host] = used_in(reply)
                if reply.withheld:
                    withheld[host] = reply.withheld
        found = [job_json(job) async for job in in_turns(jobs)]
        queue = self._home.queue
        if question.get("cluster", True) and queue is not None and queue.hosts:
            try:
                queued, unlisted = await self._queue.jobs(question, whose)
                found += queued
            except AnswerTooLong:
                raise
            except Unavailable:
                missing.append(DISPATCHER)
        add_cpu(found, used)
        only_of = None if is_admin else asker.user
        return {
            "jobs": found,
            "missing": missing,
            "withheld": withheld,
            "unlisted": unlisted,
            "only_of": only_of,
        }

    def _signal(self, question: Json, caller: Caller) -> None:
        """Signals a command of this host's users that runs elsewhere. Raises Refusal."""
        name, number = JobId(str(question["job"])), question["number"]
        command = self._home.commands.get(name)
        if command is None or not self._may_touch(caller, command.job):
            raise Refusal(f"no job {name} of yours runs elsewhere", "unavailable")
        if not isinstance(number, int) or number not in signal.valid_signals():
            raise Refusal(f"{number} is not a signal")
        command.signal(number)

    def _may_touch(self, caller: Caller, job: Job) -> bool:
        return job.uid == caller.uid or self._admins.include(caller)

    def _own_jobs(self, everything: bool, asker: Asker | None) -> list[lbm_pb2.JobRecord]:
        """The jobs of this host's users, or of one; with `everything` also recently ended ones."""
        users = self._host.config.users
        jobs: list[Job] = list(self._host.jobs.running.values())
        if everything:
            jobs += self._host.jobs.ended
        own = self._host.config.host.name
        return [
            job_record(job, self._home.staying, self._home.commands)
            for job in jobs
            if job.origin == own
            and (asker is None or is_same(users, asker, Asker(job.user, job.uid)))
        ]

    async def jobs_for_peer(self, request: lbm_pb2.JobsRequest, host: str) -> lbm_pb2.JobsReply:
        """Answers another LBM for `lbctl jobs`, as far as it may know."""
        uid = request.uid if request.HasField("uid") else None
        asker = Asker(request.user, NO_UID if uid is None else uid) if request.user else None
        admission = self._home.rules.config.admission
        withheld = why_withheld(self._host.config, admission, host, request.user, uid)
        jobs = self._own_jobs(request.all, asker)
        if withheld:
            jobs = [job for job in jobs if host and job.host == host]
        reply = lbm_pb2.JobsReply(jobs=jobs, withheld=withheld)
        for job, cpu_s in (await self._cpu.here.by_job()).items():
            reply.used.add(job=job, cpu_s=cpu_s)
        return reply

    async def _peers_jobs(
        self, everything: bool, asker: Asker, is_admin: bool
    ) -> dict[str, lbm_pb2.JobsReply | None]:
        """A host that withholds everybody's jobs is asked for those of `asker`."""
        if not self._home.lim.connected:
            return {}
        hosts = [peer for peer in await self._home.cluster.others() if not peer.is_down]
        own = lbm_pb2.JobsRequest(all=everything, user=asker.user, uid=max(0, asker.uid))
        request = lbm_pb2.JobsRequest(all=everything) if is_admin else own
        answers = await asyncio.gather(*(self._jobs_of(host, request, own) for host in hosts))
        return {host.name: reply for host, reply in zip(hosts, answers, strict=True)}

    async def _jobs_of(
        self, host: ClusterHost, request: lbm_pb2.JobsRequest, own: lbm_pb2.JobsRequest
    ) -> lbm_pb2.JobsReply | None:
        """The jobs of the host's own users, and of the asker, whatever else it sends. None if it
        does not answer."""
        found: dict[str, lbm_pb2.JobRecord] = {}
        by_number = self._home.config.users.map == "uid"  # then a user may have another name there
        withheld, used = "", lbm_pb2.JobsReply().used
        for asked in (request, own):
            try:
                reply = await self._home.cluster.ask(
                    own.uid, host, "Jobs", asked, lbm_pb2.JobsReply, PEER_JOBS_TIMEOUT_S
                )
            except Unavailable:
                return None
            async for job in in_turns(reply.jobs[:PEER_JOBS_MAX]):
                if is_plain_of(host.name, job) and (by_number or asked.user in ("", job.user)):
                    found[job.id] = job
            used = reply.used
            withheld = withheld or one_line(reply.withheld)
            if asked.user or not withheld:
                break
        return lbm_pb2.JobsReply(jobs=found.values(), withheld=withheld, used=used)


def as_list(value: object) -> list[object]:
    """Raises TypeError if it is not a list."""
    if not isinstance(value, list):
        raise TypeError("expected a list")
    return value


def lbm_metrics(host: InboundContext, home: OutboundContext) -> Json:
    """The LBM's answer to `metrics`: see lbd/metrics/core/table.py."""

    jobs: Counter[tuple[str, str]] = Counter()
    for job in host.jobs.running.values():
        if not job.queued_at:
            jobs["foreign" if job.foreign else "attached", job.state.value] += 1
    kinds = ("attached", "foreign")
    return {
        "slots": host.slots.total,
        "slots_used": host.slots.used,
        "commands_waiting": len(host.slots.waiting) + len(home.room.waiting),
        "jobs": [[kind, state, jobs[kind, state]] for kind in kinds for state in STATES],
        "jobs_not_recorded": home.usage.lost,
        "keeper_up": bool(host.link.pid),
        **home.usage.ended_jobs.answer(),
        **lease_metrics(home),
    }


def lease_metrics(home: OutboundContext) -> Json:
    if home.queue is None:
        return {}
    leases = home.queue.leases
    return {
        "attempts_held": len(leases.until_s),
        "lease_margin_seconds": leases.margins.answer(),
        "lease_margin_min_seconds": (
            min(leases.until_s.values()) - clock_s() if leases.until_s else None
        ),
    }
