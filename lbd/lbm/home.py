"""What all commands of this host's users share, and where one of them may go."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lbd.budget import Budget
from lbd.config import Config
from lbd.errors import Unavailable
from lbd.lbm.caller import PeerProcess
from lbd.lbm.directory import Looker
from lbd.lbm.eligible import Eligibility
from lbd.lbm.environment import DenyList
from lbd.lbm.in_force import InForce
from lbd.lbm.notes import LimNotes
from lbd.lbm.peer_streams import PeerStreams
from lbd.lbm.queue_client import QueueClient
from lbd.lbm.queued_files import QueuedFiles
from lbd.lbm.room import Room
from lbd.lbm.state import Jobs, LocalCap
from lbd.lbm.unshared import Unshared
from lbd.lbm.usage_log import UsageLog
from lbd.lbm.user_threads import UserThreads
from lbd.lbm.wide import Wide
from lbd.model import HostId, JobId
from lbd.rates import Rates
from lbd.rpc.gen import lbm_pb2
from lbd.rpc.local import Json, JsonClient
from lbd.rpc.long_answers import LongAnswers
from lbd.rpc.transport import Peers

if TYPE_CHECKING:
    from lbd.lbm.origin import Command

ASK_TIMEOUT_S = 1.0
LIM_REST_S = 5.0  # a LIM that did not answer is not asked again for this long
ADDRESS_KEPT_S = 5.0


@dataclass(slots=True)
class Home:
    """What all commands of this host's users share."""

    config: Config
    lim: JsonClient
    notes: LimNotes
    peers: Peers | None
    streams: PeerStreams | None
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
    queue: QueueClient | None = None  # without a key there is none
    files: QueuedFiles | None = None  # likewise
    lim_rests_until_s: float = 0.0
    commands: "dict[JobId, Command]" = field(default_factory=dict)  # until they end or stay here
    # Where the LIM said that hosts' LBMs are, and until when that needs no asking.
    addresses: dict[HostId, tuple[str, float]] = field(default_factory=dict)
    long_answers: LongAnswers = field(default_factory=LongAnswers)
    rates: Rates = field(init=False)  # of the commands and questions of each user
    long_requests: Budget = field(init=False)  # bytes of each user's

    @property
    def threads(self) -> UserThreads:
        return self.looker.threads

    def __post_init__(self) -> None:
        rate = self.config.lbm.max_rate
        self.rates = Rates(rate, 2 * rate)
        lbm = self.config.lbm
        self.long_requests = Budget(lbm.user_request_bytes, lbm.users_request_bytes)

    def is_no_less_busy(self, started: lbm_pb2.Started) -> bool:
        """Was the host where a command has begun at least as busy as ours? A wrong transfer."""
        return started.HasField("index") and started.index >= self.rules.load

    async def ask_lim(self, wide: Wide, question: Json, must: bool) -> Json:
        """Where a command is to go. `must`: nothing else will do, so the LIM is asked again even if
        it did not answer a moment ago. Raises Unavailable and Refusal."""
        if not must and time.monotonic() < self.lim_rests_until_s:
            raise Unavailable("lim has not answered lately")
        try:
            answer = await wide.ask(self.lim, question, ASK_TIMEOUT_S)
        except Unavailable:
            if self.lim.connected:
                self.lim_rests_until_s = time.monotonic() + LIM_REST_S
            raise
        self.lim_rests_until_s = 0.0
        return answer

    def is_at(self, host: HostId, address: str) -> None:
        self.addresses[host] = address, time.monotonic() + ADDRESS_KEPT_S

    def known_address(self, host: HostId) -> str:
        """Where its LBM is: what the LIM said lately, or said last while it does not answer."""
        address, until_s = self.addresses.get(host, ("", 0.0))
        now_s = time.monotonic()
        lately = self.lim.connected and now_s < until_s
        return address if lately or now_s < self.lim_rests_until_s else ""


@dataclass(frozen=True, slots=True)
class Where:
    """The LIM's answer, or ours in its place."""

    verdict: str  # here | there | wait
    host: HostId
    address: str
    reason: str

    @classmethod
    def told(cls, answer: Json, left_out: str) -> "Where":
        """By the LIM. `left_out`: what it was told to leave out, "" = nothing to speak of."""
        return cls(
            str(answer["verdict"]),
            HostId(str(answer["host"])),
            str(answer.get("address") or ""),
            "; ".join(filter(None, (str(answer["reason"]), left_out))),
        )
