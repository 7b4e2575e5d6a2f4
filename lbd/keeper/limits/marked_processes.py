"""Which processes have a mark in their environment, asked without waiting for any of them.

To read an environment the kernel takes the lock of the process's memory, and the process's user can
hold that for as long as they like: by a page fault that their own FUSE file system never answers.
So a child reads one after the other, and is killed where it does not get on.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NoReturn

from lbd.keeper.interpreter import die_with_keeper
from lbd.load import process_table

PATIENCE_S = 0.5  # with one process; it takes microseconds, once there is a processor for it
YES, NO = b"1", b"0"
READ_BYTES = 1 << 16


class MarkLook:
    """At some processes."""

    def __init__(
        self,
        pids: Iterable[int],
        is_marked: Callable[[int], bool],
        uid_of: Callable[[int], int],
        until_s: float = float("inf"),
    ) -> None:
        """`until_s`, on the monotonic clock: what has not been read by then cannot be read."""
        self._left, self._is_marked, self._uid_of = list(pids), is_marked, uid_of
        self._until_s, self._since_s = until_s, 0.0
        self._child, self._handle, self._pipe = 0, -1, -1
        self._found: dict[int, bool | None] = {}

    def answers(self) -> dict[int, bool | None] | None:
        """By process; None: it cannot be read. None as a whole: not yet, ask again shortly."""
        while self._left:
            if self._child or self._begin():
                with suppress(BlockingIOError):
                    if said := os.read(self._pipe, READ_BYTES):
                        self._heard(said)
                    else:  # it was killed
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
        read, self._left = self._left[: len(said)], self._left[len(said) :]
        self._found |= {pid: one == YES[0] for pid, one in zip(read, said, strict=True)}
        self._since_s = time.monotonic()

    def _gets_on(self) -> bool:
        """It waits for nobody's memory: others keep the processors busy, or it has answered and
        ended since we read."""
        task = process_table.task_of(self._child) if self._child else None
        return task is not None and (task.state == b"R" or task.has_ended)

    def _give_up(self, *, all_of_them: bool) -> None:
        """On the next one, and on all of the same user's: else they could be very many."""
        self.close()
        uid = self._uid_of(self._left[0])
        for pid in list(self._left):
            if all_of_them or pid == self._left[0] or self._uid_of(pid) == uid:
                self._found[pid] = None
        self._left = [pid for pid in self._left if pid not in self._found]

    def _begin(self) -> bool:
        """Returns False if there are too many processes, or descriptors, just now."""
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
                os.kill(self._child, signal.SIGKILL)  # it is not reaped yet
            self._child = 0
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(theirs)
        return bool(self._child)

    def _read_all(self, answer: int) -> NoReturn:
        """In the child, which closes nothing before: that too may wait for a user's file system."""
        with suppress(BaseException):
            die_with_keeper(ctypes.PyDLL(None))
            for pid in self._left:
                os.write(answer, YES if self._is_marked(pid) else NO)
        os._exit(0)

    def close(self) -> None:
        """Ask no more. The keeper reaps it, as it does every child."""
        if self._child:
            os.close(self._pipe)
            with suppress(ProcessLookupError):  # it is reaped, and another may have its number
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            os.close(self._handle)
        self._child = 0
