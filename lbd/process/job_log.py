"""What a daemon says of jobs: the job's id is on each such line, and the last of them are kept.

Whatever concerns a job is said by a JobLog, which alone puts the id on lines: as `lbctl jobs`
prints it, so that `lbctl logs --daemons ID` finds them on every host. Lines of a level that is not
logged now are kept all the same, since who looks for them looks afterwards. They are kept in
memory: to write a file would cost each short command more than all else that is done for it.
"""

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from lbd.text.one_line import one_line

ID_CHARS_MAX = 128
LINE_CHARS_MAX = 500
KEPT_LINES, KEPT_CHARS, KEPT_S = 4000, 1 << 20, 7 * 86400.0
# Beyond these, until the oldest are dropped together: their memory is in no cache any more, so that
# one for each new one cost more than all else of a line.
MORE_LINES, MORE_CHARS = 500, 1 << 16
STEP_CHARS = 40  # as a line has beside what differs
SHOWN_LINES, SHOWN_CHARS = 1000, 1 << 16  # of one job, in one answer
LEVELS = {
    logging.DEBUG: "debug", logging.INFO: "info", logging.WARNING: "warning",
    logging.ERROR: "error",
}  # fmt: skip


class Line(NamedTuple):
    unix_s: float
    level: str
    job: str
    text: str

    @property
    def size(self) -> int:
        return len(self.job) + len(self.text)

    def line(self) -> "Line":
        return self


class Step(NamedTuple):
    """What led from one phase to another: each command has several, and most are never looked at.
    So they become lines when somebody does."""

    unix_s: float
    job: str
    of: str
    what: str
    where: str
    why: str
    before: Enum
    after: Enum

    @property
    def size(self) -> int:
        return STEP_CHARS + len(self.job) + len(self.of) + len(self.where) + len(self.why)

    @property
    def text(self) -> str:
        details = ", ".join(one for one in (self.where, self.why) if one)
        what = f"{words_of(self.what)} ({details})" if details else words_of(self.what)
        return f"{self.of}{what}, {self.before.value} → {self.after.value}"

    def line(self) -> Line:
        return Line(self.unix_s, "debug", self.job, self.text[:LINE_CHARS_MAX])


class RecentLines:
    """The last ones about jobs, as many as there is room for."""

    def __init__(
        self, lines: int = KEPT_LINES, chars: int = KEPT_CHARS, age_s: float = KEPT_S
    ) -> None:
        self._kept: deque[Line | Step] = deque()
        self._chars, self._chars_max, self._age_s = 0, chars, age_s
        self._lines_max = lines
        self._lock = threading.Lock()

    def add(self, line: Line | Step) -> None:
        with self._lock:
            self._kept.append(line)
            self._chars += line.size
            lines, chars = len(self._kept) - self._lines_max, self._chars - self._chars_max
            if lines > MORE_LINES or chars > MORE_CHARS:
                self._drop_oldest()

    def of(self, job: str, unix_s: float) -> tuple[list[Line], bool]:
        """The last ones about a job, the oldest first; and whether there are older ones."""
        with self._lock:
            self._drop_oldest()
            kept = list(self._kept)
        since = unix_s - self._age_s
        found = [line.line() for line in kept if line.unix_s >= since and concerns(line.job, job)]
        shown, is_cut = newest(found)
        return [one._replace(text=one_line(one.text, LINE_CHARS_MAX)) for one in shown], is_cut

    def _drop_oldest(self) -> None:
        kept = self._kept
        while kept and (
            len(kept) > self._lines_max
            or self._chars > self._chars_max
            or kept[0].unix_s < kept[-1].unix_s - self._age_s
        ):
            self._chars -= kept.popleft().size


def newest(lines: Sequence[Line]) -> tuple[list[Line], bool]:
    """As many of the last ones as one answer may have; and whether there are others."""
    room, count = SHOWN_CHARS, 0
    for line in reversed(lines[-SHOWN_LINES:]):
        room -= line.size
        if room < 0:
            break
        count += 1
    return list(lines[len(lines) - count :]), count < len(lines)


RECENT = RecentLines()  # of this process


def concerns(job: str, asked: str) -> bool:
    """Whether a line about `job` is for who asks about `asked`: that of an array is for who asks
    about one of its tasks, and the other way round."""
    return job == asked or array_of(job) == asked or job == array_of(asked)


def array_of(job: str) -> str | None:
    """12 for 12_7; None for what is no task of an array."""
    array, _, index = job.partition("_")
    return array if array.isdecimal() and index.isdecimal() else None


class JobLog:
    """A logger of lines about jobs."""

    def __init__(self, logger: logging.Logger, recent: RecentLines = RECENT) -> None:
        self._logger, self._recent = logger, recent

    def step(self, job: str, event: object, before: Enum, after: Enum, of: str = "") -> None:
        """`event` has led from one phase to another; nothing if it has not."""
        if after is before:
            return
        where, why = getattr(event, "host", ""), getattr(event, "reason", "")
        step = Step(
            time.time(), printable_id(job), of, type(event).__name__,
            str(where)[:LINE_CHARS_MAX] if where else "", str(why)[:LINE_CHARS_MAX] if why else "",
            before, after,
        )  # fmt: skip
        if step.job:
            self._recent.add(step)
        if self._logger.isEnabledFor(logging.DEBUG):
            self._logger.debug("%s", step.text, extra={"job": step.job}, stacklevel=2)

    def debug(self, job: str, text: str, *words: object) -> None:
        self._say(logging.DEBUG, job, text, words)

    def info(self, job: str, text: str, *words: object) -> None:
        self._say(logging.INFO, job, text, words)

    def warning(self, job: str, text: str, *words: object) -> None:
        self._say(logging.WARNING, job, text, words)

    def error(
        self, job: str, text: str, *words: object, problem: BaseException | None = None
    ) -> None:
        """With the traceback of `problem`, if there is one."""
        self._say(logging.ERROR, job, text, words, problem)

    def _say(
        self,
        level: int,
        job: str,
        text: str,
        words: tuple[object, ...],
        problem: BaseException | None = None,
    ) -> None:
        named, said = printable_id(job), text % words
        if named:
            kept = said if problem is None else f"{said}: {problem!r}"
            self._recent.add(Line(time.time(), LEVELS[level], named, kept[:LINE_CHARS_MAX]))
        if self._logger.isEnabledFor(level):
            about = {"job": named}
            self._logger.log(level, "%s", said, exc_info=problem, extra=about, stacklevel=3)


def printable_id(job: str) -> str:
    is_plain = len(job) <= ID_CHARS_MAX and job.isprintable()
    return job if is_plain else one_line(job, ID_CHARS_MAX)


@lru_cache(maxsize=256)
def words_of(name: str) -> str:
    """ "not started" of NotStarted."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()


def text_of(record: logging.LogRecord) -> str:
    """What a record says, with the job that it is about."""
    job = getattr(record, "job", "")
    return f"job {job}: {record.getMessage()}" if job else record.getMessage()
