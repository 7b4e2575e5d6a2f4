"""The latest submissions' data for starting attempts; all tasks of an array share one entry.

Each may have a standard input of megabytes, so their total size is bounded. Pure.
"""

from collections import OrderedDict
from typing import Generic, TypeVar

BYTES_MAX = 1 << 20  # in total; a single larger one is kept until the next
Spec = TypeVar("Spec")


class Specs(Generic[Spec]):
    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._specs: OrderedDict[int, tuple[Spec, int]] = OrderedDict()
        self._bytes = 0

    def get(self, submission: int) -> Spec | None:
        found = self._specs.get(submission)
        if found is None:
            return None
        self._specs.move_to_end(submission)
        return found[0]

    def forget(self, submission: int) -> None:
        if (known := self._specs.pop(submission, None)) is not None:
            self._bytes -= known[1]

    def keep(self, submission: int, spec: Spec, size_bytes: int) -> None:
        if submission in self._specs:
            self._bytes -= self._specs.pop(submission)[1]
        self._specs[submission] = spec, size_bytes
        self._bytes += size_bytes
        while self._bytes > self._bytes_max and len(self._specs) > 1:
            self._bytes -= self._specs.popitem(last=False)[1][1]
