"""Limits that a child takes upon itself before it becomes a command."""

import resource


def lower(kind: int, most: int) -> None:
    """A limit for good, and never more than it already is: only root may raise one. Raises
    OSError."""
    _, hard = resource.getrlimit(kind)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (limit, limit))
