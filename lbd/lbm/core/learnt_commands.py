"""What was learnt about every user's commands, separately for each user. Pure.

One user's commands say nothing about another's: their `build.py` is a different program, and what a
user claims about a run here can mislead that user only. The number of users and the commands of
each are bounded; the least recently used are forgotten first.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

from lbd.model import Needs
from lbd.policy.eligibility import (
    ENTRY_CHARACTERS,
    LATELY,
    LIST_ENTRIES,
    SUSPICIOUS,
    Estimate,
    Known,
    Lists,
    Rules,
    Verdict,
    fault_of_features,
    is_short,
    judge_learnt,
    needs_no_shim,
)
from lbd.policy.invocation import KEY_CHARACTERS, OURS, WHY_STAYS, family_of, key_of
from lbd.text.needs import AMOUNT_MAX

FORMAT = 1
CPU_S_MAX = 1e8  # the most that a run may claim
STORED_MAX = 1e300  # the largest stored number: finite, and within the range of floats
NOTHING = Known()

Json = dict[str, object]


@dataclass(slots=True)
class UserBook:
    """One user's commands by key, the least recently used first; and the user's lists."""

    lists: Lists = field(default_factory=Lists)
    commands: OrderedDict[str, Known] = field(default_factory=OrderedDict)


class Book:
    """The eligibility of every user's commands on one host."""

    def __init__(self, host: Lists, max_commands: int, max_users: int, threshold_s: float) -> None:
        self.host = host
        self.threshold_s = threshold_s
        self._max_commands = max_commands
        self._max_users = max_users
        self._users: OrderedDict[int, UserBook] = OrderedDict()

    def forget_all(self) -> None:
        self._users.clear()

    def user(self, uid: int) -> UserBook:
        """Returns that user's entry. A new user replaces the one not seen for the longest time."""
        book = self._users.get(uid)
        if book is None:
            book = self._users[uid] = UserBook()
            while len(self._users) > self._max_users:
                self._users.popitem(last=False)
        self._users.move_to_end(uid)
        return book

    def peek(self, uid: int) -> UserBook:
        """Like `user`, but read-only."""
        return self._users.get(uid) or UserBook()

    def set_lists(self, uid: int, lists: Lists) -> bool:
        """Returns True if the lists are new."""
        if self.peek(uid).lists == lists:
            return False
        self.user(uid).lists = lists
        return True

    def judge(self, uid: int, argv: Sequence[bytes], directory: bytes, unix_s: float) -> Verdict:
        """Whether a command would leave, and why. Changes nothing."""
        return self._judge(uid, argv, key_of(argv), directory, unix_s)

    def judge_key(self, uid: int, key: str, unix_s: float) -> Verdict:
        """The same for all commands of that key, whatever files they name."""
        return self._judge(uid, [key.partition(" ")[0].encode()], key, b"/", unix_s)

    def _judge(
        self, uid: int, argv: Sequence[bytes], key: str, directory: bytes, unix_s: float
    ) -> Verdict:
        book = self.peek(uid)
        said = Rules(self.host, book.lists).said(argv, key, directory)
        if said is not None:
            return said
        known = book.commands.get(key, NOTHING)
        return judge_learnt(known, self.threshold_s, unix_s)

    def needed(self, uid: int, argv: Sequence[bytes]) -> Needs:
        """The features that the lists demand of the host where it runs."""
        return Rules(self.host, self.peek(uid).lists).needed(argv, key_of(argv))

    # A run that stays here, from its beginning to its end

    def begun_here(self, uid: int, key: str, *, measured: bool) -> None:
        known = self._known(uid, key)
        if not measured:
            self._keep(uid, key, replace(known, unmeasured=known.unmeasured + 1))
        elif known.estimate is None:
            self._keep(uid, key, replace(known, trials=known.trials + 1))

    def ended_here(self, uid: int, key: str, *, measured: bool, wall_s: float) -> None:
        """Called once for each `begun_here`. A supposedly short command that took long is measured
        next time."""
        known = self.peek(uid).commands.get(key)
        if known is None:
            return
        if measured:
            known = replace(known, trials=max(0, known.trials - 1))
        elif is_short(known, self.threshold_s) and wall_s > SUSPICIOUS * self.threshold_s:
            known = replace(known, suspect=True)
        self._keep(uid, key, known)

    def measured(
        self, uid: int, key: str, cpu_s: float, unix_s: float, *, whole: bool = True
    ) -> bool:
        """Notes what a run cost. `whole` is False if it was cut short, so that it would have cost
        that or more. Returns True if the measurement tells us something."""
        if not 0.0 <= cpu_s <= CPU_S_MAX or (not whole and cpu_s < self.threshold_s):
            return False
        known = self._known(uid, key)
        if not whole and known.estimate is not None and cpu_s <= known.estimate.mean_s:
            return False
        self._keep(uid, key, known.learnt(cpu_s, self.threshold_s, unix_s))
        return True

    def took(self, uid: int, key: str, peak_bytes: int, *, whole: bool = True) -> bool:
        """Notes the peak memory of a run. Returns True if that tells us something. Nothing is kept
        for a command about which nothing else is known."""
        known = self.peek(uid).commands.get(key)
        if known is None or not 0 < peak_bytes <= AMOUNT_MAX:
            return False
        after = known.took(peak_bytes, whole=whole)
        self._keep(uid, key, after)
        return after != known

    def _known(self, uid: int, key: str) -> Known:
        return self.peek(uid).commands.get(key, NOTHING)

    def _keep(self, uid: int, key: str, known: Known) -> None:
        commands = self.user(uid).commands
        commands[key] = known
        commands.move_to_end(key)
        while len(commands) > self._max_commands:
            commands.popitem(last=False)

    # Shims

    def shimless(self, uid: int, unix_s: float) -> list[str]:
        """Names whose runs need not be asked about: they never leave, or are surely too short."""
        book = self.peek(uid)
        rules = Rules(self.host, book.lists)
        names = {*WHY_STAYS, *OURS, *exact((*self.host.never, *book.lists.never))}
        kinds: dict[str, list[Known]] = {}
        for key, known in book.commands.items():
            kinds.setdefault(key.partition(" ")[0], []).append(known)
        for name, all_known in kinds.items():
            # For a compiler, or a name that was only run for its version, the real work may come
            # later.
            whole = family_of(name) is None and name in book.commands
            if whole and all(needs_no_shim(k, self.threshold_s, unix_s) for k in all_known):
                names.add(name)
        return sorted(name for name in names if not may_leave(rules, name))

    # On disk

    def to_json(self) -> Json:
        return {
            "format": FORMAT,
            "users": {
                str(uid): {
                    "always": list(book.lists.always),
                    "never": list(book.lists.never),
                    "features": list(book.lists.features),
                    "commands": [
                        row_of(key, known.estimate)
                        for key, known in book.commands.items()
                        if known.estimate is not None
                    ],
                    "peaks": {
                        key: list(known.peaks)
                        for key, known in book.commands.items()
                        if known.estimate is not None and known.peaks
                    },
                }
                for uid, book in self._users.items()
            },
        }

    def read(self, stored: object) -> None:
        """Restores what `to_json` returned. Raises ValueError if it is anything else."""
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise ValueError("not in a format that this release knows")
        users = stored.get("users")
        if not isinstance(users, dict):
            raise ValueError("no users in it")
        for uid, entry in users.items():
            if not isinstance(entry, dict) or not isinstance(entry.get("commands"), list):
                raise ValueError(f"user {uid!r}")
            number = int(uid)
            self.set_lists(number, read_lists(entry))
            peaks = entry.get("peaks")
            if not isinstance(peaks, dict):
                raise ValueError(f"user {uid!r}: invalid peaks")
            for row in entry["commands"]:
                key, known = read_row(row)
                self._keep(number, key, replace(known, peaks=read_peaks(peaks.get(key, []))))


