"""The LBM as a process: its sockets, its keeper, its LIM, and an orderly end.

It is one file because it puts all of the LBM's parts together.
"""

import asyncio
import contextlib
import logging
import math
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from lbd.config.schema import Config
from lbd.errors import ConfigError
from lbd.keeper.gate import find_account
from lbd.keeper.local_account import ROOT_UID
from lbd.lbm.as_user import AsUser
from lbd.lbm.core.environment import DenyList
from lbd.lbm.core.jobs import Jobs, LocalCap
from lbd.lbm.core.next_host_after_refusal import Unshared
from lbd.lbm.handover.adoption import Adoption, free_unused_memory, read_left
from lbd.lbm.handover.saving import hand_over, let_go
from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.keeper_watch import KeeperWatch
from lbd.lbm.learnt_file import Eligibility
from lbd.lbm.lim_report import LimReport
from lbd.lbm.link.accepted_links import AcceptedLinks, serve_stream
from lbd.lbm.link.opened_links import PeerLinks
from lbd.lbm.link.user_threads import UserThreads
from lbd.lbm.link.wire import MESSAGE_LIMIT_BYTES
from lbd.lbm.outbound.context import OutboundContext, Room
from lbd.lbm.outbound.directory import Looker
from lbd.lbm.outbound.lim import LimNotes
from lbd.lbm.own_resources import Notes, OwnNeeds, pool_of, slots_of
from lbd.lbm.owner.accounts import LookUps
from lbd.lbm.owner.rules import InForce
from lbd.lbm.owner.watch import Owner
from lbd.lbm.paths import JobNumbers
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.lbm.queue.dispatcher_line import DispatcherLine
from lbd.lbm.queue.logs import check_reader, looks_of_hosts, serve_logs
from lbd.lbm.session.host_questions import HostQuestions
from lbd.lbm.session.questions import Questions
from lbd.lbm.session.server import ClientServer
from lbd.lbm.staging.pack_transfer import serve_files
from lbd.lbm.staging.queued_files import QueuedFiles
from lbd.lbm.staging.workdir_root import WorkdirRoot
from lbd.lbm.staging.workdirs import Workdirs
from lbd.lbm.usage.log import UsageLog
from lbd.load import cgroup
from lbd.local.json_client import JsonClient
from lbd.model import HostId, JobId
from lbd.net import transport
from lbd.net.gen import lbm_pb2
from lbd.net.peers import Peers
from lbd.net.tls import Tls
from lbd.net.trusted import trust_of
from lbd.process.boot_clock import clock_s
from lbd.process.pid_lock import take_pid_locks
from lbd.process.service_manager import has_terminal
from lbd.process.stop import Stop
from lbd.process.written_disks import workdir_root

if TYPE_CHECKING:
    from lbd.lbm.link.accepted_links import Context
    from lbd.local.json_socket import Json


log = logging.getLogger("lbd.lbm")

Ready = Callable[[str], None]
Reread = Callable[[], Config]


