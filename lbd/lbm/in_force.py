"""The owner's rules as they are in force on this host, with what they ask of it."""

import grp
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from lbd.config import Config
from lbd.errors import ConfigError
from lbd.lbm.admission import Conditions, Guest, Rules
from lbd.lbm.users import Asker, LocalUser
from lbd.windows import Moment

log = logging.getLogger("lbd.lbm")

GROUPS_KNOWN_S = 60.0
GROUPS_KNOWN = 1024
BEYOND_MIN = 32  # the commands of a pipeline wait for each other, also on a host of one slot


class InForce:
    """`load` and `owner` are kept up to date by the LBM."""

    def __init__(self, config: Config, reread: Callable[[], Config]) -> None:
        self._reread = reread
        self._groups: dict[LocalUser, tuple[frozenset[str], float]] = {}
        self.config = config
        self.rules = Rules(config.admission)
        self.load = 0.0
        self.owner = ""

    def reload(self) -> None:
        """What lbd.toml says now of [admission] and [limits]; as before if it is wrong.

        Raises ConfigError.
        """
        try:
            found = self._reread()
        except ConfigError as problem:
            log.warning("the rules stay as they were: %s", problem)
            raise
        self.config = replace(self.config, admission=found.admission, limits=found.limits)
        self.rules = Rules(found.admission)
        log.info("the owner's rules were read again")

    def load_is(self, index: object) -> None:
        """As the LIM says."""
        if isinstance(index, float):
            self.load = index

    def refusal(self, asker: Asker, account: LocalUser | None, origin: str) -> str:
        """`account`: whom the command would run as; None: the keeper's own user."""
        user = account.name if account is not None else asker.user
        guest = Guest(user, self._groups_of(account), origin)
        return self.rules.refusal(guest, self._conditions())

    def closed(self) -> str:
        """Why nobody's commands are taken now, or ""."""
        return self.rules.closed(self._conditions())

    def slots(self, total: int) -> tuple[int, int]:
        """And how many commands may run beyond them. `total`: as lbm.slots has it."""
        if self.config.admission.slots:  # the owner's word: nobody overrules it
            return min(self.config.admission.slots, total), 0
        return total, self.config.lbm.beyond_slots or max(total, BEYOND_MIN)

    def _conditions(self) -> Conditions:
        now = time.localtime()
        moment = Moment(now.tm_min, now.tm_hour, now.tm_mday, now.tm_mon, now.tm_wday)
        return Conditions(moment, self.load, self.owner)

    def _groups_of(self, account: LocalUser | None) -> frozenset[str]:
        admission = self.config.admission
        if account is None or not (admission.groups or admission.deny_groups):
            return frozenset()
        known, until_s = self._groups.get(account, (frozenset(), 0.0))
        if time.monotonic() >= until_s:
            if len(self._groups) >= GROUPS_KNOWN:
                self._groups.clear()
            known = frozenset(filter(None, map(group_name, account.groups)))
            self._groups[account] = known, time.monotonic() + GROUPS_KNOWN_S
        return known


def group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""
