"""The LIM's shell: passes samples, ticks, messages and local requests to `state`, and carries out
its actions.

It decides nothing. Two loops, sampling and ticking, run as long as the daemon does; if one dies, or
a message cannot be handled, the daemon stops and says which.
"""

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Protocol

from lbd import __version__
from lbd.config.schema import Config
from lbd.errors import ConfigError, Incompatible, LbdError, PeerError, Unavailable
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core.broadcast import IN_FLIGHT_MAX, sends
from lbd.lim.core.membership import awaits_news
from lbd.lim.core.settings import InForce
from lbd.lim.core.signed import policy_version
from lbd.lim.core.state import Identity, LimState
from lbd.lim.identity import identity_of
from lbd.lim.log_lines import LINES
from lbd.lim.settings_file import SettingsFile
from lbd.lim.site_command import SiteCommand
from lbd.load import sampler as kernel
from lbd.load import site
from lbd.load.index import WINDOW_S, exchanged
from lbd.load.scopes import JobsScope, Root
from lbd.model import HostId, JobId, Placement, PlacementRequest, Queues
from lbd.policy.view import Ask, Decision, Nowhere, Probe, Reply
from lbd.process.own_directory import STATE, not_writable
from lbd.process.wake_ups import until_next_s

log = logging.getLogger(__name__)

LEAVE_TIMEOUT_S = 1.0  # for saying goodbye to all hosts
LOOK_AGAIN_S = 0.02  # between looks for news of other hosts, while a command waits for the first
# uvloop rounds both the current time and the delay to whole milliseconds, so its timer may fire
# early by this much. An early tick would be followed by a dozen more until the tick is due.
TIMER_EARLY_S = 0.002


class Network(Protocol):
    """Carries messages to other LIMs: `net.lim_network`, or nothing for a host alone."""

    async def ask(self, name: str, target: str, message: m.Message, timeout_s: float) -> m.Message:
        """Returns the reply. Raises Unavailable or PeerError."""
        ...

    async def cut(self, names: set[str]) -> None: ...


