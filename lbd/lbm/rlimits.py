"""Limits that a child takes upon itself before it becomes a command."""

import resource

# What they allow lets a process come before others: not even a soft one is raised, whatever the
# limits were where the command comes from.
ONLY_LOWERED = frozenset(
    (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NICE, resource.RLIMIT_RTPRIO, resource.RLIMIT_RTTIME)
)
UNLIMITED = 1 << 63  # and more, as it travels
INFINITY = resource.RLIM_INFINITY


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


def lower(kind: int, most: int) -> None:
    """A limit for good, and never more than it already is: only root may raise one. Raises
    OSError."""
    _, hard = resource.getrlimit(kind)
    limit = _lower(most, hard)
    resource.setrlimit(kind, (limit, limit))
