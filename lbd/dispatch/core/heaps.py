"""Heaps that are read in order, and whose items may leave from behind the first. Pure."""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush, heapreplace
from typing import TypeVar

SWEPT = 200  # places of a heap that one sweep looks at
Item = TypeVar("Item")
Rank = tuple[int, ...]
Ranked = tuple[Rank, Item]  # orders what it is merged with by its rank alone
Source = tuple[Rank, Iterator[Ranked[Item]]]  # after a rank that is above none of its items'


def in_order(heap: Sequence[Item]) -> Iterator[Item]:
    """Yields a heap's items in order, without looking at more items than are consumed. Those that
    are there twice, as one that left from behind the first and came back, it yields once."""
    ahead = [(place, at) for at, place in enumerate(heap[:1])]
    tied: list[
        Item
    ] = []  # those yielded that no other is before: equal ones need not come in a row
    while ahead:
        place, at = heappop(ahead)
        if tied and tied[0] < place:  # type: ignore[operator]
            tied.clear()
        if place not in tied:
            yield place
            tied.append(place)
        for below in (2 * at + 1, 2 * at + 2):
            if below < len(heap):
                heappush(ahead, (heap[below], below))


def merged(sources: Iterator[Source[Item]]) -> Iterator[Ranked[Item]]:
    """Merges iterators that are in order, and are given in order. Takes a source, and begins it,
    only once what is before it has been consumed: there may be very many."""
    ahead: list[tuple[Rank, int, Item, Iterator[Ranked[Item]]]] = []
    following, taken = next(sources, None), 0
    while ahead or following is not None:
        if following is None or (ahead and ahead[0][0] < following[0]):
            rank, order, item, rest = ahead[0]
            yield rank, item
            if (found := next(rest, None)) is None:
                heappop(ahead)
            else:
                heapreplace(ahead, (found[0], order, found[1], rest))
        else:
            taken, begun = taken + 1, following[1]
            if (found := next(begun, None)) is not None:
                heappush(ahead, (found[0], taken, found[1], begun))
            following = next(sources, None)


def sweep(heap: list[tuple[int, Item]], stays: Callable[[Item], bool]) -> None:
    """Removes what has left from the first places of a heap."""
    for pair in [heappop(heap) for _ in range(min(SWEPT, len(heap)))]:
        if stays(pair[1]):
            heappush(heap, pair)
