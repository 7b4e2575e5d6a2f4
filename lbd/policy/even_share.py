"""An even division of limited room: no user's surplus takes room from another. Pure."""

from collections.abc import Iterable


def even_share(wants: Iterable[int], room: int) -> int | None:
    """The most that each gets of `room`: who wants less gets that, and the rest is shared evenly
    among the others (max-min fairness). None if there is room for all."""
    left, rising = room, sorted(wants)
    for index, want in enumerate(rising):
        share = left // (len(rising) - index)
        if want > share:
            return share
        left -= want
    return None
