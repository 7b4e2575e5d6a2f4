"""How other jobs must end before a job joins the queue, and the phrases for that. Pure.

The ledger stores the conditions of a submission as one text, separated by blanks: `ok:12-12:12`,
`failed:20-29:20` (an array, all of its tasks), `any:25-25:20_6`. `--after-task` is
`task:20-29:1-10`, with the array's indexes; each task of the submission waits for its counterpart.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from lbd.text.one_line import one_line
from lbd.text.task_indexes import TaskIndexes

SHOWN = 4  # jobs, in a reason
SHOWN_CHARS = 40
JOBS_MAX = 10_000_000  # of one array, as in dispatch.max_array
TASK = "task"
REMEMBERED = 8  # texts: the jobs of a submission come one after the other


class How(Enum):
    OK = "ok"
    FAILED = "failed"  # in any way, including cancelled or lost
    ANY = "any"


HOWS = {how.value: how for how in How}
PHRASES = {How.OK: "succeeded", How.FAILED: "failed", How.ANY: "ended"}


class Condition(NamedTuple):
    """All of these jobs have ended in this way; for an array, FAILED means at least one task."""

    how: How
    first: int
    last: int
    shown: str  # id as people know it


def written(conditions: Iterable[tuple[str, int, int, str]]) -> str:
    """Encodes conditions. `how` may be TASK; then the last value is the array's indexes."""
    return " ".join(f"{how}:{first}-{last}:{rest}" for how, first, last, rest in conditions)


def conditions_of(text: str, array_index: int | None) -> tuple[Condition, ...]:
    """Returns the conditions of the job with this index. Raises ValueError."""
    read = conditions_in(text)
    if not read.tasks:
        return read.common
    if array_index is None:
        raise ValueError("each task must wait for its counterpart, and this is not a task")
    own = [
        Condition(How.OK, number, number, f"{first}_{array_index}")
        for first, indexes in read.tasks
        for number in (first + indexes.places(array_index, array_index)[0],)
    ]
    return (*read.common, *own)


class Read(NamedTuple):
    common: tuple[Condition, ...]  # of all jobs of the submission
    tasks: tuple[tuple[int, TaskIndexes], ...]  # arrays whose tasks each job waits for one by one


@lru_cache(maxsize=REMEMBERED)  # else a long text would be parsed again for each task of an array
def conditions_in(text: str) -> Read:
    """Raises ValueError."""
    common: list[Condition] = []
    tasks: list[tuple[int, TaskIndexes]] = []
    for word in text.split():
        how, numbers, rest = word.split(":", 2)
        low, _, high = numbers.partition("-")
        first, last = int(low), int(high)
        if not 0 < first <= last < first + JOBS_MAX or how not in (TASK, *HOWS):
            raise ValueError(f"cannot wait for {one_line(word, SHOWN_CHARS)!r}")
        if how == TASK:
            tasks.append((first, TaskIndexes(rest)))
        else:
            common.append(Condition(HOWS[how], first, last, rest))
    return Read(tuple(common), tuple(tasks))


def waited_for(conditions: Sequence[Condition]) -> str:
    """Describes what has yet to happen: "after 12 and 13 have succeeded, after 14 has failed"."""
    parts = []
    for how, phrase in PHRASES.items():
        if shown := [one.shown for one in conditions if one.how is how]:
            parts.append(f"after {listed(shown)} {'have' if shown[1:] else 'has'} {phrase}")
    return ", ".join(parts)


def listed(names: Sequence[str]) -> str:
    if len(names) > SHOWN:
        return f"{', '.join(names[:SHOWN])} and {len(names) - SHOWN} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def why_never(condition: Condition, *, on_record: bool) -> str:
    """Returns why this condition can no longer be met."""
    shown, is_array = condition.shown, condition.last > condition.first
    if not on_record:
        return f"it was waiting for job {shown}, whose outcome is no longer on record"
    if condition.how is How.FAILED:
        which = "all its tasks" if is_array else "it"
        return f"it was waiting for {shown} to fail, but {which} succeeded"
    which = f"a task of {shown}" if is_array else "it"
    return f"it was waiting for {shown} to succeed, but {which} did not"