class Lim:
    def __init__(self, config: Config, network: Network | None, cluster: str = "") -> None:
        """`cluster`: the digest of its authority; then a policy must be signed."""
        self.config = config
        self.network = network
        self.failure: str = ""
        self.undelivered: Counter[str] = Counter()
        self.own_pids = {os.getpid()}
        cores, now_s = kernel.usable_cores(config.host.cores), time.monotonic()
        self.kept = SettingsFile(make_dir(Path(config.host.state_dir)), cluster)
        identity = identity_of(config, self.kept, cores, alone=network is None, signs=bool(cluster))
        self.state = state_of(config, identity, now_s)
        load = self.state.in_force.load
        self.sampler = kernel.make_sampler(load, cores, lambda: self.own_pids, now_s)
        self.site = SiteCommand(config.load, config.host.name)
        self._stood_in_for = ""  # the site index that this host lacks now
        self._sends: set[asyncio.Task[None]] = set()
        self._in_flight: Counter[str] = Counter()
        self._last_words = False  # goodbye was sent: nothing follows, not even answers to replies
        self._stop = asyncio.Event()
        self._sampling = Loop("sampling", self._sample, self._died)
        self._ticking = Loop("ticking", self._tick, self._died)

    # -- running ---------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event, returns: Callable[[], bool] = lambda: False) -> None:
        """Runs until `stop` is set. Raises LbdError if a loop died or the cluster rejects us.

        `returns`: whether another LIM of this host is about to start, so nobody need be notified.
        """
        self._stop = stop
        self._sample_memory()
        self.perform(self.state.start())
        self.sampler.start()
        self._sampling.start()
        self._ticking.start()
        beside = asyncio.create_task(self.site.run(), name="the site's command")
        beside.add_done_callback(self._beside_ended)
        try:
            await stop.wait()
        finally:
            self._sampling.cancel()
            self.sampler.end()
            self._ticking.cancel()
            beside.cancel()
            await asyncio.wait([beside])
        if self.failure:
            raise LbdError(self.failure)
        if not returns():
            await self._say_goodbye()

    def _sample(self) -> float:
        now_s = time.monotonic()
        if (reading := self.sampler.read(now_s)) is not None:
            self.handle(self._sampled(reading, now_s), now_s)
        if self.sampler.reads_itself:
            return until_next_s(WINDOW_S, now_s)
        return self.sampler.interval_s()

    def _sample_memory(self) -> None:
        """Makes the memory known, so that commands that need some can come here at once."""
        empty = e.Sampled(Queues(), 0.0, 0.0, memory=self.sampler.memory.bytes.read())
        self.state.handle(empty, time.monotonic())

    def _sampled(self, reading: kernel.Reading, now_s: float) -> e.Sampled:
        load, identity = self.state.in_force.load, self.state.identity
        queues, busy = reading.queues, reading.smoothed_utilisation
        loads = self.site.loads.at(now_s)
        if (found := loads.get(site.wanted(load))) is None:
            load = site.fallen_back(load, loads)
            found = exchanged(load, queues, busy, identity.cores, identity.speed)
        self._say_index(load.index)
        own_loads = tuple(sorted(loads.items()))
        return e.Sampled(queues, found, reading.utilisation, own_loads, reading.memory)

    def _say_index(self, name: str) -> None:
        """Logs once that another index replaces the site's, and once that it no longer does."""
        wanted = self.state.in_force.load.index
        if name == wanted:
            if self._stood_in_for == wanted:
                log.info("load.index = %s again", wanted)
            self._stood_in_for = ""
        elif self.site.tried and wanted != self._stood_in_for:
            log.warning(
                "load.index = %s: load.site_command reports no such load now; using the %s "
                "index", wanted, name,
            )  # fmt: skip
            self._stood_in_for = wanted

    def _tick(self) -> float:
        self.perform(self.state.handle(e.Tick(), time.monotonic()))
        LINES.say_left_out(time.monotonic())
        return self.state.next_due_s - time.monotonic() + TIMER_EARLY_S

    def _beside_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._died(f"{task.get_name()}: {problem!r}")

    def _died(self, text: str) -> None:
        self.failure = text
        self._stop.set()

    async def _say_goodbye(self) -> None:
        self.perform(self.state.handle(e.Stopping(), time.monotonic()))
        self._last_words = True
        if self._sends:
            await asyncio.wait(self._sends, timeout=LEAVE_TIMEOUT_S)
        for task in self._sends:
            task.cancel()
        await asyncio.gather(*self._sends, return_exceptions=True)

    # -- carrying out ----------------------------------------------------------------------------

    def handle(self, event: e.Event, now_s: float) -> None:
        due_s = self.state.next_due_s
        sender = event.to if isinstance(event, e.Replied) else ""
        self.perform(self.state.handle(event, now_s), sender)
        if self.state.next_due_s < due_s:
            self._ticking.start()

    def perform(self, actions: Sequence[e.Action], sender: str = "") -> None:
        for action in actions:
            match action:
                case e.Send():
                    self._start_send(action)
                case e.Broadcast():
                    for send in sends(self.state.table, action):
                        self._start_send(send)
                case e.SaveIncarnation():
                    self.kept.keep_incarnation(action.incarnation)
                case e.SaveDrained():
                    self.kept.keep_drained(action.drained)
                case e.SaveLasting():
                    self.kept.keep_settings(action.settings)
                case e.Configure():
                    self.sampler.config = action.in_force.load
                case e.Log():
                    LINES.say(action, time.monotonic(), sender)
                case e.Stop():
                    self._died(action.reason)
                case e.Reply():
                    raise AssertionError("a reply without a request")

    def _start_send(self, send: e.Send) -> None:
        if self._last_words:
            return
        if self._in_flight[send.target] >= IN_FLIGHT_MAX:
            self.undelivered["too many in flight"] += 1
            return
        self._in_flight[send.target] += 1
        task = asyncio.get_running_loop().create_task(self._send(send), name=f"to {send.to}")
        self._sends.add(task)
        task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sends.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._died(f"a message {task.get_name()}: {problem!r}")

    async def _send(self, send: e.Send) -> None:
        try:
            reply = await self.ask(send.to, send.target, send.body, send.timeout_s)
            self.handle(e.Replied(send.to, send.body, reply), time.monotonic())
        except Exception as problem:  # no answer of another host ends this LIM
            self.undelivered[type(send.body).__name__] += 1
            say_undelivered(send, problem)
            skewed = isinstance(problem, Incompatible)
            self.handle(e.Undelivered(send.to, send.body, str(problem), skewed), time.monotonic())
        finally:
            self._in_flight[send.target] -= 1
            if not self._in_flight[send.target]:
                del self._in_flight[send.target]

    async def ask(self, name: str, target: str, body: m.Body, timeout_s: float) -> m.Message:
        """Raises Unavailable or PeerError."""
        if self.network is None:
            raise Unavailable("this host has no certificate and stands alone")
        return await self.network.ask(name, target, self.state.envelope(body), timeout_s)

    # -- messages from other LIMs ----------------------------------------------------------------

    def answer(self, message: m.Message) -> m.Message:
        """Returns the reply to another LIM's message, and carries out all other actions."""
        due_s = self.state.next_due_s
        actions = self.state.handle(e.Received(message), time.monotonic())
        reply: m.Body = next(one.body for one in actions if isinstance(one, e.Reply))
        rest = [one for one in actions if not isinstance(one, e.Reply)]
        self.perform(rest, message.sender)
        if self.state.next_due_s < due_s:
            self._ticking.start()
        if isinstance(message.body, m.Ping):
            reply = answer_to_ping(self.state)
        return self.state.envelope(reply)

    def skewed(self, host: str, why: str) -> None:
        """A host whose release does not understand ours has called, and was refused."""
        self.handle(e.Skewed(HostId(host), why), time.monotonic())

    # -- commands --------------------------------------------------------------------------------

    async def place(self, request: PlacementRequest, dry: bool) -> Decision:
        """Returns where the command should run; within `probe_timeout_s`, whatever other hosts
        do."""
        placer, now_s = self.state.placer, time.monotonic()
        deadline_s = now_s + self.state.in_force.lim.probe_timeout_s
        replies: tuple[Reply, ...] = ()
        while True:
            step = placer.next_step(request, replies, now_s, dry)
            if isinstance(step, Nowhere) and await more_is_known(self.state):
                return await self.place(request, dry)
            if isinstance(step, Placement | Nowhere):
                return placer.settle(request, step, now_s, dry)
            replies += await self._carry_out(step, request, deadline_s - time.monotonic(), dry)
            now_s = time.monotonic()

    async def _carry_out(
        self, step: Probe | Ask, request: PlacementRequest, left_s: float, dry: bool
    ) -> tuple[Reply, ...]:
        placer = self.state.placer
        if isinstance(step, Ask):
            sample = self.state.own_sample(time.monotonic())
            question = placer.question(request, sample, dry)
            body = await self._ask_host(step.centre, question, left_s)
            return (placer.answered(request, step.centre, body, time.monotonic()),)
        wait_s = left_s * step.time_share
        bodies = await asyncio.gather(
            *(self._ask_host(host, m.Probe(), wait_s) for host in step.hosts)
        )
        now_s = time.monotonic()
        return tuple(
            placer.probed(host, body, now_s) for host, body in zip(step.hosts, bodies, strict=True)
        )

    async def _ask_host(self, host: HostId, body: m.Body, timeout_s: float) -> m.Body | None:
        """Returns None if no valid answer came in time."""
        entry = self.state.table.entries.get(host)
        if entry is None or timeout_s <= 0:
            return None
        try:
            reply = await self.ask(host, entry.member.lim_target, body, timeout_s)
        except (Unavailable, PeerError) as problem:
            log.debug("no answer: %s", problem)
            self.undelivered[type(body).__name__] += 1
            return None
        if isinstance(reply.body, m.Ack) and reply.body.unknown_sender:
            self.handle(e.Replied(host, body, reply), time.monotonic())
        return reply.body

    # -- reports from this host's LBM ------------------------------------------------------------

    def job_started(self, job: JobId, host: HostId, root: Root) -> None:
        self.handle(e.JobStarted(job, host), time.monotonic())
        if host == self.state.me and isinstance(self.sampler.scope, JobsScope):
            self.sampler.scope.add(job, root)

    def job_ended(self, job: JobId) -> None:
        self.handle(e.JobEnded(job), time.monotonic())
        if isinstance(self.sampler.scope, JobsScope):
            self.sampler.scope.remove(job)

    def lbm_is(self, status: e.LbmStatus, pids: set[int]) -> None:
        """`pids`: the LBM and its keeper, which do not count as load of this host."""
        self.own_pids = {os.getpid(), *pids}
        self.handle(status, time.monotonic())


