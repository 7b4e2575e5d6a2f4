"""Limits that a process takes upon itself before it becomes a command.

The keeper works them out for its children: what they have without, it has.
"""

import contextlib
import functools
import resource

# What they allow lets a process come before others: not even a soft one is raised, whatever the
# limits were where the command comes from.
ONLY_LOWERED = frozenset(
    (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NICE, resource.RLIMIT_RTPRIO, resource.RLIMIT_RTTIME)
)
UNLIMITED = 1 << 63  # and more, as it travels
INFINITY = resource.RLIM_INFINITY
Limit = tuple[int, tuple[int, int]]  # resource, soft and hard
Own = tuple[tuple[int, int], ...]  # soft and hard, by resource


def taken(number: int, soft: int, hard: int, own: tuple[int, int]) -> tuple[int, int] | None:
    """What of a caller's limit is set here, None for nothing. `own`: what a command would have
    without it. A hard limit is only ever lowered: who asks is on another host, and we may be root,
    who may raise one."""
    soft, hard = (value if 0 <= value < UNLIMITED else INFINITY for value in (soft, hard))
    hard = _lower(hard, own[1])
    wanted = _lower(_lower(soft, own[0]) if number in ONLY_LOWERED else soft, hard), hard
    return wanted if wanted != own else None


def _lower(one: int, other: int) -> int:
    if INFINITY in (one, other):
        return other if one == INFINITY else one
    return min(one, other)


def own_limits() -> Own:
    found: list[tuple[int, int]] = []
    with contextlib.suppress(ValueError):  # that number is none
        while True:
            found.append(resource.getrlimit(len(found)))
    return tuple(found)


@functools.lru_cache(maxsize=64)
def all_taken(limits: tuple[tuple[int, int, int], ...], own: Own) -> tuple[Limit, ...]:
    """What of a caller's limits is set here. They are as a rule those of the caller before."""
    here = [item for item in limits if 0 <= item[0] < len(own)]
    found = [(number, taken(number, soft, hard, own[number])) for number, soft, hard in here]
    return tuple((number, limit) for number, limit in found if limit is not None)


def lowered(own: Own, number: int, most: int) -> Limit:
    """What to set it to for good, never more than it already is: only root may raise one."""
    limit = _lower(most, own[number][1])
    return number, (limit, limit)


def lower(number: int, most: int) -> None:
    """One of ours. Raises OSError."""
    resource.setrlimit(*lowered(own_limits(), number, most))


def raise_descriptor_limit() -> None:
    """As many descriptors as the hard limit allows. A shell's soft one, 1024 as a rule, is a few
    hundred clients, as one user can have: then a daemon could talk to nobody else."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
