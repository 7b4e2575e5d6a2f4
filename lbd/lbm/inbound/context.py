"""What all commands of other hosts share on this host, and who is admitted."""

import os
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field, replace

from lbd.config.schema import Config
from lbd.keeper.local_account import Admit, Asker, LocalUser, Refuse, identify, wanted_account
from lbd.lbm.core.jobs import Jobs
from lbd.lbm.core.slots import Slots
from lbd.lbm.inbound.executions import Executions
from lbd.lbm.inbound.submitted import Submitted
from lbd.lbm.keeper_link import KeeperLink
from lbd.lbm.link.user_threads import UserThreads
from lbd.lbm.link.window import budget_of_windows
from lbd.lbm.owner.rules import InForce
from lbd.lbm.staging.workdirs import Workdirs
from lbd.local.budget import Budget
from lbd.local.rate_limit import Rates
from lbd.model import Closed, JobId
from lbd.text.closed_words import WORDS

# Phases of a refused attempt: because of that, and because not everybody may run at this hour
DRAINED, NOT_YET = "drained", "not-yet"
# Looks up an account, for an asker: a user or another host
UserLookup = Callable[[str | int, Hashable], Awaitable[LocalUser | None]]
KnownUser = Callable[[str | int], tuple[LocalUser | None] | None]  # None: it must be looked up


@dataclass(slots=True)
class InboundContext:
    """What the foreign jobs of this host share."""

    config: Config
    rules: InForce
    link: KeeperLink
    slots: Slots
    jobs: Jobs
    look_up_user: UserLookup
    known_user: KnownUser
    changed: Callable[[], None]  # slots or jobs changed: notify the LIM
    job_began: Callable[[JobId, int, str], None]
    job_ended: Callable[[JobId, float], None]  # CPU seconds used
    workdirs: Workdirs
    threads: UserThreads
    # a file that exists while the owner wants no new jobs; the LIM maintains it
    drained_mark: str
    # by whom, since when and why, once the LIM has reported it
    why_drained: str = WORDS[Closed.DRAINED]
    submitted: Submitted = field(default_factory=Submitted)
    executions: Executions = field(init=False)
    rates: Rates = field(init=False)  # rate of commands of each host
    requests: Budget = field(init=False)  # bytes held for each host's requests
    windows: Budget = field(default_factory=budget_of_windows)  # of input, of each host

    def __post_init__(self) -> None:
        rate = self.config.lbm.max_rate
        self.rates = Rates(rate, 2 * rate)
        self.executions = Executions(self.slots)
        lbm = self.config.lbm
        self.requests = Budget(lbm.host_request_bytes, lbm.hosts_request_bytes)

    def phase_of(self, refused: Refuse) -> str:
        """Whether the refusal holds now for all, now for these users, or for good."""
        if refused.is_drained or refused.reason == self.rules.closed()[1]:
            return DRAINED
        return NOT_YET if refused.wait_s else "admission"

    def admit_at_once(self, user: str, uid: int, origin: str) -> Admit | None:
        """Admits whom `admit` would, if the user database need not be asked for that."""
        users, asker = self.config.users, Asker(user, uid)
        known = self.known_user(wanted_account(users, asker))
        if known is None or known[0] is None or os.access(self.drained_mark, os.F_OK):
            return None
        found = identify(users, asker, known[0], self.link.uid)
        if isinstance(found, Admit) and self.rules.allow(asker, found.run_as, origin):
            return found
        return None

    async def admit(self, user: str, uid: int, origin: str) -> Admit | Refuse:
        """Decides whether `user` of that host may run commands here, and as whom."""
        if os.access(self.drained_mark, os.F_OK):
            return Refuse(self.why_drained, is_drained=True)
        users, asker = self.config.users, Asker(user, uid)
        local = await self.look_up_user(wanted_account(users, asker), origin)
        if local is None and users.unknown:
            local = await self.look_up_user(users.unknown, origin)
        found = identify(users, asker, local, self.link.uid)
        if isinstance(found, Admit):
            refused = await self.rules.refusal(asker, found.run_as, origin)
            return found if refused is None else replace(refused, then=found)
        return found
