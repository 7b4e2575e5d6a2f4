"""What all commands of this host's users share."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from lbd.config.schema import Config
from lbd.lbm.core.environment import DenyList
from lbd.lbm.core.jobs import Job, Jobs, LocalCap
from lbd.lbm.core.journey_events import NeedsTaken
from lbd.lbm.core.next_host_after_refusal import Unshared
from lbd.lbm.core.slots import Grant
from lbd.lbm.learnt_file import Eligibility
from lbd.lbm.link.opened_links import PeerLinks
from lbd.lbm.link.user_threads import UserThreads
from lbd.lbm.link.window import budget_of_windows
from lbd.lbm.outbound.directory import Looker
from lbd.lbm.outbound.lim import LimNotes, LimQuestions
from lbd.lbm.owner.rules import InForce
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.lbm.session.cluster import Cluster, rates_of_users
from lbd.lbm.session.peer_process import PeerProcess
from lbd.lbm.staging.queued_files import QueuedFiles
from lbd.lbm.usage.log import UsageLog
from lbd.local.budget import Budget, BudgetOfRequests
from lbd.local.json_client import JsonClient
from lbd.local.long_answers import LongAnswers
from lbd.local.rate_limit import Rates
from lbd.model import HostId, JobId, Needs
from lbd.net.gen import lbm_pb2
from lbd.net.peers import Peers

SAID_AGAIN_S = 60.0  # for messages that are the same for each command of a build


class GrantsNeeds(Protocol):
    """The resources of this host that commands running on it hold."""

    def take(self, job: JobId, needs: Needs, holder: PeerProcess) -> NeedsTaken: ...
    def hold(self, job: JobId, grant: Grant) -> None: ...
    def free(self, job: JobId) -> None: ...
    def take_up(self) -> None: ...
    def leave(self) -> None: ...


class Underway(Protocol):
    """A command on its way out, for code that has only its name."""

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
    looker: Looker
    unshared: Unshared
    denied: DenyList
    usage: UsageLog
    rules: InForce
    own_needs: GrantsNeeds
    queue: DispatcherClient | None = None  # None without a key
    files: QueuedFiles | None = None  # likewise
    commands: dict[JobId, Underway] = field(default_factory=dict)  # until they end or stay here
    # processes that became commands
    staying: dict[JobId, PeerProcess] = field(default_factory=dict)
    long_answers: LongAnswers = field(default_factory=LongAnswers)
    rates: Rates = field(init=False)  # rate of each user's commands and questions
    long_requests: Budget = field(init=False)  # bytes of each user's requests
    windows: Budget = field(default_factory=budget_of_windows)  # of output, of each user
    lim_questions: LimQuestions = field(init=False)
    host_rates: Rates = field(default_factory=rates_of_users)  # of questions to other hosts
    told: Rates = field(default_factory=lambda: Rates(1 / SAID_AGAIN_S, 1))

    @property
    def threads(self) -> UserThreads:
        return self.looker.threads

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.config, self.lim, self.peers, self.host_rates)

    def __post_init__(self) -> None:
        own = HostId(self.config.host.name)
        self.lim_questions = LimQuestions(self.lim, self.notes, own)
        rate = self.config.lbm.max_rate
        self.rates = Rates(rate, 2 * rate)
        lbm = self.config.lbm
        self.long_requests = BudgetOfRequests(lbm.user_request_bytes, lbm.users_request_bytes)

    def is_no_less_busy(self, started: lbm_pb2.Started) -> bool:
        """Whether the host where it has begun was at least as busy as ours: a wrong transfer."""
        return started.HasField("index") and started.index >= self.rules.load

    def is_news(self, uid: int, group: int, text: str, now_s: float) -> bool:
        """Whether none of the user's processes of this group has been told that within a minute."""
        return self.told.turn_s((uid, group, text), now_s, 0.0) is not None
