"""Is a command worth sending away? Decided by lists, a built-in table, and its learnt CPU time.
Pure.

A job below T_CPU is not worth moving (Zhou 1987, section 3.3), but its CPU time is "not known upon
the job's arrival" (4.2), so the thesis fell back on a list of names. Most commands run again and
again, though, so CPU times are learnt here: a new command runs once on its own host, measured; from
then on an exponentially weighted mean of its CPU seconds predicts the next run.

The two possible mistakes differ in cost. A short command that leaves loses some milliseconds, and
is measured. A long one that stays may cost the caller its whole CPU time at a loaded host's pace,
is not measured, and takes others with it: one key covers every compilation of a build, small and
huge, and a dozen small ones in a row are normal. So the mean reaches back over some 30 runs, and a
command counts as short only while the mean of its last `LATELY` runs is short as well.

Both mistakes are corrected over time. A command that leaves is measured each time. One that stays
replaces its caller and is not measured, except after 8, 16, 32 or 64 runs, after an hour, or when
the last run took suspiciously long by the clock; then `LATELY` long runs suffice. And since a mean
forgets an old huge run slowly, `CONVINCING` contrary runs in a row replace it.

Order of the rules: this host's owner (never), the user (never), both (features), the user (always),
the owner (always), the table of what stays, what was learnt.

Peak memory is learnt from the same runs. It does not decide whether a command leaves, but which
hosts it would not fit on (`needs.too_little_memory`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from lbd.model import NO_NEEDS, Needs
from lbd.policy.invocation import OURS, name_of, why_stays
from lbd.text.needs_words import read_feature_rule
from lbd.text.program_names import WILDCARDS, in_list, patterns_of

WEIGHT = 1 / 32  # of a new run in the mean, once there are so many runs
LATELY = 4  # runs
CONVINCING = 16  # runs in a row on the other side of the threshold: the latest runs become the mean
SURE_RUNS = 3  # measured runs before a short command is no longer measured each time
FIRST_PAUSE_RUNS, LONGEST_PAUSE_RUNS = 8, 64
MEASURED_FOR_S = 3600.0
SUSPICIOUS = 4.0  # times the threshold, by the clock: the command may no longer be short
# Below this share of the threshold even asking does not pay: such names need no shim at all.
SHIMLESS_SHARE = 0.2
LIST_ENTRIES, ENTRY_CHARACTERS = 200, 100
# Limits on all patterns of a list together: within them it compiles in some milliseconds, beyond
# them it may take a hundred.
LIST_WILDCARDS, PATTERN_CHARACTERS = 200, 4000


@dataclass(frozen=True, slots=True)
class Lists:
    """Names (`cc`), kinds (`gcc -c`) and patterns (`*-gcc`) set by the owner or the user."""

    always: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    features: tuple[str, ...] = ()  # rules, as parsed by `read_feature_rule`


@lru_cache(maxsize=256)
def feature_rules(entries: tuple[str, ...]) -> tuple[tuple[tuple[str], Needs], ...]:
    """Parses rules that were checked when they were set."""
    return tuple(((entry,), needs) for entry, needs in map(read_feature_rule, entries))


def fault_of_features(entries: Sequence[str]) -> str:
    """Returns what is wrong with a list of feature rules; "" if nothing is."""
    try:
        return fault_of_patterns([read_feature_rule(entry)[0] for entry in entries])
    except ValueError as problem:
        return f"has an invalid entry: {problem}"


def fault_of_patterns(entries: Sequence[str]) -> str:
    """Returns why a list of patterns would take too long to compile; "" if it would not."""
    text = "".join(patterns_of(entries))
    if sum(map(text.count, WILDCARDS)) > LIST_WILDCARDS:
        return f"has too many wildcards: at most {LIST_WILDCARDS}"
    if len(text) > PATTERN_CHARACTERS:
        return f"has patterns that are too long: at most {PATTERN_CHARACTERS} characters in total"
    return ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The CPU time of a command's runs, measured `runs` times."""

    mean_s: float
    runs: int
    measured: float  # UNIX seconds, since it outlives restarts
    recent_s: tuple[float, ...]  # of the last `LATELY` runs, newest last
    alike: int = 1  # runs in a row on the same side of the threshold as the last one


def learn(known: Estimate | None, cpu_s: float, threshold_s: float, unix_s: float) -> Estimate:
    """Returns the estimate updated with one more run."""
    if known is None:
        return Estimate(cpu_s, 1, unix_s, (cpu_s,))
    weight = max(WEIGHT, 1.0 / (known.runs + 1))
    mean_s = known.mean_s + weight * (cpu_s - known.mean_s)
    recent_s = (*known.recent_s, cpu_s)[-LATELY:]
    same_side = (known.recent_s[-1] >= threshold_s) == (cpu_s >= threshold_s)
    alike = known.alike + 1 if same_side else 1
    if alike >= CONVINCING and (mean_s >= threshold_s) != (cpu_s >= threshold_s):
        mean_s = mean_of(recent_s)
    return Estimate(mean_s, known.runs + 1, unix_s, recent_s, alike)


def mean_of(values: Sequence[float]) -> float:
    """The bounds are needed because rounding could move the mean of equal values off that value."""
    return min(max(sum(values) / len(values), min(values)), max(values))


