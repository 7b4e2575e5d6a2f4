"""What the hosts' accounting lacks, in words. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from lbd.console.figures import Clock
from lbd.console.reply import Json, number, whole
from lbd.text.units import counted

# Hosts that were set up together start their records within this time,
TOGETHER_S = 60.0
LATE = 0.01  # plus this share of the others' record
NOBODY: Mapping[str, str] = MappingProxyType({})


def gaps_within(gaps: Iterable[Json], since_s: float, until_s: float) -> list[Json]:
    """Returns the gaps with commands that may have ended in that time."""
    return [
        gap for gap in gaps if number(gap, "until") >= since_s and number(gap, "since") <= until_s
    ]


def lost_in(gaps: Iterable[Json]) -> int:
    """Returns how many commands will never be on record."""
    return sum(whole(gap, "commands") for gap in gaps if not gap.get("not_yet"))


def gap_lines(
    gaps: Mapping[str, Sequence[Json]], clock: Clock, troubles: Mapping[str, str] = NOBODY
) -> list[str]:
    """Both are by host; `troubles`: why it cannot record now, if that is known. Returns at most
    three lines for each host."""
    lines = []
    for host, found in sorted(gaps.items()):
        lost = [gap for gap in found if whole(gap, "commands") and not gap.get("not_yet")]
        waiting = [gap for gap in found if gap.get("not_yet")]
        if lost:
            lines.append(f"{host} could not record {what_of(lost, clock)}")
        if restored := [gap for gap in found if not whole(gap, "commands")]:
            what = f"what ended {period_of(restored, clock)}"
            lines.append(f"{host} has no record of {what}: it was restored from a backup")
        if waiting:
            why = troubles.get(host)
            said = f"{host} has not yet recorded {what_of(waiting, clock)}"
            lines.append(f"{said}: {why}" if why else said)
    return lines


def late_records(
    begun: Mapping[str, float], since_s: float, until_s: float, clock: Clock
) -> list[str]:
    """`begun`: since when each host's record is complete; nan: not known. Returns one line if no
    record reaches back to `since_s`, as older jobs were dropped or the cluster is new, and a line
    for each host whose record starts later than the others': it may be new, or have lost it."""
    known = [first for first in begun.values() if not math.isnan(first)]
    earliest = max(since_s, min(known, default=since_s))
    latest = earliest + TOGETHER_S + LATE * max(0.0, until_s - earliest)
    late = {host: first for host, first in sorted(begun.items()) if first > latest}
    all_late = len(known) == len(begun) and earliest > since_s
    lines = [f"on record only since {clock.time_of_day(earliest)}"] if all_late else []
    return lines + [
        f"{host}: on record only since {clock.time_of_day(first)}" for host, first in late.items()
    ]


def what_of(gaps: Sequence[Json], clock: Clock) -> str:
    """Formats `3 commands that ended between 17:20:13 and 17:31:02`."""
    commands = counted(sum(whole(gap, "commands") for gap in gaps), "command")
    return f"{commands} that ended {period_of(gaps, clock)}"


def period_of(gaps: Sequence[Json], clock: Clock) -> str:
    """Returns "" if it is not known."""
    begun, ended = number(gaps[0], "since"), number(gaps[-1], "until")
    if math.isnan(begun) or math.isnan(ended):
        return ""
    since, until = clock.time_of_day(begun), clock.time_of_day(ended)
    period = f"at {since}" if since == until else f"between {since} and {until}"
    times = f", in {len(gaps)} periods" if len(gaps) > 1 else ""
    return f"{period}{times}"
