"""The owner's rules: may a foreign command run on this host now? Pure.

This file decides by user, host of origin and time. The program is checked elsewhere, where it is
known for sure: in the child that is about to become it (`keeper/program_rules.py`). A refusal names
the first rule that forbids the command.
"""

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

from lbd.config.access import AdmissionConfig
from lbd.model import Closed
from lbd.text.closed_words import AT_THIS_TIME
from lbd.text.one_line import one_line
from lbd.text.units import duration_text
from lbd.text.windows import DAY_MINUTES, Moment, Window, first_inside, read_window

ENTRIES_SHOWN, ENTRY_CHARS = 5, 60
WILDCARDS = frozenset("*?[")
LIFTED = ("users", "groups")  # rules that do not apply within the hours of `everybody_when`
OWNER_IS_BACK_WORDS = {
    "keep": "takes no new commands, and running ones go on",
    "nice": "takes no new commands, and runs those there at the lowest priority",
    "suspend": "takes no new commands, and suspends those there",
    "evict": "takes no new commands, and ends those there, which start again on other hosts, or "
    "suspends them",
    "decide": "takes no new commands, and suspends those there, or moves them if that is better "
    "than to wait",
}
PLENTY_LEFT = 0.25  # of all memory
AHEAD_MINUTES = 7 * DAY_MINUTES  # how far ahead the start of the hours of `when` is looked for


@dataclass(frozen=True, slots=True)
class Guest:
    """The user for whom a command would run."""

    user: str  # the account on this host
    groups: frozenset[str]  # names of the account's groups
    origin: str


@dataclass(frozen=True, slots=True)
class Conditions:
    """The state of this host that the rules depend on."""

    now: Moment
    load: float  # load index
    owner: str = ""  # what shows that the owner is here; "" = the owner is away
    memory_pressure: float = 0.0  # percent of the time in which all tasks stalled for memory
    memory_left: float = 0.0  # share of all memory available to new programs; 0: not known
    opens: str = ""  # when the hours of `when` begin, if they do not hold now; "" = not known
    everybody: str = ""  # the same for `everybody_when`


class WeekHours:
    """The windows of one rule, and when the next window begins."""

    def __init__(self, windows: Sequence[str]) -> None:
        self._windows: list[Window] = [read_window(text) for text in windows]
        self._sought, self._opens = 0, 0  # minutes since 1970

    def __bool__(self) -> bool:
        return bool(self._windows)

    def hold(self, now: Moment) -> bool:
        return first_inside(self._windows, [now]) == 0

    def opens(self, minute: int, moment_of: Callable[[int], Moment]) -> int:
        """Returns the minute (since 1970) at which the next window begins; 0 if a window holds at
        this minute, or if none begins in the next days. The result is cached; while it is far off,
        it is computed again once a day."""
        if not self._windows or self.hold(moment_of(minute)):
            return 0
        if not self._sought <= minute < (self._opens or self._sought + DAY_MINUTES):
            ahead = range(minute, minute + AHEAD_MINUTES)
            place = first_inside(self._windows, map(moment_of, ahead))
            self._sought, self._opens = minute, 0 if place is None else minute + place
        return self._opens


class Rules:
    def __init__(self, config: AdmissionConfig) -> None:
        self.config = config
        self.hours, self.everybody = WeekHours(config.when), WeekHours(config.everybody_when)
        users, groups = config.users + config.deny_users, config.groups + config.deny_groups
        self.number = crc32(repr(config).encode()) or 1  # other rules, another number
        self._are_of_guests = bool(users or groups or config.origins or config.deny_origins)

    def refusal(self, guest: Guest, conditions: Conditions) -> str:
        """Returns why the command is refused, with the rule that forbids it; "" if it is
        allowed.
        """
        refused = self._refused_guest(guest, conditions) if self._are_of_guests else ""
        return refused or self.closed(conditions)[1]

    def until_everybody(self, guest: Guest, conditions: Conditions) -> bool:
        """Says whether only `users` or `groups` forbids the command, and it will be allowed at
        other hours."""
        is_lifted = self._rule_against(guest, conditions.now) in LIFTED
        return is_lifted and bool(self.everybody) and not origin_fault(self.config, guest.origin)

    def _refused_guest(self, guest: Guest, conditions: Conditions) -> str:
        rule, what = self._rule_against(guest, conditions.now), f"commands of {guest.user}"
        only = f"only those of {named('group', self.config.groups)}" if rule == "groups" else ""
        if self.until_everybody(guest, conditions):
            then = f"from {conditions.everybody}" if conditions.everybody else "later"
            return not_allowed(what, f"admission.{rule}", only, f"everybody may {then}")
        if not rule and (rule := origin_fault(self.config, guest.origin)):
            what = f"commands from {guest.origin}"
        return not_allowed(what, f"admission.{rule}", only) if rule else ""

    def _rule_against(self, guest: Guest, now: Moment) -> str:
        config, groups = self.config, sorted(guest.groups)
        if matches([guest.user], config.deny_users):
            return "deny_users"
        if matches(groups, config.deny_groups):
            return "deny_groups"
        named = matches([guest.user], config.users) or matches(groups, config.groups)
        if (config.users or config.groups) and not named and not self.everybody.hold(now):
            return "users" if config.users else "groups"
        return ""

    def closed(self, conditions: Conditions) -> tuple[Closed | None, str]:
        """Returns why no foreign command is accepted now, for other hosts and in full; (None, "")
        if some are accepted."""
        if self.hours and not self.hours.hold(conditions.now):
            when = f"until {conditions.opens}" if conditions.opens else AT_THIS_TIME
            return Closed.HOURS, f"no commands of other hosts {when} (admission.when)"
        ceiling = self.config.load_ceiling
        if ceiling and conditions.load > ceiling:
            return Closed.LOAD, (
                f"load too high here: {conditions.load:.2f}, no new commands above {ceiling:g} "
                "(admission.load_ceiling)"
            )
        most, pressure = self.config.memory_pressure, conditions.memory_pressure
        # With plenty of memory left, the pressure comes from a command with too low a limit of its
        # own.
        if most and pressure > most and conditions.memory_left < PLENTY_LEFT:
            return Closed.MEMORY, (
                f"short of memory here: all tasks stalled for {pressure:.0f} % of the last 10 s, "
                f"no new commands above {most:g} % (admission.memory_pressure)"
            )
        if conditions.owner:
            return Closed.OWNER, f"its owner is back: {conditions.owner}"
        return None, ""


