"""An even division of limited room: no user's surplus takes room from another. Pure."""

from collections.abc import Iterable


def even_share(wants: Iterable[int], room: int) -> int | None:
    """Returns the cap on each share of `room` (max-min fairness): anyone who wants less gets all of
    it, and the rest is shared evenly among the others. None if there is room for all."""
    left, rising = room, sorted(wants)
    for index, want in enumerate(rising):
        share = left // (len(rising) - index)
        if want > share:
            return share
        left -= want
    return None
