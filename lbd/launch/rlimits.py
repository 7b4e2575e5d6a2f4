"""Resource limits that a process sets on itself before it becomes a command.

The keeper computes them for its children from its own limits, which they inherit.
"""

import contextlib
import functools
import resource

# Raising these would let a process get ahead of others, so not even the soft limit is raised,
# whatever the limits were at the origin.
ONLY_LOWERED = frozenset(
    (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NICE, resource.RLIMIT_RTPRIO, resource.RLIMIT_RTTIME)
)
UNLIMITED = 1 << 63  # this and above, in messages
INFINITY = resource.RLIM_INFINITY
Limit = tuple[int, tuple[int, int]]  # resource, soft and hard
Own = tuple[tuple[int, int], ...]  # soft and hard, indexed by resource


def taken(number: int, soft: int, hard: int, own: tuple[int, int]) -> tuple[int, int] | None:
    """Returns what to set here for a caller's limit, None for nothing. `own`: the limit a command
    has otherwise. A hard limit is only lowered: the caller is on another host, and we may be root,
    who could raise it."""
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
    with contextlib.suppress(ValueError):  # no such resource number
        while True:
            found.append(resource.getrlimit(len(found)))
    return tuple(found)


@functools.lru_cache(maxsize=64)
def all_taken(limits: tuple[tuple[int, int, int], ...], own: Own) -> tuple[Limit, ...]:
    """Returns which of a caller's limits to set here. Cached: most callers repeat the last
    one's."""
    here = [item for item in limits if 0 <= item[0] < len(own)]
    found = [(number, taken(number, soft, hard, own[number])) for number, soft, hard in here]
    return tuple((number, limit) for number, limit in found if limit is not None)


def lowered(own: Own, number: int, most: int) -> Limit:
    """Returns the limit to set, soft and hard, never above the present one, which only root may
    raise."""
    limit = _lower(most, own[number][1])
    return number, (limit, limit)


def lower(number: int, most: int) -> None:
    """Lowers one of our own limits. Raises OSError."""
    resource.setrlimit(*lowered(own_limits(), number, most))


def raise_descriptor_limit() -> None:
    """Allows as many descriptors as the hard limit. A shell's usual soft limit, 1024, is a few
    hundred clients, which one user can have: the daemon could then serve nobody else."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