def generation_of(names: Iterable[str]) -> int:
    """Returns a number that differs for another set of names and is the same after a restart."""
    return crc32("\n".join(names).encode())


def exact(entries: Iterable[str]) -> list[str]:
    """Returns the plain names among the entries of a list: no kinds, no patterns."""
    return [entry for entry in entries if not set(entry) & set("*?[ ")]


def may_leave(rules: Rules, name: str) -> bool:
    """Whether `name` can be called in a way that leaves because a list says so."""
    said = rules.said([name.encode()], name, b"/")
    lists = *rules.user.always, *rules.host.always, *rules.user.features, *rules.host.features
    kinds = (entry.partition(" ")[0] for entry in lists)
    return (said is not None and said.leaves) or (
        name in kinds and not (said is not None and said.by in ("host", "user"))
    )


def row_of(key: str, estimate: Estimate) -> list[object]:
    """What is stored about a command. That its first run is under way is not stored: a restart ends
    it."""
    mean_s, *recent_s = (round(value, 6) for value in (estimate.mean_s, *estimate.recent_s))
    return [key, mean_s, estimate.runs, round(estimate.measured, 3), *recent_s]


def read_row(row: object) -> tuple[str, Known]:
    """Raises ValueError."""
    if not isinstance(row, list) or not row or not isinstance(row[0], str):
        raise ValueError("a command is not a list that starts with its key")
    key, *numbers = row
    if not all(type(n) in (int, float) and 0 <= n <= STORED_MAX for n in numbers):
        raise ValueError(f"{key!r}: numbers were expected")
    if not 4 <= len(numbers) <= 3 + LATELY or numbers[1] < 1:
        raise ValueError(f"{key!r}: {len(numbers)} numbers")
    mean_s, runs, measured, *recent_s = numbers
    estimate = Estimate(float(mean_s), int(runs), float(measured), tuple(map(float, recent_s)))
    return key[:KEY_CHARACTERS], Known(estimate)


def read_peaks(stored: object) -> tuple[int, ...]:
    """Raises ValueError."""
    if not isinstance(stored, list) or len(stored) > LATELY:
        raise ValueError("peaks of memory that cannot be")
    if not all(type(n) is int and 0 < n <= AMOUNT_MAX for n in stored):
        raise ValueError("peaks of memory that cannot be")
    return tuple(stored)


def read_lists(given: Json) -> Lists:
    """Returns a user's lists, as stored or as a client sent them. Raises ValueError."""
    found = []
    for key in ("always", "never", "features"):
        entries = given.get(key) or []
        if not isinstance(entries, list) or not all(isinstance(e, str) and e for e in entries):
            raise ValueError(f"eligibility.{key} must be a list of names")
        if len(entries) > LIST_ENTRIES or any(len(e) > ENTRY_CHARACTERS for e in entries):
            limits = f"{LIST_ENTRIES} entries of {ENTRY_CHARACTERS} characters"
            raise ValueError(f"eligibility.{key} is too long: at most {limits}")
        found.append(tuple(entries))
    if fault := fault_of_features(found[-1]):
        raise ValueError(f"eligibility.features {fault}")
    return Lists(*found)
