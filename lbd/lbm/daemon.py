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
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from lbd.config import Config
from lbd.errors import ConfigError, LbdError, Unavailable
from lbd.lbm import keeper_protocol as keeper
from lbd.lbm.account_cache import AccountCache
from lbd.lbm.adoption import Adoption, has_jobs, read_record
from lbd.lbm.as_user import AsUser
from lbd.lbm.attempts import Attempts
from lbd.lbm.bundle import Given
from lbd.lbm.client_server import ClientServer
from lbd.lbm.directory import Looker
from lbd.lbm.eligible import Eligibility
from lbd.lbm.environment import DenyList
from lbd.lbm.handover import hand_over
from lbd.lbm.home import Home
from lbd.lbm.host import Host
from lbd.lbm.in_force import InForce
from lbd.lbm.incoming import serve_stream
from lbd.lbm.letting_go import let_go
from lbd.lbm.link import KeeperLink
from lbd.lbm.logs import check_reader, serve_files, serve_logs
from lbd.lbm.notes import LimNotes
from lbd.lbm.owner import Owner
from lbd.lbm.peer_streams import PeerStreams
from lbd.lbm.questions import Questions
from lbd.lbm.queue_client import QueueClient
from lbd.lbm.queued_files import QueuedFiles
from lbd.lbm.room import Room
from lbd.lbm.stages import Stages
from lbd.lbm.state import Jobs, LocalCap, Slots
from lbd.lbm.state_dir import job_numbers, stage_root
from lbd.lbm.unshared import Unshared
from lbd.lbm.usage_log import UsageLog
from lbd.lbm.user_threads import UserThreads
from lbd.lbm.users import ROOT_UID
from lbd.load import cgroup
from lbd.model import JobId
from lbd.rpc import transport
from lbd.rpc.gen import lbm_pb2
from lbd.rpc.job_stream import MESSAGE_LIMIT_BYTES
from lbd.rpc.local import Json, JsonClient
from lbd.rpc.pid_lock import take_pid_locks
from lbd.rpc.service_manager import has_terminal
from lbd.rpc.stop import Stop
from lbd.rpc.tls import Tls
from lbd.rpc.trusted import trust_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from lbd.lbm.incoming import Context

    Asking = grpc.aio.ServicerContext[bytes, "Reply"]

log = logging.getLogger("lbd.lbm")

Ready = Callable[[str], None]
Reread = Callable[[], Config]
Reply = TypeVar("Reply", bound=Message)

LIM_REPORT_S, LIM_REPORT_PAUSE_S = 1.0, 0.05  # as often as its load changes; between changes
LIM_PATIENCE_S = 0.5  # for its answer, and from one attempt to connect to the next
KEEPER_S = 10.0
KEEPER_PAUSES_S = (0.1, 0.3, 1.0, 3.0)
STOP_TIMEOUT_S = 5.0


