"""Sentences about an array as a whole: its progress and how it ended. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lbd.model import ENDED_NAMES
from lbd.text.job_phrases import HELD

SHOWN = 8  # failed tasks, or jobs, that are named
RATE_KNOWN = 10  # ended tasks from which the rate says when the others end
ALL_SHOWN = SHOWN + 2  # or all, if they are no more: "and 1 more" is no shorter than the one
REASONS_SHOWN = 3
NOT_STARTED = (125, 126, 127)  # exit statuses of lbd too; with a reason they are not the command's
CAUSES = {"timeout": "time limit", "memory": "memory limit"}
INTERRUPTING = ("running", "suspended")


class FailedTask(NamedTuple):
    task: int  # the task's index in the array
    state: str
    exit_status: int | None = None
    signal: int = 0
    cause: str = ""
    reason: str = ""

    @property
    def shown(self) -> str:
        """`7 (exit 1)`."""
        if self.state in ("lost", "cancelled"):
            how = self.state
        elif self.cause in CAUSES:
            how = CAUSES[self.cause]
        elif self.signal:
            how = f"signal {self.signal}"
        else:
            how = f"exit {self.exit_status}" if self.exit_status is not None else "no exit status"
        return f"{self.task} ({how})"


def failed_in(states: Mapping[str, int]) -> int:
    return states.get("failed", 0) + states.get("lost", 0)


def failed_line(states: Mapping[str, int], failed: Sequence[FailedTask]) -> str:
    """Returns `2 of 12 tasks failed: 7 (exit 1), 9 (signal 9)`, or "" if no task failed. `failed`
    holds the first failed tasks, without the cancelled ones."""
    count, cancelled, total = failed_in(states), states.get("cancelled", 0), sum(states.values())
    if not count:
        return were_cancelled(cancelled, f"of {total} tasks ") if cancelled else ""
    others = f"; {were_cancelled(cancelled)}" if cancelled else ""
    return f"{count} of {total} {tasks(total)} failed: {named(failed, count)}{others}"


def named(failed: Sequence[FailedTask], count: int) -> str:
    """Returns the first of `count` failed tasks, or all if these are few."""
    is_all = count <= min(len(failed), ALL_SHOWN)
    shown = ", ".join(task.shown for task in (failed if is_all else failed[:SHOWN]))
    more = count - len(failed[:SHOWN])
    return shown if is_all or more <= 0 else f"{shown} and {more} more"


def why_not_started(failed: Sequence[FailedTask]) -> list[str]:
    """Returns lines like `task 7: ./a: not found`: the first reasons why tasks could not be
    started, each with the first task that has it."""
    first: dict[str, int] = {}
    for one in failed:
        if one.reason and one.exit_status in NOT_STARTED:
            first.setdefault(one.reason, one.task)
    return [f"task {task}: {reason}" for reason, task in first.items()][:REASONS_SHOWN]


def were_cancelled(count: int, of: str = "") -> str:
    return f"{count} {of}{'was' if count == 1 else 'were'} cancelled"


def tasks(count: int) -> str:
    return "task" if count == 1 else "tasks"


def interrupted_line(states: Mapping[str, int], interrupted: int, never_started: int) -> str:
    """Returns the counts that `lbctl job` shows, with their causes. `interrupted`: how many of the
    failed tasks were ended by the interrupting signal; `never_started`: how many of the cancelled
    ones."""
    parts = []
    for count, what, special, why in (
        (states.get("done", 0), "done", 0, ""),
        (failed_in(states), "failed", interrupted, "by the interrupt"),
        (states.get("cancelled", 0), "cancelled", never_started, "never started"),
    ):
        number = "" if special == count else f"{special} "
        if count:
            parts.append(f"{count} {what}" + (f" ({number}{why})" if special else ""))
    return f"interrupted: {', '.join(parts)}"


def still_running(count: int, *, is_array: bool) -> str:
    """Returns the line after the first ^C."""
    what = f"{count} {tasks(count)}" if is_array else "the job"
    force = f"press ^C twice within a second to end {'it' if count == 1 else 'them'} by force"
    return f"waiting for {what}; {force}"


def progress_line(states: Mapping[str, int], left_s: float | None) -> str:
    """`412/1000 done, 3 failed, 20 running, 21 held, about 4 min`. `states` may count held tasks
    apart from the other pending ones, as "held"."""
    parts = [f"{states.get('done', 0)}/{sum(states.values())} done"]
    for count, what in (
        (failed_in(states), "failed"),
        (states.get("cancelled", 0), "cancelled"),
        (running_of(states), "running"),
        (states.get(HELD, 0), HELD),
    ):
        if count:
            parts.append(f"{count} {what}")
    if left_s is not None:
        parts.append(about(left_s))
    return ", ".join(parts)


def ended_of(states: Mapping[str, int]) -> tuple[int, int]:
    """Returns how many tasks have ended, and of how many. Cancelled tasks do not count: they say
    nothing about how long the others take. Nor do held ones: nobody knows when they begin."""
    total = sum(states.values()) - states.get("cancelled", 0) - states.get(HELD, 0)
    return sum(states.get(name, 0) for name in ENDED_NAMES - {"cancelled"}), total


def running_of(states: Mapping[str, int]) -> int:
    return sum(states.get(state, 0) for state in INTERRUPTING)


def about(seconds: float) -> str:
    """Returns a time rounded to one unit, since the estimate is no more precise than that."""
    for unit, unit_s in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * unit_s:
            return f"about {seconds / unit_s:.0f} {unit}"
    return f"about {max(1.0, seconds):.0f} s"


def end_line(ended: int, total: int, running: int, ran_s: float, held: int = 0) -> str:
    """Returns when a partly started array will end, from the rate of tasks ended so far, where no
    forecast is made. `ran_s`: time since its first task began. `held`: how many more tasks are
    held, not part of `total`.

    Each of n running tasks is half done on average, and the longest of the last n has n/(n + 1) of
    its length to run. Before a round of tasks has ended, those that have are the shortest of it."""
    if ended < max(1, min(running, total - ended)):
        return "not known before as many tasks have ended as run at once"
    left = total - ended - running + running**2 / (running + 1)
    left_s = left * ran_s / (ended + running / 2)
    how = "at the rate so far" if ended >= RATE_KNOWN else "a rough guess from the rate so far"
    without = f", without the {held} held" if held else ""
    return f"in {about(left_s)}, {how}: {have_ended(ended, total)}{without}"


def have_ended(ended: int, total: int) -> str:
    return f"{ended} of {total} tasks {'has' if ended == 1 else 'have'} ended"


class Pace:
    """Estimates the time left from the rate at which tasks have ended, measured up to the last one
    that ended. Between two ends the estimate only counts down: with few tasks left, a new estimate
    would grow. The first to end are the shortest of those that began together: nothing is said
    before as many have ended as run at once."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None
        self._last = 0.0, 0
        self._at_once = 0  # the most that ran before the first of those that count had ended

    def left_s(self, ended: int, total: int, running: int, now_s: float) -> float | None:
        """Returns None until it is known."""
        if self._first is None:
            if not (ended or running):  # it waits: that is no time of its tasks
                return None
            self._first = now_s, ended
            self._last = self._first
        if ended != self._last[1]:
            self._last = now_s, ended
        (began_s, before), (seen_s, _) = self._first, self._last
        if ended == before:
            self._at_once = max(self._at_once, running)
        known = ended - before
        if known < max(1, min(self._at_once, total - ended)) or seen_s <= began_s or ended >= total:
            return None
        return max(0.0, (total - ended) * (seen_s - began_s) / known - (now_s - seen_s))