@dataclass(frozen=True, slots=True)
class Known:
    """A command of one user: its estimate, and what has happened since it was last measured."""

    estimate: Estimate | None = None
    trials: int = 0  # first runs in progress
    unmeasured: int = 0  # runs since the last measured one
    suspect: bool = False
    peaks: tuple[int, ...] = ()  # peak memory of the last `LATELY` runs, in bytes, newest last

    @property
    def peak_bytes(self) -> int:
        """The memory its next run may take; 0: unknown. This is the highest of several peaks: a
        host with too little memory harms more than a host passed over."""
        return max(self.peaks, default=0)

    def took(self, peak_bytes: int, *, whole: bool) -> "Known":
        """Adds one run's peak. A run that was cut short (not `whole`) gives only a lower bound."""
        if not whole and peak_bytes <= self.peak_bytes:
            return self
        return replace(self, peaks=(*self.peaks, peak_bytes)[-LATELY:])

    def learnt(self, cpu_s: float, threshold_s: float, unix_s: float) -> "Known":
        return replace(
            self,
            estimate=learn(self.estimate, cpu_s, threshold_s, unix_s),
            unmeasured=0,
            suspect=False,
        )


def is_short(known: Known, threshold_s: float) -> bool:
    """Judges by the long-run mean and by the latest runs."""
    estimate = known.estimate
    if estimate is None or estimate.mean_s >= threshold_s:
        return False
    return mean_of(estimate.recent_s) < threshold_s


def is_due(known: Known, unix_s: float) -> bool:
    """Whether a short command is to be measured again. True also if the clock was set back."""
    estimate = known.estimate
    if estimate is None or known.suspect or estimate.runs < SURE_RUNS:
        return True
    pause_runs = FIRST_PAUSE_RUNS << min(estimate.runs - SURE_RUNS, 16)
    if known.unmeasured >= min(pause_runs, LONGEST_PAUSE_RUNS):
        return True
    return not 0.0 <= unix_s - estimate.measured < MEASURED_FOR_S


def needs_no_shim(known: Known, threshold_s: float, unix_s: float) -> bool:
    """Whether a command is so short, and so reliably, that its runs need no question for a
    while."""
    estimate = known.estimate
    if estimate is None or is_due(known, unix_s):
        return False
    return max((estimate.mean_s, *estimate.recent_s)) < SHIMLESS_SHARE * threshold_s


@dataclass(frozen=True, slots=True)
class Verdict:
    leaves: bool
    reason: str  # always | never | new | trial | short | long: shown, counted, stable
    why: str = ""  # for people, where the reason alone is not enough
    by: str = ""  # whose list or table: host | user | built-in; "": learnt
    measure: bool = False  # run it as a child process and report its cost


LONG = Verdict(True, "long", "its CPU time makes it worth moving")
SHORT = Verdict(False, "short", "its CPU time is too short to make it worth moving")
SHORT_DUE = replace(
    SHORT, measure=True, why="it was short when last measured, and is due to be measured again"
)
NEW = Verdict(False, "new", "it runs here once, to be measured", measure=True)
TRIAL = Verdict(
    True, "trial", "its first run is being measured here; other runs may leave meanwhile"
)
BY_FEATURE = Verdict(True, "always", "your list names the hosts it may run on", "user")
HOST_BY_FEATURE = replace(
    BY_FEATURE, why="this host's owner names the hosts it may run on", by="host"
)
HOST_NEVER = Verdict(False, "never", "this host's owner keeps it here", "host")


@dataclass(frozen=True, slots=True)
class Rules:
    """What administrators and users have configured for one user's commands."""

    host: Lists = field(default_factory=Lists)
    user: Lists = field(default_factory=Lists)

    def needed(self, argv: Sequence[bytes], key: str) -> Needs:
        """Returns the features that the command needs on its host."""
        name = name_of(argv)
        found = [*self._by_feature(self.host, name, key), *self._by_feature(self.user, name, key)]
        return joined_features(found) if found else NO_NEEDS

    def _by_feature(self, lists: Lists, name: str, key: str) -> list[Needs]:
        rules = feature_rules(lists.features) if lists.features else ()
        return [needs for entry, needs in rules if in_list(entry, name, key)]

    def said(self, argv: Sequence[bytes], key: str, directory: bytes) -> Verdict | None:
        """Returns the verdict of lists and tables; None if the learnt times decide."""
        name = name_of(argv)
        if name in OURS:
            return Verdict(False, "never", "it is part of lbd", "built-in")
        if in_list(self.host.never, name, key):
            return HOST_NEVER
        if in_list(self.user.never, name, key):
            return Verdict(False, "never", "your list keeps it here", "user")
        if self._by_feature(self.user, name, key):
            return BY_FEATURE
        if self._by_feature(self.host, name, key):
            return HOST_BY_FEATURE
        if in_list(self.user.always, name, key):
            return Verdict(True, "always", "your list lets it leave", "user")
        if in_list(self.host.always, name, key):
            return Verdict(True, "always", "this host's owner lets it leave", "host")
        if why := why_stays(argv, key, directory):
            return Verdict(False, "never", why, "built-in")
        return None


def joined_features(found: Sequence[Needs]) -> Needs:
    """Combines all needs. A feature that is both needed and excluded matches no host."""
    features = {feature for needs in found for feature in needs.features}
    not_features = {feature for needs in found for feature in needs.not_features}
    return Needs(features=tuple(sorted(features)), not_features=tuple(sorted(not_features)))


def judge_learnt(known: Known, threshold_s: float, unix_s: float) -> Verdict:
    """Judges a command by its earlier runs."""
    if known.estimate is None:
        return TRIAL if known.trials else NEW
    if not is_short(known, threshold_s):
        return LONG
    return SHORT_DUE if is_due(known, unix_s) else SHORT
