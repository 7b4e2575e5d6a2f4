"""When an array ends whose tasks take about the same time: its rest, played task by task. Pure.

Such tasks end in rounds, and at each end of one the number at once is decided again (DAA). Whether
it falls from four to three with eight tasks left makes a whole round of difference, which no
formula for the mean of exponential tasks says. So the rule itself is played.
"""

from bisect import insort
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

PLAYED_MAX = 64  # waiting tasks; some 5 µs each


def played_s(
    waiting: int, left_s: Sequence[float], free_s: Sequence[float], mean_s: float, slots: int,
    decide: Callable[[int, int, float], int],
) -> float:  # fmt: skip
    """Returns when the last task ends, from now, if each that waits takes `mean_s`. `left_s`: what
    is left of those that run; `free_s`: when each slot that it may also have comes free; `decide`:
    on how many slots it goes on that had so many, with so many tasks left, at that time. Raises
    ValueError where there is no slot."""
    if not (left_s or free_s):
        raise ValueError("no slot: must be 1 or more")
    ends_s, free = list(left_s), sorted(free_s)
    heapify(ends_s)
    while True:
        while waiting and free and (not ends_s or len(ends_s) < slots):
            heappush(ends_s, free.pop(0) + mean_s)
            waiting -= 1
        if not waiting:
            return max(ends_s)
        at_s = heappop(ends_s)
        free = [max(at_s, one_s) for one_s in free]
        insort(free, at_s)
        slots = decide(slots, waiting + len(ends_s), at_s)
