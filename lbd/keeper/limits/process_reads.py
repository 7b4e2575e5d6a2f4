"""Reads about processes what they may hold up, without waiting for any of them.

To read an environment the kernel takes the lock of the process's memory, and the process's user can
hold that lock for any time, by a page fault that their own FUSE file system never answers. Newer
kernels show /proc/PID/stat only when no exec of the process is under way. So a child reads one
process after the other, and is killed where it gets stuck.
"""

import ctypes
import os
import signal
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NoReturn

from lbd.keeper.interpreter import die_with_keeper
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
        self._child, self._handle, self._pipe = 0, -1, -1
        self._found: dict[int, int | None] = {}

    def answers(self) -> dict[int, int | None] | None:
        """Returns the answer for each process, None for an unreadable one; or None if not all are
        there: ask again shortly."""
        while self._left:
            if self._child or self._begin():
                with suppress(BlockingIOError):
                    if said := os.read(self._pipe, READ_BYTES):
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
        task = process_table.task_of(self._child) if self._child else None
        return task is not None and (task.state == b"R" or task.has_ended)

    def _give_up(self, *, all_of_them: bool) -> None:
        """Gives up on the next process and on all of the same user, who could have very many."""
        self.close()
        uid = self._uid_of(self._left[0])
        for pid in list(self._left):
            if all_of_them or pid == self._left[0] or self._uid_of(pid) == uid:
                self._found[pid] = None
        self._left = [pid for pid in self._left if pid not in self._found]

    def _begin(self) -> bool:
        """Returns False if there are too many processes or descriptors at the moment."""
        self._since_s = time.monotonic()
        try:
            self._pipe, theirs = os.pipe2(os.O_CLOEXEC)
        except OSError:
            return False
        os.set_blocking(self._pipe, False)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._child = os.fork()
            if self._child == 0:
                self._read_all(theirs)
            self._handle = os.pidfd_open(self._child)
        except OSError:
            os.close(self._pipe)
            if self._child:
                os.kill(self._child, signal.SIGKILL)  # not reaped yet, so the pid is still its own
            self._child = 0
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(theirs)
        return bool(self._child)

    def _read_all(self, answer: int) -> NoReturn:
        """Runs in the child. It closes nothing first, because that may also wait for a user's file
        system."""
        with suppress(BaseException):
            die_with_keeper(ctypes.PyDLL(None))
            Urgency().become(urgent=True)
            for pid in self._left:
                os.write(answer, ANSWER.pack(self._read(pid)))
        os._exit(0)

    def close(self) -> None:
        """Ends the reading. The keeper reaps the child like every other."""
        if self._child:
            os.close(self._pipe)
            with suppress(ProcessLookupError):  # already reaped; the pid may be another's
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            os.close(self._handle)
        self._child = 0
