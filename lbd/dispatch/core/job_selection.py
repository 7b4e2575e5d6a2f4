"""Which jobs a user means by `3`, `2-5`, `12_7`, `12_[3-5]`, `last`, `@me`, and how errors of many
jobs are summarised. Pure."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from lbd.dispatch.core.ledger_rows import SubmissionRange, Wanted
from lbd.errors import ConfigError, LbdError
from lbd.text.index_list import Runs, count_of, read_array, shown_runs
from lbd.text.ranges import merged
from lbd.text.task_indexes import TaskIndexes

Problem = tuple[str, str]  # a job's id, and why nothing was done with it
LARGEST = (1 << 63) - 1
HOW = "use 3, 2-5, 12_7, 12_[3-5], last or @me; by name: lbctl {verb} --name PATTERN"
LINES_MAX = 20  # for jobs named by themselves that have the same error
SELECTORS_MAX = 100_000  # in one question, as many as jobs in one answer


def read_selectors(texts: Iterable[str], user: str, last: int | None, verb: str = "jobs") -> Wanted:
    """`last`: the job that this user submitted last, if any. `verb`: the one of `lbctl` that takes
    names, for the message. Raises ConfigError."""
    wanted = Wanted(ended_too=True)
    ranges: list[tuple[int, int]] = []
    tasks: list[tuple[int, Runs]] = []
    for text in dict.fromkeys(texts):
        if text == "@me":
            wanted = replace(wanted, user=user)
        elif text == "last":
            if last is None:
                raise ConfigError(no_last(user))
            ranges.append((last, last))
        elif "_" in text:
            tasks.append(read_tasks(text, verb))
        else:
            ranges.append(read_range(text, verb))
    return replace(wanted, ranges=tuple(ranges), tasks=tuple(tasks))


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
    return (
        bool(line) and array.isdecimal() and indexes[:1].isascii() and indexes[:1] in "[0123456789"
    )


def read_tasks(text: str, verb: str = "jobs") -> tuple[int, Runs]:
    """Raises ConfigError."""
    array, _, listed = text.partition("_")
    if listed.startswith("[") and listed.endswith("]"):
        listed = listed[1:-1]
    if not is_number(array) or "%" in listed:
        raise ConfigError(f"{text!r} is not a queued job's id; {HOW.format(verb=verb)}")
    try:
        return int(array), read_array(listed)[0]
    except ValueError as problem:
        raise ConfigError(f"{text!r} is not a list of tasks: {problem}") from None


def tasks_of(
    tasks: Sequence[tuple[int, Runs]], placed: Mapping[int, SubmissionRange]
) -> tuple[tuple[tuple[int, int], ...], list[Problem]]:
    """Returns the numbers of these tasks, in ranges, and what is wrong with those that do not
    exist. Raises LbdError if there are too many."""
    known: dict[int, TaskIndexes] = {}
    found: list[tuple[int, int]] = []
    problems: list[Problem] = []
    steps = sum(count_of((one,)) for _, runs in tasks for one in runs if one[2] > 1)
    if steps > SELECTORS_MAX:
        raise LbdError(f"more than {SELECTORS_MAX} jobs named at once; use ranges")
    for array, runs in tasks:
        try:
            if array not in known:
                known[array] = indexes_of(array, runs, placed)
            found += numbers_of(array, known[array], runs)
        except LbdError as problem:
            several = count_of(runs) > 1
            wanted = shown_runs(runs)
            problems.append((f"{array}_[{wanted}]" if several else f"{array}_{wanted}",
                             str(problem)))  # fmt: skip
    return tuple(merged(found)), problems


def indexes_of(array: int, runs: Runs, placed: Mapping[int, SubmissionRange]) -> TaskIndexes:
    """Raises LbdError if it is not an array."""
    place, wanted = placed.get(array), shown_runs(runs)
    if place is None or place.first != array:
        raise LbdError(f"no job {array}_{wanted} in the queue's ledger")
    if not place.indexes:
        raise LbdError(f"job {array} is not an array, so it has no task {wanted}")
    try:
        return TaskIndexes(place.indexes)
    except ValueError as problem:  # others may write to the ledger
        raise LbdError(f"array {array}: {problem}") from None


def numbers_of(array: int, indexes: TaskIndexes, runs: Runs) -> list[tuple[int, int]]:
    """Raises LbdError if the array has none of them."""
    found: list[tuple[int, int]] = []
    for first, last, step in runs:
        spans = [(first, last)] if step == 1 else ((n, n) for n in range(first, last + 1, step))
        for low, high in spans:
            begin, end = indexes.places(low, high)
            if begin < end:
                found.append((array + begin, array + end - 1))
    if not found:
        wanted, own = shown_runs(runs), shown_runs(indexes.runs)
        raise LbdError(f"array {array} has no task {wanted}; its indexes are {own}")
    return found


def widened(low: int, high: int, placed: Mapping[int, SubmissionRange]) -> tuple[int, int]:
    """Returns the range; if it ends within an array whose id is in it, with all of its tasks."""
    last = placed.get(high)
    if last is not None and last.indexes and last.first >= low:
        return low, last.last
    return low, high


def check_count(texts: Sequence[str]) -> None:
    """Limits the number of selectors before any is evaluated. Raises ConfigError."""
    if len(texts) > SELECTORS_MAX:
        raise ConfigError(f"more than {SELECTORS_MAX} jobs named at once; use ranges")


def read_range(text: str, verb: str = "jobs") -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not (is_number(first) and (is_number(last) or not dash)):
        raise ConfigError(f"{text!r} is not a queued job's id; {HOW.format(verb=verb)}")
    low, high = int(first), int(last or first)
    if low > high:
        raise ConfigError(f"{text!r}: the range is backwards")
    return low, high


def alike(problems: Iterable[Problem]) -> list[list[Problem]]:
    """Groups the jobs with the same error."""
    found: dict[str, list[Problem]] = {}
    for job, text in problems:
        found.setdefault(text.replace(f"job {job} ", "job "), []).append((job, text))
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
