"""Tiers of hosts: who serves which. Tiers are numbered from 1; a host may be in several of them.

A tier that has lost its last host is served by the nearest tier above it, where jobs may run as
long, and if there is none, by the nearest below: no job waits for hosts that are not there.
"""

from collections.abc import Sequence
from itertools import pairwise

from lbd.dispatch.discipline import Hosts, HostSlots, QueuedJob


def tiers_of(host: HostSlots, hosts: Sequence[HostSlots], count: int) -> list[int]:
    """The tiers that this host serves, rising; a number beyond `count` means the last."""
    there = {min(tier, count) for other in hosts for tier in other.tiers}
    mine = {min(tier, count) for tier in host.tiers}
    served = set(mine)
    for empty in set(range(1, count + 1)) - there:
        above = [tier for tier in there if tier > empty]
        stands_in = min(above) if above else max(there)
        if stands_in in mine:
            served.add(empty)
    return sorted(served)


def tier_for(job: QueuedJob, tier: int, count: int, hosts: Hosts) -> int:
    """`tier`, or the first above it with a host large enough for the job, if there is one."""
    if job.slots > 1:
        for higher in range(tier, count + 1):
            if any(host.slots >= job.slots and higher in host.lines for host in hosts.values()):
                return higher
    return tier


def checked(cutoffs_s: Sequence[float], what: str) -> tuple[float, ...]:
    """Raises ValueError, one line, unless the cutoffs make two tiers or more."""
    cutoffs = tuple(cutoffs_s)
    if not cutoffs:
        raise ValueError(f"{what} needs at least two tiers: give at least one cutoff")
    if not cutoffs[0] > 0 or any(not a < b for a, b in pairwise(cutoffs)):
        shown = ", ".join(f"{cutoff:g}" for cutoff in cutoffs)
        raise ValueError(f"{what} needs cutoffs above 0 that rise: {shown}")
    return cutoffs