class Lbm:
    """One host's load balance manager."""

    def __init__(self, config: Config, stop: Stop, ready: Ready, reread: Reread) -> None:
        """`reread`: what lbd.toml says by now; it raises ConfigError."""
        self._config = config
        self._runtime = Path(config.host.runtime_dir)
        self._stop, self._ready = stop, ready
        self._report, self._keeper_gone, self._restart = (asyncio.Event() for _ in range(3))
        self._replacing = False
        self._failure: LbdError | None = None
        cores = config.host.cores or cgroup.usable_cores()
        self._slots_wanted = config.lbm.slots or max(1, math.ceil(cores))
        self._jobs = Jobs(config.lbm.history, (usage := UsageLog(config)).note)
        self._lim = JsonClient(self._runtime / "lim.sock")
        self._leaders: dict[int, JobId] = {}
        self._link = KeeperLink(self._keeper_lost)
        look_up_user = AccountCache().look_up
        self._as_user = AsUser(self._link, look_up_user)
        self._trust: Tls | transport.Plain | None = None
        self._peers: transport.Peers | None = None
        self._server: grpc.aio.Server | None = None
        self._attempts: Attempts | None = None
        self._rules = InForce(config, reread)
        self._host = Host(
            config=config,
            rules=self._rules,
            link=self._link,
            slots=Slots(*self._rules.slots(self._slots_wanted), config.lbm.max_waiting),
            jobs=self._jobs,
            look_up_user=look_up_user,
            changed=self._changed,
            job_began=self._job_began,
            job_ended=self._job_ended,
            stages=Stages(stage_root(config), config.host.name, self._jobs, self._as_user),
            drained_mark=f"{config.host.state_dir}/drained",
        )
        ids = job_numbers(Path(config.host.state_dir))
        self._home = Home(
            config=config,
            lim=self._lim,
            notes=LimNotes(self._lim),
            peers=None,
            streams=None,
            jobs=self._jobs,
            cap=LocalCap(config.lbm.fallback_slots or max(2, 2 * math.ceil(cores))),
            eligible=Eligibility(config),
            room=Room(),
            new_id=lambda: JobId(f"{config.host.name}-{next(ids)}"),
            is_leader=lambda peer: peer.pid in self._leaders and peer.is_there,
            looker=Looker(self._as_user, UserThreads()),
            unshared=Unshared(config.lbm.unshared_s),
            denied=DenyList(config.environment.deny, config.environment.allow),
            usage=usage,
            rules=self._rules,
        )
        self._owner = Owner(self._host, self._report.set)
        self._questions = Questions(self._host, self._home, self.reload)

    async def run(self) -> None:
        """Until told to stop. Raises LbdError if it cannot start or one of its parts dies."""
        host = self._config.host
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, self._restart.set)
        locks = take_pid_locks("lbm", host.runtime_dir, host.state_dir)
        clients = ClientServer(self._runtime / "lbm.sock", self._home, self._questions.answer)
        try:
            self._bind_network()
            await self._connect_keeper()
            listener = await self._take_over(clients)
            self._host.stages.sweep(self._config.lbm.kill_grace_s)
            if self._server is not None:
                await self._server.start()
            if not has_terminal():
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hung_up)
            clients.start(listener, for_all=self._link.uid == ROOT_UID)
            log.info("ready host=%s slots=%d", self._config.host.name, self._host.slots.total)
            self._ready(f"host {self._config.host.name}, {self._host.slots.total} slots")
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._report_to_lim(), name="report to the LIM"),
                    group.create_task(self._follow_trust(), name="follow the certificates"),
                    group.create_task(self._owner.watch(), name="watch for the owner"),
                ]
                if self._attempts is not None and self._config.dispatch.host:
                    tasks.append(group.create_task(self._attempts.run(), name="attempts"))
                await self._until_told()
                if self._attempts is not None and not self._restart.is_set():
                    await self._attempts.end_all()
                for task in tasks:
                    task.cancel()
                if self._restart.is_set():
                    await self._tell_lim(self._config.lbm.orphan_after_s)
                    release = partial(let_go, self._stop.leaving, locks)
                    await hand_over(self._host, self._home, clients, self._attempts, release)
        finally:
            self._stop.set()  # also when it could not start: no other keeper for the one that ends
            await clients.stop()
            await self._close_down()
            for lock in locks:
                os.close(lock)
        if self._failure is not None:
            raise self._failure

    def reload(self) -> None:
        """The owner's rules, read again; what runs, runs on. Raises ConfigError."""
        self._rules.reload()
        self._telling = asyncio.create_task(self._link.tell_totals(self._rules.config.limits))
        for job in self._host.slots.resize(*self._rules.slots(self._slots_wanted)):
            self._host.slot_events[job].set()
        self._owner.look_again()
        self._report.set()

    def _hung_up(self) -> None:
        with contextlib.suppress(ConfigError):  # it is in the log
            self.reload()

    async def _connect_keeper(self) -> None:
        path, until_s = self._runtime / "keeper.sock", time.monotonic() + KEEPER_S
        while True:
            try:
                await self._link.connect(path, self._config)
                break
            except Unavailable:  # `lbd keeper` is being started beside us
                if time.monotonic() > until_s or self._stop.is_set():
                    raise
                await asyncio.sleep(KEEPER_PAUSES_S[0])
        await self._link.tell_totals(self._rules.config.limits)
        log.info("keeper pid=%d containment=%s", self._link.pid, self._link.containment)

    async def _until_told(self) -> None:
        """To stop, or to make way for another LBM that goes on with everything (USR2)."""
        told = [asyncio.create_task(event.wait()) for event in (self._stop, self._restart)]
        for wait in (await asyncio.wait(told, return_when=asyncio.FIRST_COMPLETED))[1]:
            wait.cancel()

    async def _take_over(self, clients: ClientServer) -> int | None:
        """What an earlier LBM has left with the keeper; its listening socket for clients."""
        await self._lim.connect()  # who has waited for us will ask it at once
        given = self._link.given
        record = read_record(given)
        ours = self._config.daemons.keeper != "apart"
        if given and (record is None or (ours and not has_jobs(record))):
            await self._replace_keeper()
        if record is None:
            self._link.adopted()
            return None
        parts = self._host, self._home, clients, self._attempts
        return Adoption(*parts, Given(given)).take_up(record)

    async def _end_keeper(self) -> None:
        if self._link.alive:
            await self._link.tell(keeper.QUIT)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._keeper_gone.wait(), STOP_TIMEOUT_S)
        self._link.close()

    async def _replace_keeper(self) -> None:
        """It has nothing to do, and may be of an older version."""
        self._replacing = True
        await self._end_keeper()
        self._replacing = False
        self._keeper_gone.clear()
        await self._connect_keeper()

    def _keeper_lost(self) -> None:
        """Its jobs are ended by the kernel (PDEATHSIG) and by us; a new keeper takes the next."""
        if self._stop.is_set() or self._replacing:
            self._keeper_gone.set()
            return
        log.warning("the keeper went away; its jobs are lost, starting another")

        async def again() -> None:
            for pause_s in KEEPER_PAUSES_S:
                try:
                    await self._connect_keeper()
                    if self._link.pid == self._link.lost_pid:  # it lives, and ends what it had
                        await self._replace_keeper()
                    self._link.adopted()
                    return
                except (LbdError, OSError) as problem:
                    log.warning("no keeper yet: %s", problem)
                await asyncio.sleep(pause_s)
            self._failure = Unavailable("the keeper cannot be started again")
            self._stop.set()

        self._restarting = asyncio.create_task(again(), name="restart the keeper")

    def _bind_network(self) -> None:
        """The port is ours from here on; calls are answered once the keeper is there."""
        config, lbm = self._config, self._config.lbm
        self._trust = trust = trust_of(config)
        if trust is None:
            return
        options = transport.options(MESSAGE_LIMIT_BYTES, lbm.orphan_after_s)
        self._peers = self._home.peers = transport.Peers(trust, options)
        self._home.streams = PeerStreams(self._peers, lbm.connect_timeout_s, lbm.orphan_after_s)
        self._home.queue = queue = QueueClient(config, self._peers, self._lim)
        self._home.files = files = QueuedFiles(config, self._as_user, queue)
        self._attempts = Attempts(self._host, queue, files.run)
        questions, check = self._questions, partial(check_reader, self._host, trust)
        logs = partial(serve_logs, check, self._attempts)
        handlers = grpc.method_handlers_generic_handler(
            "lbd.v1.Lbm",
            {
                "Run": grpc.stream_stream_rpc_method_handler(self._run),
                "Logs": grpc.unary_stream_rpc_method_handler(logs),
                "Files": grpc.unary_stream_rpc_method_handler(
                    partial(serve_files, check, files.store, self._attempts.spool)
                ),
                "Jobs": self._for_hosts(questions.jobs_for_peer, lbm_pb2.JobsReply),
                "Check": self._for_hosts(questions.checks.for_peer, lbm_pb2.CheckReply),
                "Stats": self._for_hosts(questions.usage.stats_for_peer, lbm_pb2.StatsReply),
                "History": self._for_hosts(questions.usage.history_for_peer, lbm_pb2.HistoryReply),
            },
        )
        self._server = transport.bind(
            config.host.address, lbm.port, trust, self._peers.cuts, [handlers], options
        )

    async def _run(self, _requests: object, context: "Context") -> None:
        assert self._trust is not None
        caller = await self._trust.caller(context)
        await serve_stream(self._host, context, caller)

    def _for_hosts(
        self, answer: "Callable[[bytes, Asking[Reply], str], Awaitable[Reply]]", reply: type[Reply]
    ) -> "grpc.RpcMethodHandler[bytes, Reply]":
        """`answer`, told which host asks."""

        async def call(data: bytes, context: "Asking[Reply]") -> Reply:
            assert self._trust is not None
            return await answer(data, context, await self._trust.caller(context))

        return grpc.unary_unary_rpc_method_handler(call, None, reply.SerializeToString)

    async def _follow_trust(self) -> None:
        """Certificates and revocations as the LIM renews and hears of them."""
        if isinstance(self._trust, Tls):
            await self._trust.follow()

    def _changed(self) -> None:
        """Slots or jobs."""
        self._report.set()
        if self._attempts is not None:
            self._attempts.slots_changed()

    async def _close_down(self) -> None:
        if self._server is not None:
            await self._server.stop(grace=None)
        await self._end_keeper()
        await self._host.stages.close()
        if self._home.streams is not None:
            await self._home.streams.close()
        if self._peers is not None:
            await self._peers.close()
        self._lim.close()
        await self._home.eligible.close()
        await self._home.usage.close()
        for name in ("lbm.sock", "keeper.sock"):
            (self._runtime / name).unlink(missing_ok=True)

    # the LIM

    async def _report_to_lim(self) -> None:
        """Tell the LIM of slots and jobs at every change, and now and then; connect again."""
        while True:
            self._report.clear()
            if not self._lim.connected and await self._lim.connect():
                self._home.notes.again()
            if self._lim.connected:
                await self._tell_lim()
            told_s = time.monotonic()
            pause_s = LIM_REPORT_S if self._lim.connected else LIM_PATIENCE_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._report.wait()
            if (left_s := told_s + LIM_REPORT_PAUSE_S - time.monotonic()) > 0:
                await asyncio.sleep(left_s)  # changes come in bursts

    async def _tell_lim(self, returns_s: float = 0.0) -> None:
        slots = self._host.slots
        try:
            answer = await self._lim.call(
                {
                    "op": "lbm",
                    "slots_total": slots.total,
                    "slots_used": slots.used,
                    "hog": slots.hog(),
                    "local": self._jobs.count(foreign=False),
                    "foreign": self._jobs.count(foreign=True),
                    "accepting": self._server is not None and not self._rules.closed(),
                    "returns_s": returns_s,  # so soon another LBM is in our place
                    "keeper": self._link.pid,  # neither of us is load of this host
                    "dispatcher": self._attempts.summary if self._attempts else None,
                },
                LIM_PATIENCE_S,
            )
        except LbdError as problem:
            return log.debug("the LIM did not take the report: %s", problem)
        self._rules.load_is(answer.get("index"))
        if self._attempts is not None:
            self._attempts.load_is(answer.get("index"), answer.get("drained"))
        threshold_s = answer.get("job_threshold_s")
        if isinstance(threshold_s, float):  # as in force now, perhaps changed by lbctl
            self._home.eligible.book.threshold_s = threshold_s

    def _job_began(self, job: JobId, pid: int, group: str) -> None:
        self._leaders[pid] = job
        self._owner.job_began(job, pid, group)
        where: Json = {"host": self._config.host.name, "cgroup": group or None}
        self._home.notes.started(job, {**where, "pid": pid, "foreign": True})

    def _job_ended(self, job: JobId) -> None:
        self._owner.job_ended(job)
        for pid in [pid for pid, held in self._leaders.items() if held == job]:
            del self._leaders[pid]
        self._home.notes.ended(job, self._config.host.name, charged=False)