class Loop:
    """Calls `body` repeatedly; `body` returns the seconds until the next call.

    It is a timer of the event loop rather than a sleeping task: at ten calls a second that saves a
    tenth of a per cent of a core. If `body` fails, `died` is called with the loop's name.
    """

    def __init__(self, name: str, body: Callable[[], float], died: Callable[[str], None]) -> None:
        self._name = name
        self._body = body
        self._died = died
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Makes the next run start as soon as possible."""
        self.cancel()
        self._timer = asyncio.get_running_loop().call_later(0, self._turn)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self) -> None:
        try:
            pause_s = self._body()
        except Exception as problem:
            self._died(f"the {self._name} loop died: {problem!r}")
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, pause_s), self._turn)


def state_of(config: Config, identity: Identity, now_s: float) -> LimState:
    base, seed = InForce(config.lim, config.load, config.log), int.from_bytes(os.urandom(8))
    if not config.lim.history_bytes:
        return LimState(identity, base, Random(seed), now_s)
    from lbd.lim.core.history import RecordedState
    from lbd.lim.history_file import HistoryFile

    history = HistoryFile(Path(config.host.state_dir), config.lim.history_bytes)
    return RecordedState(identity, base, seed, now_s, history.write)


async def more_is_known(state: LimState) -> bool:
    """Waits a moment and returns True; False at once unless a host is expected that we have not
    heard from since our start."""
    if not awaits_news(state.membership, state.table, time.monotonic()):
        return False
    await asyncio.sleep(LOOK_AGAIN_S)
    return True


def say_undelivered(send: e.Send, problem: Exception) -> None:
    if isinstance(problem, Unavailable | PeerError):
        log.debug("not delivered: %s", problem)
    else:
        log.warning("the answer of %s is left aside: %r", send.to or send.target, problem)


def answer_to_ping(state: LimState) -> m.Ack:
    return m.Ack(
        unix_time_s=time.time(), version=__version__, algorithm=state.in_force.lim.algorithm,
        settings_version=state.settings.version, policy_version=policy_version(state.settings),
    )  # fmt: skip


def make_dir(path: Path) -> Path:
    """Raises LbdError if the directory cannot be created or written."""
    try:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as problem:
        raise not_writable(STATE, path, problem) from problem
    if not os.access(path, os.W_OK | os.X_OK):
        raise ConfigError(f"host.state_dir {path}: cannot be written by this user")
    return path
