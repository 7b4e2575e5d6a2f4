"""Why a command runs where it does, as `lbrun -v` and `lbctl explain` say it."""

from collections.abc import Sequence
from dataclasses import dataclass

from lbd.text.one_line import one_line

BELOW_THRESHOLD = "below-threshold"
PLACED = "; placed: "  # between how a command ended and why it ran where it did
PHRASES = {
    "lowest": "it has the lowest load of the hosts that accept commands now",
    "only-one-fits": "no other host has what it needs",
    "no-gain": "no other host is better by more than lim.min_gain",
    "short-of-memory": "this host has less memory available than the command used recently",
    "needs-taken": "the resources it needs are all in use",
    "no-free-slot": "the other hosts that accept commands are full: they have no free slots",
    "no-peer": "no other host is up",
    "no-willing-host": "no other host can run it now",
    "no-reservation": "no other host has made a reservation (RESERVE)",
    "none-below-threshold": "none of the probed hosts is below lim.local_threshold",
    "random": "picked at random (RANDOM)",
    "never": "eligibility.never or a rule of lbsh keeps it here (lbctl eligible CMD says which)",
    "new": "under lbsh it ran here once, to be measured",
    "short": "its CPU time was too short to make it worth moving (lim.job_threshold_s)",
    "no-balancing": "the algorithm NOLB never moves commands",
    "centre-silent": "the coordinator does not answer",
    BELOW_THRESHOLD: "the load is within lim.local_threshold",
    "wanted": "-H was given",
    "nested": "an lbrun inside lbm.max_hops others does not move its command again",
    "placed-already": "the lbrun that started this one has chosen this host for it",
    "unseen-directory": "its working directory cannot be examined here, so it does not leave",
    "asked-to-stay": "--local was given",
    "no-lim": "this host's LIM did not answer",
    "nobody-took-it": "the other hosts that were asked did not take it",
}
ALL_OTHERS_EXCLUDED = "all other hosts are excluded"  # by the user, or because they lack something
TIMED_BY = ("P2C", "PREDICT")  # these compare completion times, not loads
TIMED = {
    "lowest": "the command and those already there would finish soonest",
    "no-gain": "the command and those already running would finish no sooner on any other host",
}
CHOSEN = ("lowest", "random")  # reasons that follow from comparing several hosts
SAYS_LOADS = (*CHOSEN, BELOW_THRESHOLD)  # whose phrases have the loads already
COMPARED = ("lowest", "no-gain")
PASSED_OVER = ("no-free-slot", "no-willing-host")
PASSED_OVER_MAX, SEEN_CHARACTERS = 3, 120


@dataclass(frozen=True, slots=True)
class LoadsSeen:
    """The numbers a decision was based on; None: not known."""

    here: float | None = None
    local_threshold: float | None = None
    min_gain: float | None = None
    chosen_with_it: float | None = None
    here_with_it: float | None = None
    as_low: tuple[str, ...] = ()  # the other hosts among which one was picked at random


@dataclass(frozen=True, slots=True)
class HostSeen:
    """A host that a decision was made of."""

    name: str
    load: float | None  # with the command; None: not known
    why: str  # why it could not be chosen; "" if it could


def hosts_seen(
    reason: str,
    algorithm: str,
    others: Sequence[HostSeen],
    own: HostSeen | None,
    loads: LoadsSeen | None = None,
) -> str:
    """Returns the loads that were compared, or why other hosts were passed over, to be kept with
    the command; "" where the reason says it all. `others`: the chosen or best one first. `own`:
    this host, if the command might stay."""
    if reason in COMPARED and algorithm not in TIMED_BY:
        shown = ", ".join(
            f"{one.name} {one.load:.2f}"
            for one in (*others[:1], own)
            if one is not None and one.load is not None and not one.why
        )
        shown = f"load with it: {shown}" if shown else ""
    elif reason == BELOW_THRESHOLD and loads and None not in (loads.here, loads.local_threshold):
        shown = f"load {loads.here:.2f}, threshold {loads.local_threshold:.2f}"
    elif reason in PASSED_OVER:
        shown = ", ".join(f"{one.name}: {one.why}" for one in others[:PASSED_OVER_MAX] if one.why)
    else:
        return ""
    return one_line(shown)[:SEEN_CHARACTERS]


def why_not_here(*, remote: bool, excluded: str = "") -> str:
    """Returns the option that made the command leave whatever the loads are, or "" for none.
    `excluded`: this host's name if -x excludes it."""
    if remote:
        return "--remote was given"
    return f"-x {excluded} was given" if excluded else ""


def why_placed(
    reason: str, algorithm: str = "", seen: LoadsSeen | None = None, not_here: str = ""
) -> str:
    """Explains a placement, with the numbers that are known. `reason`: the policy's one-word
    reason. `not_here`: the phrase from `why_not_here`; it comes first, since without it the command
    might have stayed."""
    phrase = why_chosen(reason, algorithm, seen or LoadsSeen(), "other " * bool(not_here))
    return f"{not_here}; {phrase}" if not_here and reason in CHOSEN else phrase


def ties_of(names: Sequence[str]) -> str:
    """Says which hosts could have been chosen as well, shortly."""
    if not names:
        return ""
    more = f" and {len(names) - 1} more" if names[1:] else ""
    return f"; {names[0]}{more} {'are' if more else 'is'} as low"


def why_chosen(reason: str, algorithm: str, seen: LoadsSeen, other: str) -> str:
    if algorithm in TIMED_BY and reason in TIMED:
        return TIMED[reason]
    if reason == BELOW_THRESHOLD and None not in (seen.here, seen.local_threshold):
        is_below = f"{seen.here:.2f}" != f"{seen.local_threshold:.2f}"
        return (
            f"its load now, {seen.here:.2f}, is {'below' if is_below else 'no more than'} "
            f"{seen.local_threshold:.2f} (lim.local_threshold)"
        )
    if reason == "no-gain" and seen.min_gain is not None:
        return f"no other host is better by more than {seen.min_gain:.2f} (lim.min_gain)"
    if reason == "lowest" and seen.chosen_with_it is not None:
        is_compared = seen.here_with_it is not None and not other
        ours = f"; here it would be {seen.here_with_it:.2f}" if is_compared else ""
        return (
            f"its load will be {seen.chosen_with_it:.2f}, "
            f"the lowest of the {other}hosts that accept commands now{ties_of(seen.as_low)}{ours}"
        )
    return PHRASES.get(reason, reason.replace("-", " "))