class Lbm:
    """One host's load balance manager."""

    def __init__(self, config: Config, stop: Stop, ready: Ready, reread: Reread) -> None:
        """`reread`: reads lbd.toml again; it raises ConfigError."""
        self._config = config
        self._runtime = Path(config.host.runtime_dir)
        self._stop, self._ready, self._restart = stop, ready, asyncio.Event()
        cores = config.host.cores or cgroup.usable_cores()
        self._slots_wanted = config.lbm.slots or max(1, math.ceil(cores))
        usage, own = UsageLog(config), HostId(config.host.name)
        numbers = JobNumbers(Path(config.host.state_dir), time.time)
        jobs = Jobs(config.lbm.history, usage.note, own, numbers)
        self._lim = JsonClient(self._runtime / "lim.sock")
        self._rules = InForce(config, reread)
        self._keeper = KeeperWatch(config, self._rules, stop)
        self._link = self._keeper.link
        accounts = LookUps(find_account)
        self._as_user = AsUser(self._link, accounts.look_up)
        self._trust: Tls | transport.Plain | None = None
        self._peers: Peers | None = None
        self._server: transport.Server | None = None
        self._attempts: DispatcherLine | None = None
        root = WorkdirRoot(workdir_root(config), config.host.name, config.host.state_dir)
        self._host = InboundContext(
            config=config,
            rules=self._rules,
            link=self._link,
            slots=slots_of(config, *self._rules.slots(self._slots_wanted)),
            jobs=jobs,
            look_up_user=accounts.look_up,
            known_user=accounts.fresh,
            changed=self._changed,
            job_began=self._job_began,
            job_ended=self._job_ended,
            threads=(threads := UserThreads()),
            workdirs=Workdirs(root, jobs, self._as_user),
            drained_mark=f"{config.host.state_dir}/drained",
        )
        self._links = AcceptedLinks(self._host)
        executions, notes = self._host.executions, Notes(self._runtime / "needs")
        self._home = OutboundContext(
            config=config,
            lim=self._lim,
            notes=LimNotes(self._lim),
            peers=None,
            streams=None,
            jobs=jobs,
            cap=LocalCap(config.lbm.fallback_slots or max(2, 2 * math.ceil(cores))),
            eligible=Eligibility(config),
            room=Room(),
            looker=Looker(self._as_user, threads),
            unshared=Unshared(config.lbm.unshared_s),
            denied=DenyList(config.environment.deny, config.environment.allow),
            usage=usage,
            rules=self._rules,
            own_needs=OwnNeeds(executions, self._changed, self._host.link, notes),
        )
        self._report = LimReport(self._host, self._home)
        self._owner = Owner(self._host, self._report.changed)
        self._questions = Questions(self._host, self._home, self._owner.book, self.reload)

    async def run(self) -> None:
        """Runs until stopped. Raises LbdError if it cannot start or one of its parts dies."""
        # for an LBM that continues everything; `_stop` is for the end of everything
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, self._restart.set)
        locks = take_pid_locks("lbm", self._config.host.runtime_dir, self._config.host.state_dir)
        clients = ClientServer(self._runtime / "lbm.sock", self._home, self._questions.answer)
        try:
            self._bind_network()
            await self._keeper.connect()
            listener = await self._take_over(clients)
            free_unused_memory()
            if trouble := self._host.workdirs.prepare():
                log.warning("commands with files cannot come here: stage.root: %s", trouble)
            self._host.workdirs.sweep(self._config.lbm.kill_grace_s)
            if self._server is not None:
                await self._server.start()
            if not has_terminal():
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hung_up)
            clients.start(listener, for_all=self._link.uid == ROOT_UID)
            log.info("ready host=%s slots=%d", self._config.host.name, self._host.slots.total)
            self._ready(f"host {self._config.host.name}, {self._host.slots.total} slots")
            async with asyncio.TaskGroup() as group:
                recall = self._home.usage.recall(self._host.jobs, self._config.lbm.history)
                tasks = [
                    group.create_task(recall, name="recall what has ended"),
                    group.create_task(self._report.run(), name="report to the LIM"),
                    group.create_task(self._follow_trust(), name="follow the certificates"),
                    group.create_task(self._owner.watch(), name="watch for the owner"),
                ]
                if self._attempts is not None:
                    tasks.append(group.create_task(self._attempts.run(), name="attempts"))
                if not (makes_way := await comes_first(self._restart, self._stop)):
                    clients.turn_away()
                    if self._attempts is not None:
                        await self._attempts.end_all()
                for task in tasks:
                    task.cancel()
                if makes_way:
                    await self._report.report(self._config.lbm.orphan_after_s)
                    release = partial(let_go, self._stop.leaving, locks)
                    await hand_over(self._links, self._home, clients, self._attempts, release)
        finally:
            self._stop.set()  # even on a failed start: the keeper must not be replaced
            self._home.own_needs.leave()
            await clients.stop()
            await self._close_down()
            for lock in locks:
                os.close(lock)

    def reload(self) -> list[str]:
        """Reads the owner's rules and the resources again. Jobs run on. Returns changed settings
        that need a restart. Raises ConfigError."""
        later = self._rules.reload()
        self._reporting = asyncio.create_task(self._link.send_totals(self._rules.config.limits))
        self._host.slots.pool.become(pool_of(self._rules.config))
        self._host.executions.resize(*self._rules.slots(self._slots_wanted))
        self._owner.look_again()
        self._changed()
        return later

    def _hung_up(self) -> None:
        with contextlib.suppress(ConfigError):  # the error is in the log
            self.reload()

    async def _take_over(self, clients: ClientServer) -> int | None:
        """Takes over what an earlier LBM left with the keeper. Returns its socket for clients."""
        await self._lim.connect()  # clients that have waited for us will ask it at once
        given = self._link.given
        left = read_left(given)
        ours = self._config.daemons.keeper != "apart"
        if given and (left is None or (ours and not left.has_jobs)):
            await self._keeper.replace()
        adoption = Adoption(self._links, self._home, clients, self._attempts)
        if left is None:
            adoption.take_up_nothing()
        else:
            adoption.take_up(left)
        self._home.own_needs.take_up()
        self._home.usage.begin(left.unrecorded if left is not None else None)
        return left.listener if left is not None else None

    def _bind_network(self) -> None:
        """Binds the port; calls are answered once the keeper is connected."""
        config, lbm = self._config, self._config.lbm
        self._trust = trust = trust_of(config)
        if trust is None:
            return
        options = transport.options(MESSAGE_LIMIT_BYTES, lbm.orphan_after_s)
        self._peers = self._home.peers = Peers(trust, options)
        self._home.streams = PeerLinks(self._peers, lbm.connect_timeout_s, lbm.orphan_after_s)
        self._home.queue = queue = DispatcherClient(config, self._peers, self._lim)
        self._home.files = files = QueuedFiles(config, self._as_user, queue)
        self._attempts = self._report.attempts = DispatcherLine(self._host, queue, files.run)
        questions, check = self._questions, partial(check_reader, self._host, trust)
        asked = HostQuestions(trust)
        one = asked.message_handler
        logs = partial(serve_logs, check, self._attempts, looks_of_hosts())
        packs = partial(serve_files, check, files.store, self._attempts.spool, files.taken)
        handlers = grpc.method_handlers_generic_handler(
            "lbd.v1.Lbm",
            {
                "Run": grpc.stream_stream_rpc_method_handler(self._run),
                "Logs": grpc.unary_stream_rpc_method_handler(logs),
                "Files": grpc.unary_stream_rpc_method_handler(packs),
                "Jobs": one(lbm_pb2.JobsRequest, questions.jobs_for_peer, "jobs"),
                "Check": asked.handler(bytes, questions.checks.for_peer),
                "Stats": one(lbm_pb2.StatsRequest, questions.usage.stats, "stats"),
                "Command": one(lbm_pb2.CommandRequest, questions.commands.of_own),
                "Past": one(lbm_pb2.PastRequest, questions.usage.past, "past"),
                "Lines": one(lbm_pb2.LinesRequest, questions.lines.for_peer, "lines"),
                "Owners": one(lbm_pb2.OwnersRequest, questions.owners.for_peer),
                "History": one(lbm_pb2.HistoryRequest, questions.usage.history, "history"),
            },
        )
        self._server = transport.bind(
            config.host.address, lbm.port, trust, self._peers.cuts, [handlers], options
        )
        self._report.is_served = True

    async def _run(self, _requests: object, context: "Context") -> None:
        assert self._trust is not None
        caller = await self._trust.caller(context)
        await serve_stream(self._links, context, caller)

    async def _follow_trust(self) -> None:
        """Follows certificates and revocations as the LIM renews and receives them."""
        if isinstance(self._trust, Tls):
            await self._trust.follow()

    def _changed(self) -> None:  # slots or jobs
        self._host.executions.pass_to(clock_s())
        self._report.changed()
        if self._attempts is not None:
            self._attempts.slots_changed()

    async def _close_down(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
        await self._keeper.end()
        await self._host.workdirs.close()
        if self._home.streams is not None:
            await self._home.streams.close()
        if self._peers is not None:
            await self._peers.close()
        self._lim.close()
        await self._home.eligible.close()
        await self._home.usage.close()
        for name in ("lbm.sock", "lbm.restarting", *self._keeper.own_socket()):
            (self._runtime / name).unlink(missing_ok=True)

    def _job_began(self, job: JobId, pid: int, group: str) -> None:
        self._host.jobs.placed[pid] = job
        self._owner.job_began(job, pid, group)
        where: Json = {"host": self._config.host.name, "cgroup": group or None}
        self._home.notes.started(job, {**where, "pid": pid, "foreign": True})

    def _job_ended(self, job: JobId, cpu_s: float) -> None:
        self._owner.job_ended(job, cpu_s)
        self._host.jobs.forget_placed(job)
        self._home.notes.ended(job, self._config.host.name, charged=False)


async def comes_first(event: asyncio.Event, other: asyncio.Event) -> bool:
    """Waits until one of them is set. Returns whether the other one is not: it would come too
    late."""
    waits = [asyncio.create_task(one.wait()) for one in (event, other)]
    for wait in (await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED))[1]:
        wait.cancel()
    return not other.is_set()
