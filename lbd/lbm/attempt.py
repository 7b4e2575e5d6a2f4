"""One attempt of a queued job on this host: admitted, started, watched, ended.

It has no caller: its output goes to the spool, its input comes from what was submitted. What
becomes of it is news for the dispatcher, which `tell` passes on.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable

from lbd.errors import LbdError, Unavailable
from lbd.lbm import keeper_protocol as keeper
from lbd.lbm.attempt_stage import AttemptStage, StageRefused
from lbd.lbm.client import LBRUN_FAILED
from lbd.lbm.host import Host
from lbd.lbm.job_input import input_of
from lbd.lbm.limits import CPU, KEEPER, LEASE, limit_frame
from lbd.lbm.link import Begun, Exit, NotStarted, Spawned
from lbd.lbm.orders import explain, over_memory, stage_of
from lbd.lbm.pattern import fill_in
from lbd.lbm.queue_client import QueueClient
from lbd.lbm.spawn_order import Order
from lbd.lbm.state import Job
from lbd.lbm.users import LocalUser, Refuse
from lbd.lbm.without_keeper import end_anyway
from lbd.model import HostId, JobId, JobState
from lbd.rpc.gen import dispatch_pb2, lbm_pb2

Tell = Callable[[dispatch_pb2.News], None]
KEEPER_POLL_S = 0.1
CHECKPOINTED = 85  # exit status: as HTCondor has it
OUT_OF_LEASE = "its host could not renew its lease"
# Where its output goes. What cannot be opened is our failure, 125, and no status of the command's.
BOTH = b'o=$1; shift 2; command exec >"$o" 2>&1 || exit 125; exec "$@"'
APART = b'o=$1 e=$2; shift 2; command exec >"$o" 2>"$e" || exit 125; exec "$@"'
ERROR_ONLY = b'e=$2; shift 2; command exec 2>"$e" || exit 125; exec "$@"'


class Attempt:
    def __init__(
        self,
        host: Host,
        client: QueueClient,
        start: dispatch_pb2.Start,
        tell: Tell,
        lease_s: Callable[[], float],
        turn: Callable[[JobId, str, int], Awaitable[bool]],
    ) -> None:
        """`lease_s`: what is left of its lease now. `turn`: waits for so many slots and takes
        them for that user, or is False."""
        self._host = host
        self._client = client
        self._spool = client.spool
        self._start = start
        self._tell_news = tell
        self._lease_s = lease_s
        self._turn = turn
        self._spawned: Spawned | None = None
        self._cause = self._reason = ""
        self.wish = ""  # what it was told to end for
        self._common = host.submitted.common(start)
        self._request = self._common.request
        self._stage: AttemptStage | None = None  # if it brings files along
        self.name = JobId(f"{start.job}.{start.attempt}")  # for the keeper
        self.begun = self.over = False
        self.halted: bool | None = None  # by SIGSTOP, last; None: never
        self.ran_s = 0.0  # once it has ended
        self._waits, self._is_ended_anyway = True, False
        self._told_to_end: int | None = None
        self._began_s = 0.0

    async def run(self) -> None:
        """Until it is over and told; a slot is held while it may be alive."""
        if self._ended_early():
            return
        if fault := self._common.fault:
            self._refuse(f"its stored request cannot be run: {fault}", self._common.stage)
            return
        self._take_stage()
        admitted = await self._host.admit(
            self._request.user, self._request.uid, self._request.origin
        )
        if isinstance(admitted, Refuse):
            passing = admitted.reason == "drained"
            self._refuse(admitted.reason, "drained" if passing else "admission")
            return
        if self._ended_early():
            return
        order, width = self._order(admitted.run_as), self._start.slots
        has_slot = await self._turn(self.name, self._request.user, width)
        self._waits = has_slot and self._stage is not None
        if self._ended_early():
            self._free_slot()
            return
        if not has_slot:
            few = "no free slot" if width < 2 else f"fewer than {width} free slots"
            self._refuse(few, "slot")
            return
        try:
            if self._stage is not None:
                order.directory = await self._stage.open(admitted.run_as)
                order.environment[b"PWD"] = order.directory
                self._waits = False
                if self._ended_early():
                    return
            await self._spawn(order, admitted.run_as)
        except StageRefused as trouble:
            self._waits = False
            if not self._ended_early():
                self._refuse(str(trouble), trouble.stage)
            return
        except NotStarted as trouble:
            self._refuse(explain(self._request, trouble), stage_of(trouble), trouble.number)
            return
        except Unavailable as trouble:
            self._refuse(str(trouble), "keeper")
            return
        except (LbdError, OSError) as trouble:
            self._refuse(str(trouble), "spawn", getattr(trouble, "errno", None) or 0)
            return
        finally:
            if self._spawned is None:
                self._free_slot()
                self._leave_stage()
        await self._follow()

    def _take_stage(self) -> None:
        """If it brings files along, the request is to have names of its own."""
        if not self._request.HasField("stage"):
            return
        common, self._request = self._request, lbm_pb2.RunRequest()
        self._request.CopyFrom(common)
        self._request.job_id = self._start.job
        self._stage = AttemptStage(self._host, self._client, self._start, self._request, self.name)

    def _ended_early(self) -> bool:
        """To be asked anew after each wait, in which it may have been told to end."""
        return self.over

    def _order(self, run_as: LocalUser | None) -> Order:
        start, config, link = self._start, self._host.rules.config, self._host.link
        order = self._common.order(run_as, config, limited_cpu=link.weighs_cpu)
        order.job = self.name
        order.environment |= {
            b"LBD_JOB_ID": start.job.encode(),
            b"LBD_ATTEMPT": b"%d" % start.attempt,
            b"LBD_TIER": b"%d" % start.tier,
            b"LBD_SLOTS": b"%d" % max(1, start.slots),
        }
        if start.cutoff_s:  # how far it may go
            order.environment[b"LBD_CUTOFF_S"] = b"%g" % start.cutoff_s
        if start.spec.checkpoint:  # where it may leave what it has done by then
            order.environment[b"LBD_CHECKPOINT"] = start.spec.checkpoint
        if start.HasField("array_index"):
            order.environment[b"LBD_ARRAY_INDEX"] = b"%d" % start.array_index
        output, error = (self._file(path) for path in (start.spec.output, start.spec.error))
        if output or error:
            script = APART if output and error else BOTH if output else ERROR_ONLY
            if start.spec.checkpoint and start.attempt > 1:
                script = script.replace(b">", b">>").replace(b">>&", b">&")  # it goes on
            order.subject = order.argv[0]
            order.argv = [b"/bin/sh", b"-c", script, b"lbd", output, error, *order.argv]
        return order

    def _file(self, pattern: bytes) -> bytes:
        start = self._start
        index = start.array_index if start.HasField("array_index") else None
        return fill_in(pattern, start.job, index, self._host.config.host.name)

    async def _spawn(self, order: Order, run_as: LocalUser | None) -> None:
        """Raises NotStarted, LbdError, OSError; nothing runs then."""
        descriptors: list[int] = []
        try:
            self._open(descriptors, self._host.link.uid if run_as is None else run_as.uid)
            limit = limit_frame(self.name, self._lease_s(), self._start.cutoff_s)
            self._spawned = await self._host.link.spawn(order, descriptors, self._stopped, limit)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._keeper = self._host.link.pid
        self._spawned.exited.add_done_callback(lambda _: self._free_slot())
        try:
            begun = await self._spawned.begun
        except NotStarted:
            self._spawned = None
            raise
        except LbdError:
            return  # with its keeper: `_follow` meets it, too
        self._has_begun(begun, time.monotonic(), time.time())
        self._tell("begun")
        if self._told_to_end is not None:  # the keeper may have known of no such command yet
            self.stop(self._told_to_end)

    def _has_begun(self, begun: Begun, began_s: float, unix_s: float) -> None:
        self.begun, self._began_s = True, began_s
        self._host.jobs.add(
            Job(
                self.name,
                tuple(self._request.argv),
                self._request.user,
                HostId(""),
                HostId(self._host.config.host.name),
                submitted=self._start.requeued or self._start.spec.submitted or unix_s,
                started=unix_s,
                state=JobState.RUNNING,
                foreign=True,
                queued_at=HostId(self._request.origin),
            )
        )
        self._host.job_began(self.name, begun.pid, begun.group)

    def _open(self, descriptors: list[int], uid: int) -> None:
        """The command's, in order, of one that runs as `uid`. Raises OSError."""
        request, start = self._request, self._start
        closed = request.closed_fds
        if not closed & 1:
            descriptors.append(input_of(start.spec.input))
        if not closed & 2:
            descriptors.append(self._spool.open(start.job, start.attempt, "out", uid))
        if not closed & 4:
            if request.joined_outputs and not closed & 2:
                descriptors.append(os.dup(descriptors[-1]))
            else:
                descriptors.append(self._spool.open(start.job, start.attempt, "err", uid))

    async def _follow(self) -> None:
        assert self._spawned is not None
        timer = None
        if self._request.timeout_s > 0:
            left_s = self._began_s + self._request.timeout_s - time.monotonic()
            timer = asyncio.get_running_loop().call_later(left_s, self._time_out)
        try:
            ended = await asyncio.shield(self._spawned.exited)
        except LbdError as problem:
            await self._until_cleared()
            self._leave_stage()
            self._end_told(None, "lost", str(problem))
            return
        finally:
            if timer is not None:
                timer.cancel()
        complaint = await self._collect(ended)
        self._end_told(ended, self._cause or ("signalled" if ended.signal else "exited"), complaint)

    async def _collect(self, ended: Exit) -> str:
        """What there is to fetch; why that cannot be, "" if it can. Not of what begins anew."""
        try:
            if self._stage is None or ended.over or self._cause == "lost":
                return ""
            complaint = await self._stage.collect(ended.status)
            if not complaint:
                return ""
            return f"--fetch {complaint}; the command itself ended with {ended.status}"
        finally:
            self._leave_stage()

    def _leave_stage(self) -> None:
        if self._stage is not None:
            self._stage.close()

    async def _until_cleared(self) -> None:
        """A new keeper ends what the last one left before it says hello, with its pid."""
        while self._host.link.pid in (0, self._keeper):  # noqa: ASYNC110
            await asyncio.sleep(KEEPER_POLL_S)

    def _end_told(self, ended: Exit | None, cause: str, reason: str = "") -> None:
        news = dispatch_pb2.News(event="ended", cause=cause, reason=reason or self._reason)
        state = JobState.LOST
        if ended is not None:
            if ended.over == CPU:
                news.cause = "cut"
                news.reason = f"used {self._start.cutoff_s:g} s of CPU, the cutoff of its tier"
            elif ended.over == LEASE:
                news.cause, news.reason = "lost", OUT_OF_LEASE
            elif ended.over == KEEPER and ended.status and not self._cause:
                news.cause, news.reason = "lost", "its host's keeper was told to end"
            news.exit_status = 124 if cause == "timeout" else ended.status
            if reason and news.cause == "exited":
                news.exit_status = LBRUN_FAILED
            news.signal = ended.signal
            if ended.out_of_memory and not (self._cause or ended.over):
                news.cause = "memory"
                news.reason = over_memory(self._request, self._host.rules.config)
                news.signal, news.exit_status = signal.SIGKILL, 128 + signal.SIGKILL
            stopped = news.cause == "exited" and ended.status == CHECKPOINTED
            if stopped and self._start.spec.checkpoint:
                news.cause, news.reason = "checkpoint", "it stopped at a checkpoint"
            news.cpu_s = ended.user_cpu_s + ended.system_cpu_s
            if ended.over == CPU:  # by children that nobody has waited for
                news.cpu_s = max(news.cpu_s, self._start.cutoff_s)
            state = JobState.DONE if ended.status == 0 else JobState.FAILED
            self.ran_s = time.monotonic() - self._began_s
        status, cpu_s = (news.exit_status, news.cpu_s) if ended is not None else (None, None)
        self._host.jobs.end(self.name, state, time.time(), status, cpu_s, news.cause)
        self._host.job_ended(self.name)
        if ended is not None:
            key, spooled = (self._start.job, self._start.attempt), not self._start.spec.output
            news.reason = news.reason or self._spool.ended(*key, spooled=spooled)
        self.over = True
        self._say(news)

    def _time_out(self) -> None:
        self._cause = "timeout"
        self._reason = f"ended after its time limit of {self._request.timeout_s:g} s"
        self._end_gently()

    async def hold(self, lease_s: float) -> None:
        """The keeper lets it live on for so long, and use no more than its tier's cutoff."""
        if self._spawned is not None and not self.over:
            await self._host.link.say(limit_frame(self.name, lease_s, self._start.cutoff_s))

    def lease_over(self) -> None:
        """Nobody may believe it alive any more, so it must not be. Said again until it is over."""
        if self.never_began(OUT_OF_LEASE) or self._is_ended_anyway:
            return
        self._cause, self._reason = "lost", OUT_OF_LEASE
        self._end_now()
        if self._spawned is not None:
            self._is_ended_anyway = True
            keep(asyncio.create_task(end_anyway(self._spawned)))

    def give_up(self, reason: str) -> None:
        """For our own reasons; it is to begin again elsewhere."""
        if self.never_began(reason):
            return
        self._cause, self._reason = "lost", reason
        self._end_gently()

    def stop(self, number: int, wish: str = "") -> None:
        """A signal for it; 0 ends it, TERM first. `wish`: to be told with its end, should another
        dispatcher hear of that."""
        self.wish = wish or self.wish
        if number in (0, signal.SIGTERM, signal.SIGKILL):
            if self.never_began("it was to end"):
                return
            self._told_to_end = number
        if number == 0:
            self._end_gently()
        elif number == signal.SIGKILL:
            self._end_now()
        else:
            keep(asyncio.create_task(self._host.link.tell(keeper.SIGNAL, self.name, number)))

    def never_began(self, reason: str) -> bool:
        """If it still waits for its turn: then it shall not have one."""
        if self._waits and not self.over:
            self._refuse(reason, "late")
        return self._waits

    def _end_now(self) -> None:
        keep(asyncio.create_task(self._host.link.tell(keeper.END_TREE, self.name)))

    def _end_gently(self) -> None:
        async def end() -> None:
            link = self._host.link
            await link.tell(keeper.SIGNAL, self.name, signal.SIGTERM)
            await link.tell(keeper.SIGNAL, self.name, signal.SIGCONT)
            if self._spawned is not None:
                grace_s = self._host.config.lbm.kill_grace_s
                await asyncio.wait([self._spawned.exited], timeout=grace_s)
            await link.tell(keeper.END_TREE, self.name)

        keep(asyncio.create_task(end(), name=f"end {self.name}"))

    def _stopped(self, stopped: bool) -> None:
        job = self._host.jobs.running.get(self.name)
        if job is not None:
            job.state = JobState.SUSPENDED if stopped else JobState.RUNNING
        self.halted = stopped
        self._tell("stopped" if stopped else "continued")

    def _free_slot(self) -> None:
        for job in self._host.slots.release(self.name):
            self._host.slot_events[job].set()
        self._host.changed()

    def _refuse(self, reason: str, stage: str, number: int = 0) -> None:
        self.over = True
        self._say(dispatch_pb2.News(event="refused", reason=reason, stage=stage, errno=number))

    def _tell(self, event: str) -> None:
        self._say(dispatch_pb2.News(event=event))

    def _say(self, news: dispatch_pb2.News) -> None:
        news.job, news.attempt = self._start.job, self._start.attempt
        if self.over:
            news.wish = self.wish
        self._tell_news(news)


def keep(task: "asyncio.Task[None]") -> None:
    """The loop itself keeps only weak references."""
    ENDING.add(task)
    task.add_done_callback(ENDING.discard)


ENDING: "set[asyncio.Task[None]]" = set()
