"""What all commands of other hosts share on this one, and who of them is let in."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lbd.budget import Budget
from lbd.config import Config
from lbd.lbm.in_force import InForce
from lbd.lbm.link import KeeperLink
from lbd.lbm.stages import Stages
from lbd.lbm.state import Jobs, Slots
from lbd.lbm.submitted import Submitted
from lbd.lbm.users import Admit, Asker, LocalUser, Refuse, identify, wanted_account
from lbd.model import JobId
from lbd.rates import Rates

if TYPE_CHECKING:
    from lbd.lbm.agent import ForeignJob
    from lbd.lbm.incoming import Incoming

UserLookup = Callable[[str | int], Awaitable[LocalUser | None]]


@dataclass(slots=True)
class Host:
    """What the foreign jobs of this host share."""

    config: Config
    rules: InForce
    link: KeeperLink
    slots: Slots
    jobs: Jobs
    look_up_user: UserLookup
    changed: Callable[[], None]  # slots or jobs changed: tell the LIM
    job_began: Callable[[JobId, int, str], None]
    job_ended: Callable[[JobId], None]
    stages: Stages
    # a file that is there as long as the owner wants no new jobs; the LIM's doing
    drained_mark: str
    slot_events: dict[JobId, asyncio.Event] = field(default_factory=dict)
    # ends it for another host, if that can be
    evictable: dict[JobId, Callable[[], bool]] = field(default_factory=dict)
    # those that have had TERM, or are to have it
    ending: "dict[JobId, ForeignJob]" = field(default_factory=dict)
    # by origin and its name for the stream
    incoming: "dict[tuple[str, str], Incoming]" = field(default_factory=dict)
    submitted: Submitted = field(default_factory=Submitted)
    leaving: bool = False  # another LBM is to follow
    rates: Rates = field(init=False)  # of the commands of each host
    requests: Budget = field(init=False)  # bytes that are held of each host's

    def __post_init__(self) -> None:
        rate = self.config.lbm.max_rate
        self.rates = Rates(rate, 2 * rate)
        lbm = self.config.lbm
        self.requests = Budget(lbm.host_request_bytes, lbm.hosts_request_bytes)

    async def admit(self, user: str, uid: int, origin: str) -> Admit | Refuse:
        """May who is `user` there run commands here, and as whom?"""
        if os.path.exists(self.drained_mark):
            return Refuse("drained")
        users, asker = self.config.users, Asker(user, uid)
        local = await self.look_up_user(wanted_account(users, asker))
        if local is None and users.unknown:
            local = await self.look_up_user(users.unknown)
        found = identify(users, asker, local, self.link.uid)
        if isinstance(found, Admit) and (reason := self.rules.refusal(asker, found.run_as, origin)):
            return Refuse(reason)
        return found
