"""The thread of the accounting: what is to be recorded goes before questions, and of these so many
wait and no more."""

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from itertools import count
from typing import TypeVar

from lbd.errors import Unavailable
from lbd.lbm.usage.writer import UsageWriter
from lbd.local.unwanted_descriptors import is_started

log = logging.getLogger("lbd.lbm")

RETRY_S = 5.0
QUESTIONS_MAX = 64  # that wait for the thread
ANSWER_S = 10.0
Found = TypeVar("Found")


class AccountingThread:
    def __init__(self, own: str, writer: UsageWriter) -> None:
        """`own`: this host's name."""
        self._own, self._writer = own, writer
        # False sorts first: what is no question. None ends the thread.
        self._works: queue.PriorityQueue[tuple[bool, int, Callable[[], None] | None]]
        self._works, self._numbers = queue.PriorityQueue(), count()
        self._questions = 0  # that the thread has not passed yet
        self._thread: threading.Thread | None = None
        self._is_ending = False

    def do(self, work: Callable[[], None], *, is_question: bool = False) -> bool:
        """Gives the thread a task. Returns False if it does not start."""
        if self._thread is None or not self._thread.is_alive():  # it ended later than waited for
            # A daemon thread, because a disk that hangs must not keep us from ending.
            thread = threading.Thread(target=self._run, name="accounting", daemon=True)
            if not is_started(thread):
                return False
            self._thread, self._is_ending = thread, False
        self._works.put((is_question, next(self._numbers), work))
        return True

    async def ask(self, question: Callable[[], Found]) -> Found:
        """Returns the answer. If it is cancelled it returns once the thread has passed the
        question: so who asks and hangs up has as few waiting as who stays. Raises Unavailable, and
        what the question raises."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Found] = loop.create_future()
        is_wanted = True

        def settle(found: Found | None, problem: Exception | None) -> None:
            self._questions -= 1
            if answer.done():
                return
            if problem is not None:
                answer.set_exception(problem)
                answer.exception()  # marks it as seen: nobody may be waiting any more
            else:
                answer.set_result(found)  # type: ignore[arg-type]  # one of the two is there

        def work() -> None:
            found, problem = None, None
            try:
                found = question() if is_wanted else None
            except Exception as raised:
                problem = raised
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settle, found, problem)

        if self._questions >= QUESTIONS_MAX or not self.do(work, is_question=True):
            raise Unavailable(f"{self._own}'s accounting is too far behind")
        self._questions += 1
        try:
            async with asyncio.timeout(ANSWER_S):
                return await asyncio.shield(answer)
        except TimeoutError:
            raise Unavailable(f"{self._own}'s accounting does not answer") from None
        except asyncio.CancelledError:
            is_wanted = False
            await asyncio.wait((answer,), timeout=ANSWER_S)
            raise
        finally:
            is_wanted = False
            answer.cancel()

    def end(self, within_s: float) -> bool:
        """Has the thread end after what is to be recorded. Returns False if it does not in time."""
        if self._thread is None:
            return True
        if not self._is_ending:
            self._is_ending = True
            self._works.put((False, next(self._numbers), None))
        self._thread.join(within_s)
        if self._thread.is_alive():
            return False
        self._thread = None  # another is started if there is more to do
        return True

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except Exception:  # the next tasks are unrelated
                log.exception("error in the job accounting")
        self._writer.store.close()

    def _next(self) -> Callable[[], None] | None:
        try:
            return self._works.get(timeout=RETRY_S if self._writer.is_behind else None)[-1]
        except queue.Empty:
            return self._writer.write