def not_allowed(
    what: str, rule: str, because: str = "", then: str = "its administrator may change that"
) -> str:
    """`what`: whose commands, or a program; `rule`: the setting of this host that forbids it;
    `then`: what may change that."""
    verb, why = "are" if what.startswith("commands ") else "is", because and f": {because}"
    return f"{what} {verb} not allowed here{why} ({rule}); {then}"


def in_words(config: AdmissionConfig) -> list[str]:
    """The rules of a host in words, one line per rule, each to follow the host's name."""
    lines = []
    for deny, verb in (("", "takes only commands of"), ("deny_", "takes no commands of")):
        users, groups = getattr(config, f"{deny}users"), getattr(config, f"{deny}groups")
        kinds = [(kind, names) for kind, names in (("user", users), ("group", groups)) if names]
        if not kinds:
            continue
        whose = " or of members of ".join(named(kind, names) for kind, names in kinds)
        keys = [f"admission.{deny}{kind}s" for kind, _ in kinds]
        if config.everybody_when and not deny:
            whose += f", except {some_of(config.everybody_when)}, when it takes everybody's"
            keys.append("admission.everybody_when")
        lines.append(f"{verb} {whose} ({', '.join(keys)})")
    for rule, verb in (
        ("origins", "takes only commands from"),
        ("deny_origins", "takes no commands from"),
        ("programs", "runs only"),
        ("deny_programs", "does not run"),
        ("when", "takes commands of other hosts only"),
    ):
        if entries := getattr(config, rule):
            lines.append(f"{verb} {some_of(entries)} (admission.{rule})")
    if config.load_ceiling:
        above = f"above a load of {config.load_ceiling:g}"
        lines.append(f"takes no new commands {above} (admission.load_ceiling)")
    return lines + owner_in_words(config)


def owner_in_words(config: AdmissionConfig) -> list[str]:
    signs, keys = [], []
    if config.owner_idle_s:
        last = duration_text(config.owner_idle_s)
        of = f" of {some_of(config.owners)} (admission.owners)" if config.owners else ""
        signs.append(f"a terminal{of}, keyboard or mouse was used within {last}")
        keys.append("admission.owner_idle_s")
    if config.owner_load:
        signs.append(f"other programs keep more than {config.owner_load:g} cores busy")
        keys.append("admission.owner_load")
    if not signs:
        return []
    what = OWNER_IS_BACK_WORDS[config.owner_is_back]
    return [f"while {' or '.join(signs)}, {what} ({', '.join(keys)}, admission.owner_is_back)"]


def named(kind: str, names: Sequence[str]) -> str:
    """Formats `the group lab`, or `groups lab, staff`; a pattern may stand for several."""
    is_one = len(names) == 1 and not WILDCARDS.intersection(names[0])
    return f"the {kind} {some_of(names)}" if is_one else f"{kind}s {some_of(names)}"


def some_of(entries: Sequence[str]) -> str:
    """The first entries of a rule, as many as fit into a line with other words."""
    shown = ", ".join(one_line(entry, ENTRY_CHARS) for entry in entries[:ENTRIES_SHOWN])
    more = len(entries) - ENTRIES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def origin_fault(config: AdmissionConfig, origin: str) -> str:
    """Returns the rule that forbids commands from that host; "" if none does."""
    if matches([origin], config.deny_origins):
        return "deny_origins"
    return "origins" if config.origins and not matches([origin], config.origins) else ""


def matches(names: Iterable[str], patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns)
