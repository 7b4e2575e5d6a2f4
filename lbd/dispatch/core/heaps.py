"""Heaps that are read in order, and whose items may leave from behind the first. Pure."""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import TypeVar

SWEPT = 200  # places of a heap that one sweep looks at
Item = TypeVar("Item")


def in_order(heap: Sequence[Item]) -> Iterator[Item]:
    """Yields a heap's items in order, without looking at more items than are consumed."""
    ahead = [(place, at) for at, place in enumerate(heap[:1])]
    while ahead:
        place, at = heappop(ahead)
        yield place
        for below in (2 * at + 1, 2 * at + 2):
            if below < len(heap):
                heappush(ahead, (heap[below], below))


def sweep(heap: list[tuple[int, Item]], stays: Callable[[Item], bool]) -> None:
    """Removes what has left from the first places of a heap."""
    for pair in [heappop(heap) for _ in range(min(SWEPT, len(heap)))]:
        if stays(pair[1]):
            heappush(heap, pair)
