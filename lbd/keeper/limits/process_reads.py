"""Reads about processes what they may hold up, without waiting for any of them.

To read an environment the kernel takes the lock of the process's memory, and the process's user can
hold that lock for any time, by a page fault that their own FUSE file system never answers. Newer
kernels show /proc/PID/stat only when no exec of the process is under way. So a child reads one
process after the other, and is killed where it gets stuck.
"""

import os
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from lbd.keeper.side_child import SideChild
from lbd.load import process_table
from lbd.process.urgency import Urgency

PATIENCE_S = 0.5  # for one process, which takes microseconds once a processor is free
ANSWER = struct.Struct("<q")  # a pipe never holds a part of one: see PIPE_BUF in pipe(7)
READ_BYTES = 8192 * ANSWER.size


class ProcessReads:
    """Puts a question about each of some processes, which a number answers."""

    def __init__(
        self,
        pids: Iterable[int],
        read: Callable[[int], int],
        uid_of: Callable[[int], int],
        until_s: float = float("inf"),
    ) -> None:
        """`until_s`: on the monotonic clock; processes not read by then count as unreadable."""
        self._left, self._read, self._uid_of = list(pids), read, uid_of
        self._until_s, self._since_s = until_s, 0.0
        self._child: SideChild | None = None
        self._found: dict[int, int | None] = {}

    def answers(self) -> dict[int, int | None] | None:
        """Returns the answer for each process, None for an unreadable one; or None if not all are
        there: ask again shortly."""
        while self._left:
            if child := self._child or self._begin():
                with suppress(BlockingIOError):
                    if said := os.read(child.pipe, READ_BYTES):
                        self._heard(said)
                    else:  # the child was killed
                        self._give_up(all_of_them=False)
                    continue
            now_s = time.monotonic()
            if now_s < min(self._until_s, self._since_s + PATIENCE_S):
                return None
            if now_s < self._until_s and self._gets_on():
                self._since_s = now_s
                return None
            self._give_up(all_of_them=now_s >= self._until_s)
        self.close()
        return self._found

    def _heard(self, said: bytes) -> None:
        numbers = [number for (number,) in ANSWER.iter_unpack(said)]
        read, self._left = self._left[: len(numbers)], self._left[len(numbers) :]
        self._found |= zip(read, numbers, strict=True)
        self._since_s = time.monotonic()

    def _gets_on(self) -> bool:
        """Returns whether the child is not blocked on a process's memory: it waits for a processor,
        or has answered and ended since the last read."""
        task = process_table.task_of(self._child.pid) if self._child else None
        return task is not None and (task.state == b"R" or task.has_ended)

    def _give_up(self, *, all_of_them: bool) -> None:
        """Gives up on the next process and on all of the same user, who could have very many."""
        self.close()
        uid = self._uid_of(self._left[0])
        for pid in list(self._left):
            if all_of_them or pid == self._left[0] or self._uid_of(pid) == uid:
                self._found[pid] = None
        self._left = [pid for pid in self._left if pid not in self._found]

    def _begin(self) -> SideChild | None:
        """Returns None if there are too many processes or descriptors at the moment."""
        self._since_s = time.monotonic()
        with suppress(OSError):
            self._child = SideChild(self._read_all)
        return self._child

    def _read_all(self, answer: int) -> None:
        """Runs in the child."""
        Urgency().become(urgent=True)
        for pid in self._left:
            os.write(answer, ANSWER.pack(self._read(pid)))

    def close(self) -> None:
        """Ends the reading."""
        if self._child:
            self._child.close()
        self._child = None
