"""The owner's rules in force on this host, with the state of the host that they depend on."""

import functools
import grp
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lbd.config.reload import changed_names, reloaded
from lbd.config.schema import Config
from lbd.errors import ConfigError
from lbd.keeper.local_account import Asker, LocalUser, Refuse
from lbd.lbm.core.admission import Conditions, Guest, Rules, WeekHours
from lbd.lbm.owner.accounts import LookUps
from lbd.load.memory import own_memory, own_pressure
from lbd.process.boot_clock import time_of_day
from lbd.text.windows import Moment

if TYPE_CHECKING:
    from lbd.model import Closed, Facts, HostId

log = logging.getLogger("lbd.lbm")

PRESSURE_KNOWN_S = 1.0
LATER_S = 7 * 86_400.0  # the wait if the rules allow it later than the search looks ahead
BEYOND_MIN = 32  # the commands of a pipeline wait for each other, even on a host of one slot


class InForce:
    """The rules; the LBM keeps `load` and `owner` up to date."""

    def __init__(self, config: Config, reread: Callable[[], Config]) -> None:
        self._reread = reread
        self._groups: LookUps[LocalUser, frozenset[str]] = LookUps(groups_of)
        self.config = config
        self.rules = Rules(config.admission)
        self.load = 0.0
        own_group = config.load.scope != "host"
        self._pressure, self._memory = own_pressure(own_group), own_memory(own_group)
        self._memory_seen = 0.0, 0.0  # pressure, share of free memory
        self._memory_seen_s = 0.0
        self.owner = ""  # what shows that the owner is here
        self.owner_state = ""  # "here", "away", or "": not watched
        # From the LIM: for all hosts, whether the owner is away; whether another host has room;
        # free slots; and the other resources of those hosts, while a job here needs any
        self.cluster: tuple[
            Mapping[HostId, bool], bool, Mapping[HostId, int], Mapping[HostId, Facts]
        ] = {}, False, {}, {}

    def reload(self) -> list[str]:
        """Reads the settings of `config.reload.RELOADED` again from lbd.toml; keeps the old ones if
        it is wrong. Returns the others that differ there from those this LBM was started with.
        Raises ConfigError."""
        try:
            found = self._reread()
        except ConfigError as problem:
            log.warning("the owner's rules are not changed: %s", problem)
            raise
        before, self.config = self.config, reloaded(self.config, found)
        self.rules = Rules(found.admission)
        changed = ", ".join(changed_names(before, self.config)) or "nothing has changed"
        later = list(changed_names(self.config, found))
        needs = f"; needs a restart: {', '.join(later)}" if later else ""
        log.info("reloaded the owner's rules: %s%s", changed, needs)
        return later

    @property
    def decides(self) -> bool:
        """Whether the LBM decides between moving and waiting."""
        admission = self.config.admission
        is_watched = bool(admission.owner_idle_s or admission.owner_load)
        return is_watched and admission.owner_is_back == "decide"

    def load_is(self, index: object) -> None:
        """Notes the load that the LIM reports."""
        if isinstance(index, float):
            self.load = index

    async def refusal(self, asker: Asker, account: LocalUser | None, origin: str) -> Refuse | None:
        """`account`: as whom the command would run; None: as the keeper's own user."""
        user, groups = asker.user, frozenset[str]()
        admission = self.config.admission
        if account is not None:
            user = account.name
            if admission.groups or admission.deny_groups:
                groups = await self._groups.look_up(account, origin) or groups
        guest, conditions = Guest(user, groups, origin), self._conditions()
        reason = self.rules.refusal(guest, conditions)
        if not reason:
            return None
        if not self.rules.until_everybody(guest, conditions):
            return Refuse(reason)
        opens_s = opens(self.rules.everybody)
        return Refuse(reason, wait_s=max(1.0, opens_s - time.time()) if opens_s else LATER_S)

    def allow(self, asker: Asker, account: LocalUser | None, origin: str) -> bool:
        """Whether `refusal` would be None, as far as the account's groups need not be asked for."""
        if self.config.admission.groups or self.config.admission.deny_groups:
            return False
        guest = Guest(asker.user if account is None else account.name, frozenset(), origin)
        return not self.rules.refusal(guest, self._conditions())

    def closed(self) -> "tuple[Closed | None, str]":
        """Why nobody's commands are accepted now; (None, "") if some are."""
        return self.rules.closed(self._conditions())

    def opens(self) -> float:
        """When the hours of `when` begin (UNIX seconds); 0: they hold now, or not for days."""
        return opens(self.rules.hours)

    def opens_text(self) -> str:
        """Like `opens`, for people; "" = not known."""
        return opens_text(self.rules.hours)

    def slots(self, total: int) -> tuple[int, int]:
        """The slots, and how many commands may run beyond them. `total`: from lbm.slots."""
        if self.config.admission.slots:  # the owner's limit overrides all others
            return min(self.config.admission.slots, total), 0
        return total, self.config.lbm.beyond_slots or max(total, BEYOND_MIN)

    def _conditions(self) -> Conditions:
        minute, memory = int(time.time() // 60), self._memory_conditions()
        return conditions(self.rules, minute, self.load, self.owner, memory)

    def _memory_conditions(self) -> tuple[float, float]:
        """Cached, because the kernel changes the pressure only every two seconds."""
        now_s = time.monotonic()
        if now_s - self._memory_seen_s > PRESSURE_KNOWN_S:
            percent = self._pressure.read() if self.config.admission.memory_pressure else 0.0
            total, available = self._memory.read() if percent else (0, 0)
            self._memory_seen = percent, available / total if total else 0.0
            self._memory_seen_s = now_s
        return self._memory_seen


def opens(hours: WeekHours) -> float:
    """When the hours begin (UNIX seconds); 0: they hold now, or do not begin in the next days."""
    return 60.0 * hours.opens(int(time.time() // 60), moment_of)


def opens_text(hours: WeekHours) -> str:
    """Like `opens`, for people; "" = not known."""
    opens_s = opens(hours) if hours else 0.0
    return time_of_day(opens_s) if opens_s else ""


def moment_of(unix_minutes: int) -> Moment:
    """Returns the moment in local time."""
    now = time.localtime(60 * unix_minutes)
    return Moment(now.tm_min, now.tm_hour, now.tm_mday, now.tm_mon, now.tm_wday)


@functools.lru_cache(maxsize=1)  # each command asks, and they change with the minute at most
def conditions(
    rules: Rules, minute: int, load: float, owner: str, memory: tuple[float, float]
) -> Conditions:
    when, everybody = opens_text(rules.hours), opens_text(rules.everybody)
    return Conditions(moment_of(minute), load, owner, *memory, when, everybody)


def groups_of(account: LocalUser) -> frozenset[str]:
    """The account's groups that have a name. Asks the user database, which may be slow (LDAP)."""
    return frozenset(filter(None, map(group_name, account.groups)))


def group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""
