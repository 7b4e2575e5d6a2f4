"""What all commands of this host's users share."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from lbd.config.schema import Config
from lbd.errors import Unavailable
from lbd.lbm.core.environment import DenyList
from lbd.lbm.core.jobs import Job, Jobs, LocalCap
from lbd.lbm.core.journey_events import NeedsTaken
from lbd.lbm.core.next_host_after_refusal import Unshared
from lbd.lbm.core.slots import Grant
from lbd.lbm.learnt_file import Eligibility
from lbd.lbm.link.opened_links import PeerLinks
from lbd.lbm.link.user_threads import UserThreads
from lbd.lbm.outbound.directory import Looker
from lbd.lbm.outbound.lim_notices import LimNotes
from lbd.lbm.owner.rules import InForce
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.lbm.session.cluster import Cluster
from lbd.lbm.session.peer_process import PeerProcess
from lbd.lbm.staging.queued_files import QueuedFiles
from lbd.lbm.usage.log import UsageLog
from lbd.local.budget import Budget, BudgetOfRequests
from lbd.local.json_socket import Json, JsonClient
from lbd.local.long_answers import LongAnswers
from lbd.local.rate_limit import Rates
from lbd.local.starting import LOOK_S, returns
from lbd.model import HostId, JobId, Needs
from lbd.net.gen import lbm_pb2
from lbd.net.transport import Peers

ASK_TIMEOUT_S = 1.0
HELD_TIMEOUT_S = 3.0  # a LIM that has just started says no only when it has heard of the others
LIM_REST_S = 5.0  # a LIM that did not answer is not asked again for this long
HEARD_S = 3.0  # it is told of our jobs every second
ADDRESS_KEPT_S = 5.0
SAID_AGAIN_S = 60.0  # of what is the same for each command of a build


class GrantsNeeds(Protocol):
    """What commands have of this host that run on it."""

    def take(self, job: JobId, needs: Needs, holder: PeerProcess) -> NeedsTaken: ...
    def hold(self, job: JobId, grant: Grant) -> None: ...
    def free(self, job: JobId) -> None: ...
    def take_up(self) -> None: ...
    def leave(self) -> None: ...


class Underway(Protocol):
    """A command that is on its way out, for who has only its name."""

    @property
    def job(self) -> Job: ...
    @property
    def why_waiting(self) -> str: ...
    def signal(self, number: int) -> None: ...
    def force(self) -> None: ...


@dataclass(slots=True)
class Room:
    """Commands waiting for room somewhere, longest first; woken one by one as jobs end."""

    waiting: "deque[asyncio.Future[None]]" = field(default_factory=deque)

    def made(self) -> None:
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def wait(self, limit_s: float) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(waiter)
        try:
            async with asyncio.timeout(limit_s):
                await waiter
        except TimeoutError:
            pass
        finally:
            if waiter in self.waiting:
                self.waiting.remove(waiter)


@dataclass(slots=True)
class OutboundContext:
    """What all commands of this host's users share."""

    config: Config
    lim: JsonClient
    notes: LimNotes
    peers: Peers | None
    streams: PeerLinks | None
    jobs: Jobs
    cap: LocalCap
    eligible: Eligibility
    room: Room
    new_id: Callable[[], JobId]
    is_leader: Callable[[PeerProcess], bool]  # is this process the very command of a placed job?
    looker: Looker
    unshared: Unshared
    denied: DenyList
    usage: UsageLog
    rules: InForce
    own_needs: GrantsNeeds
    queue: DispatcherClient | None = None  # without a key there is none
    files: QueuedFiles | None = None  # likewise
    lim_rests_until_s: float = 0.0
    lim_heard_s: float = -math.inf
    commands: dict[JobId, Underway] = field(default_factory=dict)  # until they end or stay here
    staying: dict[JobId, PeerProcess] = field(default_factory=dict)  # what has become a command
    # Where the LIM said that hosts' LBMs are, and until when that needs no asking.
    addresses: dict[HostId, tuple[str, float]] = field(default_factory=dict)
    long_answers: LongAnswers = field(default_factory=LongAnswers)
    rates: Rates = field(init=False)  # of the commands and questions of each user
    long_requests: Budget = field(init=False)  # bytes of each user's
    told: Rates = field(default_factory=lambda: Rates(1 / SAID_AGAIN_S, 1))

    @property
    def threads(self) -> UserThreads:
        return self.looker.threads

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.config, self.lim, self.peers)

    def __post_init__(self) -> None:
        rate = self.config.lbm.max_rate
        self.rates = Rates(rate, 2 * rate)
        lbm = self.config.lbm
        self.long_requests = BudgetOfRequests(lbm.user_request_bytes, lbm.users_request_bytes)

    def is_no_less_busy(self, started: lbm_pb2.Started) -> bool:
        """Was the host where a command has begun at least as busy as ours? A wrong transfer."""
        return started.HasField("index") and started.index >= self.rules.load

    def is_news(self, uid: int, group: int, text: str, now_s: float) -> bool:
        """Has none of the user's processes of this group been told that within a minute?"""
        return self.told.turn_s((uid, group, text), now_s, 0.0) is not None

    async def ask_lim(self, question: Json, must: bool, *, may_be_no: bool) -> Json:
        """About where a command is to go. `must`: nothing else will do, so the LIM is asked even if
        it did not answer a moment ago. `may_be_no`: it may say that there is no host for it. Raises
        Unavailable and Refusal."""
        timeout_s = HELD_TIMEOUT_S if may_be_no else ASK_TIMEOUT_S
        if not must and time.monotonic() < self.lim_rests_until_s:
            raise Unavailable(f"lim did not answer within {ASK_TIMEOUT_S:g} s")
        await self._lim_returns(must)
        try:
            answer = await self.lim.call(question, timeout_s)
        except Unavailable:
            if self.lim.connected:
                self.lim_rests_until_s = time.monotonic() + LIM_REST_S
            elif await self._lim_returns(must):
                return await self.lim.call(question, timeout_s)
            raise
        self.lim_rests_until_s = 0.0
        return answer

    async def _lim_returns(self, must: bool) -> bool:
        """Waits for one that is being restarted, or, if it `must`, has ended just now: mostly
        another follows. Whether it is back then."""
        while not self.lim.connected:
            is_new = time.monotonic() - self.lim_heard_s < HEARD_S
            if not (returns(str(self.lim.path)) or (must and is_new)):
                return False
            await asyncio.sleep(LOOK_S)
        return True

    def is_at(self, host: HostId, address: str) -> None:
        self.addresses[host] = address, time.monotonic() + ADDRESS_KEPT_S

    def known_address(self, host: HostId | None) -> str:
        """Where its LBM is: what the LIM said lately, or said last while it does not answer."""
        if host is None:
            return ""
        address, until_s = self.addresses.get(host, ("", 0.0))
        now_s = time.monotonic()
        lately = self.lim.connected and now_s < until_s
        return address if lately or now_s < self.lim_rests_until_s else ""
