"""Which jobs a user means by `3`, `2-5`, `12_7`, `12_[3-5]`, `last`, `@me`, and how errors of many
jobs are summarised. Pure."""

import contextlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from lbd.dispatch.core.ledger_rows import SubmissionRange, Wanted
from lbd.errors import ConfigError, LbdError
from lbd.text.index_list import Run, Runs, count_of, read_part, run, shown_runs
from lbd.text.ranges import merged
from lbd.text.task_indexes import TaskIndexes

Problem = tuple[str, str]  # a job's id, and why nothing was done with it
LARGEST = (1 << 63) - 1
HOW = "use 3, 2-5, 12_7, 12_[3-5], last or @me; by name: lbctl jobs --name PATTERN"
LINES_MAX = 20  # for jobs named by themselves that have the same error
SELECTORS_MAX = 100_000  # in one question, as many as jobs in one answer


def read_selectors(texts: Iterable[str], user: str, last: int | None, how: str = HOW) -> Wanted:
    """`last`: the job that this user submitted last, if any. `how`: what an id looks like, for the
    message. Raises ConfigError."""
    wanted = Wanted(ended_too=True)
    ranges: list[tuple[int, int]] = []
    tasks: list[tuple[int, Runs]] = []
    for text in dict.fromkeys(texts):
        if is_last(text) and last is None:
            raise ConfigError(no_last(user))
        if text == "@me":
            wanted = replace(wanted, user=user)
        elif "_" in text:
            tasks.append(read_tasks(text, how, last))
        elif text == "last" and last is not None:
            ranges.append((last, last))
        else:
            ranges.append(read_range(text, how))
    return replace(wanted, ranges=tuple(ranges), tasks=tuple(tasks))


def is_last(text: str) -> bool:
    """Whether the text selects the user's last job, or tasks of it: `last`, `last_7`."""
    return text == "last" or text.startswith("last_")


def with_last(text: str, job: str) -> str:
    """Returns such a text with the job's id in place of `last`."""
    return job + text.removeprefix("last")


def no_last(user: str) -> str:
    """Says that `last` means no job: it is the last one in the queue."""
    return (
        f"last: {user} has not queued any job (lbrun -q, -d); for plain commands give an id like "
        "h1-26, as lbctl jobs --all prints it"
    )


def is_selector(text: str) -> bool:
    """Whether the text selects jobs of the queue. Other jobs have names like h1-17."""
    first, dash, last = text.partition("-")
    if text in ("last", "@me") or (first.isdecimal() and (last.isdecimal() or not dash)):
        return True
    array, line, indexes = text.partition("_")
    is_array = array.isdecimal() or array == "last"
    return bool(line) and is_array and indexes[:1].isascii() and indexes[:1] in "[0123456789"


def read_tasks(text: str, how: str = HOW, last: int | None = None) -> tuple[int, Runs]:
    """Raises ConfigError."""
    named = text if last is None or not is_last(text) else with_last(text, str(last))
    array, _, listed = named.partition("_")
    if listed.startswith("[") and listed.endswith("]"):
        listed = listed[1:-1]
    if not is_number(array) or "%" in listed:
        raise ConfigError(f"{text!r} is not a queued job's id; {how}")
    try:  # an index that occurs twice means the same as once
        return int(array), tuple(read_part(part, listed) for part in listed.split(","))
    except ValueError as problem:
        raise ConfigError(f"{text!r} is not a list of tasks: {problem}") from None


def tasks_of(
    tasks: Sequence[tuple[int, Runs]], placed: Mapping[int, SubmissionRange]
) -> tuple[tuple[tuple[int, int], ...], list[Problem]]:
    """Returns the numbers of these tasks, in ranges, and what is wrong with those that do not
    exist. Within an array's first and last index a range means those that exist. Raises
    LbdError if there are too many."""
    known: dict[int, TaskIndexes] = {}
    found: list[tuple[int, int]] = []
    problems: list[Problem] = []
    if sum(steps_in(runs) for _, runs in tasks) > SELECTORS_MAX:
        raise LbdError(f"more than {SELECTORS_MAX} jobs named at once; use ranges")
    for array, runs in tasks:
        try:
            if array not in known:
                known[array] = indexes_of(array, runs, placed)
            numbers, missing = numbers_of(array, known[array], runs)
            found += numbers
        except LbdError as problem:
            problems.append((shown_tasks(array, runs), str(problem)))
            continue
        if missing:
            own = shown_runs(known[array].runs)
            why = f"array {array} has no task {shown_runs(missing)}; its indexes are {own}"
            problems.append((shown_tasks(array, missing), why))
    return tuple(merged(found)), problems


def steps_in(runs: Runs) -> int:
    """Returns how many ranges of numbers are looked up for them, one for each step."""
    return sum(count_of((one,)) if one[2] > 1 else 1 for one in runs)


