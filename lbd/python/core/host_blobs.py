"""Which large arguments the workers of one host hold, and which are on their way there.

A worker that is alone on its host keeps its blobs in private memory, which takes half the time of
shared memory. It shares them once a second worker joins.
"""

from collections import OrderedDict
from collections.abc import Mapping, Set


class HostBlobs:
    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held: OrderedDict[bytes, int] = OrderedDict()  # least recently used first
        self._coming: dict[bytes, tuple[int, int]] = {}  # worker that receives it, size in bytes
        self._owners: dict[bytes, int] = {}  # of private blobs

    def can_hold(self, worker: int, blobs: Mapping[bytes, int], in_use: Set[bytes]) -> bool:
        """Returns whether all blobs are held or can come by that worker, beside those `in_use`."""
        if any(self._coming.get(blob, (worker, 0))[0] != worker for blob in blobs):
            return False
        kept = sum(size for blob, size in self._held.items() if blob in in_use or blob in blobs)
        coming = sum(size for _, size in self._coming.values())
        return kept + coming + self.lacking_bytes(blobs) <= self._limit_bytes

    def lacking_bytes(self, blobs: Mapping[bytes, int]) -> int:
        known = self._held.keys() | self._coming.keys()
        return sum(size for blob, size in blobs.items() if blob not in known)

    def bring(
        self, worker: int, blobs: Mapping[bytes, int], in_use: Set[bytes], *, is_alone: bool
    ) -> tuple[list[bytes], list[bytes]]:
        """Returns the blobs to drop for room, and the blobs to send. If the worker is alone on its
        host, the sent blobs are private to it."""
        dropped: list[bytes] = []
        sent: list[bytes] = []
        for blob, size in blobs.items():
            if blob in self._held:
                self._held.move_to_end(blob)
            elif blob not in self._coming:
                idle = [old for old in self._held if old not in in_use and old not in blobs]
                while idle and self._size_bytes() + size > self._limit_bytes:
                    dropped.append(idle.pop(0))
                    self.lost(dropped[-1])
                self._coming[blob] = worker, size
                if is_alone:
                    self._owners[blob] = worker
                sent.append(blob)
        return dropped, sent

    def _size_bytes(self) -> int:
        return sum(self._held.values()) + sum(size for _, size in self._coming.values())

    def stored(self, worker: int, blob: bytes) -> None:
        by, size = self._coming.get(blob, (None, 0))
        if by == worker:
            del self._coming[blob]
            self._held[blob] = size

    def share(self) -> list[tuple[int, bytes]]:
        """Returns each private blob with its owner, which is to store it again as a shared one."""
        found = [(worker, blob) for blob, worker in self._owners.items() if blob in self._held]
        for worker, blob in found:
            self._coming[blob] = worker, self._held.pop(blob)
            del self._owners[blob]
        return found

    def lost(self, blob: bytes) -> None:
        self._held.pop(blob, None)
        self._owners.pop(blob, None)

    def worker_ended(self, worker: int) -> None:
        """Forgets the blobs that were on their way to this worker, and its private ones."""
        self._coming = {blob: by for blob, by in self._coming.items() if by[0] != worker}
        for blob in [blob for blob, owner in self._owners.items() if owner == worker]:
            self.lost(blob)
