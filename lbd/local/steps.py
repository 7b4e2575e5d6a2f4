"""Long work on many items in short steps, between which others are served."""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

STEP_S = 0.02
Item = TypeVar("Item")


class Steps(Generic[Item]):
    """To iterate over it takes one step: by time, since what is done with an item may take a
    microsecond or a millisecond."""

    def __init__(self, items: Iterable[Item], clock_s: Callable[[], float]) -> None:
        self._items, self._clock_s = iter(items), clock_s
        self.is_left = True  # whether there may be another step

    def __iter__(self) -> Iterator[Item]:
        until_s = self._clock_s() + STEP_S
        for item in self._items:
            yield item
            if self._clock_s() >= until_s:
                return
        self.is_left = False
