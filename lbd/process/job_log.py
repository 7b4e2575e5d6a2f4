"""A daemon's log lines about jobs: each carries the job's id, and the last ones are kept.

All messages about a job go through a JobLog, which alone adds the id to lines: in the form of
`lbctl jobs`, so that `lbctl logs --daemons ID` finds them on every host. Lines below the current
log level are kept too, since people look for them afterwards. They are kept in memory: writing a
file would cost more than all other work for a short command.
"""

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache, partial
from typing import NamedTuple, TypeVar

from lbd.local.rate_limit import Rates
from lbd.text.one_line import one_line

ID_CHARS_MAX = 128
LINE_CHARS_MAX = 500
KEPT_LINES, KEPT_S = 4000, 7 * 86400.0  # about 1 MB; 18 MB at most, outside ASCII
NEWS_PER_S, NEWS_AT_ONCE = 10.0, 1000.0  # further ones are only kept
SHOWN_LINES, SHOWN_CHARS = 1000, 1 << 16  # of one job, in one answer
LEVELS = {
    logging.DEBUG: "debug", logging.INFO: "info", logging.WARNING: "warning",
    logging.ERROR: "error",
}  # fmt: skip


About = TypeVar("About")


class Line(NamedTuple):
    unix_s: float
    level: str
    job: str
    text: str

    def line(self) -> "Line":
        return self


class Step(NamedTuple):
    """A change from one phase to another. Each command has several and most are never looked at, so
    a step becomes a line only when somebody asks."""

    unix_s: float
    job: str
    of: str
    what: str
    where: str
    why: str
    before: Enum
    after: Enum

    @property
    def text(self) -> str:
        details = ", ".join(one for one in (self.where, self.why) if one)
        what = f"{words_of(self.what)} ({details})" if details else words_of(self.what)
        return f"{self.of}{what}, {self.before.value} → {self.after.value}"

    def line(self) -> Line:
        return Line(self.unix_s, "debug", printable_id(self.job), self.text[:LINE_CHARS_MAX])


class Later(NamedTuple):
    """A debug line of which the text, too, is only made when somebody asks."""

    unix_s: float
    job: str
    phrase: Callable[[], str]

    def line(self) -> Line:
        return Line(self.unix_s, "debug", printable_id(self.job), self.phrase()[:LINE_CHARS_MAX])


class RecentLines:
    """The last lines about jobs. Threads may share it: each method touches `_kept` in one step."""

    def __init__(self, lines: int = KEPT_LINES, age_s: float = KEPT_S) -> None:
        """Keeps `lines` of them, and returns those of the last `age_s` only."""
        self._kept: deque[Line | Step | Later] = deque(maxlen=lines)
        self._age_s = age_s
        self.add = self._kept.append

    def of(self, job: str, unix_s: float) -> tuple[list[Line], bool]:
        """Returns the last lines about a job, oldest first, and whether there are older ones."""
        since = unix_s - self._age_s
        kept = list(self._kept)
        found = [line.line() for line in kept if line.unix_s >= since and concerns(line.job, job)]
        shown, is_cut = newest(found)
        return [one._replace(text=one_line(one.text, LINE_CHARS_MAX)) for one in shown], is_cut


def newest(
    lines: Sequence[Line], most: int | None = None, chars: int | None = None
) -> tuple[list[Line], bool]:
    """Returns as many of the last lines as fit one answer, or that much of it, and whether there
    are others."""
    most = SHOWN_LINES if most is None else most
    room, count = SHOWN_CHARS if chars is None else chars, 0
    for line in reversed(lines[-most:] if most else ()):
        room -= size_of(line)
        if room < 0:
            break
        count += 1
    return list(lines[len(lines) - count :]), count < len(lines)


def size_of(line: Line) -> int:
    return len(line.job) + len(line.text)


RECENT = RecentLines()  # of this process


def concerns(job: str, asked: str) -> bool:
    """Returns whether a line about `job` is relevant to a question about `asked`: lines about an
    array are relevant to its tasks, and the other way round."""
    return job == asked or array_of(job) == asked or job == array_of(asked)


def array_of(job: str) -> str | None:
    """Returns 12 for 12_7; None if it is not a task of an array."""
    array, _, index = job.partition("_")
    return array if array.isdecimal() and index.isdecimal() else None


class JobLog:
    """A logger for lines about jobs."""

    def __init__(self, logger: logging.Logger, recent: RecentLines = RECENT) -> None:
        self._logger, self._recent = logger, recent
        self._news = Rates(NEWS_PER_S, NEWS_AT_ONCE)

    def step(self, job: str, event: object, before: Enum, after: Enum, of: str = "") -> None:
        """Records that `event` led from one phase to another; nothing if the phase is the same."""
        if after is before:
            return
        where, why = getattr(event, "host", ""), getattr(event, "reason", "")
        step = Step(
            time.time(), job[:ID_CHARS_MAX], of, event.__class__.__name__,
            str(where)[:LINE_CHARS_MAX] if where else "", str(why)[:LINE_CHARS_MAX] if why else "",
            before, after,
        )  # fmt: skip
        if step.job:
            self._recent.add(step)
        if self._logger.isEnabledFor(logging.DEBUG):
            about = {"job": printable_id(job)}
            self._logger.debug("%s", step.text, extra=about, stacklevel=2)

    def debug(self, job: str, text: str, *words: object) -> None:
        self._say(logging.DEBUG, job, text, words)

    def debug_later(self, job: str, phrase: Callable[[About], str], about: About) -> None:
        """The same for what happens to each job: `phrase` puts into words what `about`, which never
        changes, says."""
        if job:
            self._recent.add(Later(time.time(), job[:ID_CHARS_MAX], partial(phrase, about)))
        if self._logger.isEnabledFor(logging.DEBUG):
            named = {"job": printable_id(job)}
            self._logger.debug("%s", phrase(about), extra=named, stacklevel=2)

    def news(self, job: str, text: str, *words: object) -> None:
        """Logs what people look for afterwards: info, unless so much of it comes that other lines
        would be lost; then debug."""
        is_rare = self._news.turn_s("", time.monotonic(), 0.0) is not None
        self._say(logging.INFO if is_rare else logging.DEBUG, job, text, words)

    def info(self, job: str, text: str, *words: object) -> None:
        self._say(logging.INFO, job, text, words)

    def warning(self, job: str, text: str, *words: object) -> None:
        self._say(logging.WARNING, job, text, words)

    def error(
        self, job: str, text: str, *words: object, problem: BaseException | None = None
    ) -> None:
        """Includes the traceback of `problem`, if given."""
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
    """Returns "not started" for NotStarted."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()


def text_of(record: logging.LogRecord) -> str:
    """Returns a record's text, with the job it is about."""
    job = getattr(record, "job", "")
    return f"job {job}: {record.getMessage()}" if job else record.getMessage()
