"""The owner's rules: may a foreign command run on this host now? Pure.

Who, from where and when is decided here; which program, where that is known for sure: in the child
that is about to become it (`keeper/program_rules.py`). The first rule that says no is named.
"""

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

from lbd.config.access import AdmissionConfig
from lbd.model import Closed
from lbd.text.windows import Moment, Window, read_window

PLENTY_LEFT = 0.25  # of all memory


@dataclass(frozen=True, slots=True)
class Guest:
    """For whom a command would run."""

    user: str  # the account here
    groups: frozenset[str]  # its names
    origin: str


@dataclass(frozen=True, slots=True)
class Conditions:
    """How things stand on this host."""

    now: Moment
    load: float  # index
    owner: str = ""  # what shows that the owner is there; "" = nobody is
    memory_pressure: float = 0.0  # percent of the time in which all stood still for want of memory
    memory_left: float = 0.0  # share of all memory that new programs could have; 0: not known


class Rules:
    def __init__(self, config: AdmissionConfig) -> None:
        self.config = config
        self._windows: list[Window] = [read_window(text) for text in config.when]
        users, groups = config.users + config.deny_users, config.groups + config.deny_groups
        self._are_of_guests = bool(users or groups or config.origins or config.deny_origins)

    def refusal(self, guest: Guest, conditions: Conditions) -> str:
        """Why not, with the rule that says so; "" if it may."""
        refused = self._refused_guest(guest) if self._are_of_guests else ""
        return refused or self.closed(conditions)[1]

    def _refused_guest(self, guest: Guest) -> str:
        config, groups = self.config, sorted(guest.groups)
        if matches([guest.user], config.deny_users):
            return f"commands of {guest.user} are not allowed here (admission.deny_users)"
        if matches(groups, config.deny_groups):
            return f"commands of {guest.user} are not allowed here (admission.deny_groups)"
        named = matches([guest.user], config.users) or matches(groups, config.groups)
        if (config.users or config.groups) and not named:
            rule = "users" if config.users else "groups"
            return f"commands of {guest.user} are not allowed here (admission.{rule})"
        rule = origin_fault(config, guest.origin)
        return (
            f"commands from {guest.origin} are not allowed here (admission.{rule})" if rule else ""
        )

    def closed(self, conditions: Conditions) -> tuple[Closed | None, str]:
        """Why nobody's commands are taken now, for other hosts and in full; (None, "") if some
        are."""
        if self._windows and not any(window.holds(conditions.now) for window in self._windows):
            return Closed.HOURS, "no commands of other hosts at this time (admission.when)"
        ceiling = self.config.load_ceiling
        if ceiling and conditions.load > ceiling:
            return Closed.LOAD, (
                f"load too high here: {conditions.load:.2f}, no new commands above {ceiling:g} "
                "(admission.load_ceiling)"
            )
        most, pressure = self.config.memory_pressure, conditions.memory_pressure
        # With plenty left it is a command that has too little within a limit of its own.
        if most and pressure > most and conditions.memory_left < PLENTY_LEFT:
            return Closed.MEMORY, (
                f"short of memory here: all tasks stalled for {pressure:.0f} % of the last 10 s, "
                f"no new commands above {most:g} % (admission.memory_pressure)"
            )
        if conditions.owner:
            return Closed.OWNER, f"this host's owner is back: {conditions.owner}"
        return None, ""


def origin_fault(config: AdmissionConfig, origin: str) -> str:
    """The rule that forbids whatever comes from that host; "" if none does."""
    if matches([origin], config.deny_origins):
        return "deny_origins"
    return "origins" if config.origins and not matches([origin], config.origins) else ""


def matches(names: Iterable[str], patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns)
