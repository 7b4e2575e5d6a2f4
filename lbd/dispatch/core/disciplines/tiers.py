"""Tiers of hosts: which hosts serve which tier. Tiers are numbered from 1; a host may be in
several.

A tier without hosts is served by the nearest tier above it, where jobs may run as long, and if
there is none, by the nearest below: no job waits for hosts that do not exist.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from lbd.dispatch.core.discipline import Hosts, HostSlots, QueuedJob, able


def tiers_of(host: HostSlots, hosts: Sequence[HostSlots], count: int) -> list[int]:
    """Returns the tiers that this host serves, ascending; a number beyond `count` means the
    last."""
    there = sorted({min(tier, count) for other in hosts for tier in other.tiers})
    mine = {min(tier, count) for tier in host.tiers}

    def served_by(tier: int) -> int:
        return there[min(bisect_left(there, tier), len(there) - 1)]

    return [tier for tier in range(1, count + 1) if served_by(tier) in mine]


def tier_for(job: QueuedJob, tier: int, count: int, hosts: Hosts) -> int:
    """Returns `tier`, or the first tier above it with a suitable host, if there is one."""
    if job.is_wide or job.only or job.barred:
        fit = [hosts[name] for name in able(job, hosts)]
        for higher in range(tier, count + 1):
            if any(higher in host.lines for host in fit):
                return higher
    return tier


def checked(cutoffs_s: Sequence[float], what: str) -> tuple[float, ...]:
    """Raises ValueError, one line, unless the cutoffs make at least two tiers."""
    cutoffs = tuple(cutoffs_s)
    if not cutoffs:
        raise ValueError(f"{what} needs at least two tiers: give at least one cutoff")
    if not cutoffs[0] > 0 or any(not a < b for a, b in pairwise(cutoffs)):
        shown = ", ".join(f"{cutoff:g}" for cutoff in cutoffs)
        raise ValueError(f"{what} needs increasing cutoffs above 0: {shown}")
    return cutoffs


def spread_tiers(
    name: str, order: Sequence[str], count: int, given: Sequence[str]
) -> tuple[int, ...]:
    """Returns a host's tiers: as `given` ("h1:1,2") says, else the hosts in turn, as evenly as
    possible.

    Raises ValueError, one line, for invalid items.
    """
    for item in given:
        host, _, tiers = item.partition(":")
        numbers = tiers.split(",")
        if not host or not all(number.isdecimal() and int(number) > 0 for number in numbers):
            raise ValueError(f"{item!r}: must be a host and its tiers, like h1:1,2")
        if host == name:
            return tuple(sorted({int(number) for number in numbers}))
    place = order.index(name) if name in order else len(order)
    return (min(place * count // max(len(order), count) + 1, count),)
