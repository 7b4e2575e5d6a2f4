"""Maps between a task's index and its place in the array, which its number is made of. Pure."""

from bisect import bisect_right
from itertools import accumulate

from lbd.text.index_list import Runs, count_of, read_runs, run_text


class TaskIndexes:
    """The indexes of one array, looked up without visiting all of them."""

    def __init__(self, text: str) -> None:
        self.runs: Runs = read_runs(text)
        self._firsts = [first for first, _, _ in self.runs]
        self._before = [0, *accumulate(count_of((one,)) for one in self.runs)]

    def places(self, low: int, high: int) -> tuple[int, int]:
        """Returns the half-open range of places whose indexes are from `low` to `high`."""
        return self._place(low), max(self._place(low), self._place(high + 1))

    def _place(self, index: int) -> int:
        """Returns how many indexes are below this one."""
        at = bisect_right(self._firsts, index) - 1
        if at < 0:
            return 0
        first, _, step = self.runs[at]
        count = self._before[at + 1] - self._before[at]
        return self._before[at] + min(count, -((first - index) // step))

    def index(self, place: int) -> int:
        at = bisect_right(self._before, place) - 1
        first, _, step = self.runs[at]
        return first + (place - self._before[at]) * step

    def between(self, begin: int, end: int, most: int) -> str:
        """Returns the indexes at places `begin` to `end`, both included, as people write them; at
        most `most` runs."""
        parts: list[str] = []
        while begin <= end and len(parts) < most:
            at = bisect_right(self._before, begin) - 1
            last = min(end, self._before[at + 1] - 1)
            parts.append(run_text((self.index(begin), self.index(last), self.runs[at][2])))
            begin = last + 1
        return ",".join([*parts, "…"] if begin <= end else parts)