def shown_tasks(array: int, runs: Runs) -> str:
    wanted = shown_runs(runs)
    return f"{array}_[{wanted}]" if count_of(runs) > 1 else f"{array}_{wanted}"


def indexes_of(array: int, runs: Runs, placed: Mapping[int, SubmissionRange]) -> TaskIndexes:
    """Raises LbdError if it is not an array."""
    place, wanted = placed.get(array), shown_runs(runs)
    if place is None or place.first != array:
        raise LbdError(f"no job {array}_{wanted} in the queue")
    if not place.indexes:
        raise LbdError(f"job {array} is not an array, so it has no task {wanted}")
    try:
        return TaskIndexes(place.indexes)
    except ValueError as problem:  # others may write to the ledger
        raise LbdError(f"array {array}: {problem}") from None


def numbers_of(array: int, indexes: TaskIndexes, runs: Runs) -> tuple[list[tuple[int, int]], Runs]:
    """Returns the numbers of these tasks, in ranges, and the runs none of whose tasks exists, or
    the part of a run that lies before or after all of the array's."""
    lowest, highest = indexes.runs[0][0], indexes.runs[-1][1]
    found: list[tuple[int, int]] = []
    missing: list[Run] = []
    for first, last, step in runs:
        spans = [(first, last)] if step == 1 else ((n, n) for n in range(first, last + 1, step))
        before = len(found)
        for low, high in spans:
            begin, end = indexes.places(low, high)
            if begin < end:
                found.append((array + begin, array + end - 1))
        if len(found) == before:
            missing.append((first, last, step))
            continue
        if first < lowest:
            missing.append(run(first, lowest - 1, step))
        if last > highest:
            missing.append(run(first + -((first - highest - 1) // step) * step, last, step))
    return found, tuple(missing)


def jobs_of(
    ranges: Sequence[tuple[int, int]], placed: Mapping[int, SubmissionRange]
) -> tuple[tuple[tuple[int, int], ...], list[Problem]]:
    """Returns the numbers of the jobs with these ids, in ranges, and what is wrong with ids that
    are only the numbers of an array's tasks. `placed`: where the ranges begin and end."""
    indexes_of = cache(TaskIndexes)
    found: list[tuple[int, int]] = []
    problems: list[Problem] = []
    for low, high in ranges:
        if (numbers := widened(low, high, placed)) is not None:
            found.append(numbers)
            continue
        name, hint, place = str(low), "", placed[low]
        if low < high:
            name = f"{low}-{high}"
        else:
            with contextlib.suppress(ValueError, IndexError):  # others may write to the ledger
                task = indexes_of(place.indexes).index(low - place.first)
                hint = f"; task {task} of array {place.first} is {place.first}_{task}"
        problems.append((name, f"no job {name} in the queue{hint}"))
    return tuple(found), problems


def widened(low: int, high: int, placed: Mapping[int, SubmissionRange]) -> tuple[int, int] | None:
    """Returns the numbers of the jobs with these ids: the id of an array, its first number, means
    all of its tasks, and their other numbers are no ids. None if none of these is an id."""
    first, last = placed.get(low), placed.get(high)
    if first is not None and first.indexes and first.first < low:
        low = first.last + 1
    if last is not None and last.indexes and last.first >= low:
        high = last.last
    return (low, high) if low <= high else None


def check_count(texts: Sequence[str]) -> None:
    """Limits the number of selectors, and of what they list, before any is evaluated. Raises
    ConfigError."""
    if sum(text.count(",") + 1 for text in texts) > SELECTORS_MAX:
        raise ConfigError(f"more than {SELECTORS_MAX} jobs named at once; use ranges")


def read_range(text: str, how: str = HOW) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not (is_number(first) and (is_number(last) or not dash)):
        raise ConfigError(f"{text!r} is not a queued job's id; {how}")
    low, high = int(first), int(last or first)
    if low > high:
        raise ConfigError(f"{text!r}: the range is backwards")
    return low, high


def alike(problems: Iterable[Problem]) -> list[list[Problem]]:
    """Groups the jobs with the same error."""
    found: dict[str, list[Problem]] = {}
    for job, text in problems:
        apart = text.replace(f"job {job} ", "job ").replace(f"job {job}:", "job:")
        found.setdefault(apart, []).append((job, text))
    return list(found.values())


def in_few_lines(
    problems: Iterable[Problem], named: Container[str] = (), lines_max: int = LINES_MAX
) -> list[str]:
    """Summarises the jobs' errors: a line for each that was named by itself, as far as there are
    not too many, and one for all others with the same error."""
    lines: list[str] = []
    for group in alike(problems):
        apart = [text for job, text in group if job in named]
        others = [text for job, text in group if job not in named]
        others = apart[lines_max - 1 :] + others if len(apart) > lines_max else others
        lines += apart[: lines_max - 1] if len(apart) > lines_max else apart
        if others:
            lines.append(others[0] + (f"; and {len(others) - 1} more" if others[1:] else ""))
    return lines


def is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) <= LARGEST
