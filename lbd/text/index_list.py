"""An array's indexes as people write them: `1-10`, `0-100:10`, `1,3,7-9`, each with `%N`. Pure.

Indexes are stored as ordered runs (first, last, step) that do not overlap, so looking up an index's
place, or the index at a place, needs no expanded list.

`lbrun` imports this file at start, so it imports nothing itself.
"""

Run = tuple[int, int, int]
Runs = tuple[Run, ...]

SHOWN = 8  # runs, in a message
DIGITS_MAX = 18  # fits 64 bits
COUNT_MAX = 10_000_000  # the upper bound of dispatch.max_array
PARTS_MAX = 10_000
STEPPED_MIN = 4  # fewer indexes than this are written without a step
MIXED_MAX = 1_000_000  # indexes of overlapping runs, which must be expanded
HOW = "like 1-10, 0-100:10 or 1,3,7-9, with %N for N at once"


def read_array(text: str) -> tuple[Runs, int]:
    """Returns the indexes and how many may run at once (0: no limit). Raises ValueError."""
    listed, percent, limit = text.partition("%")
    at_once = 0
    if percent:
        if not is_number(limit):
            raise ValueError(
                f"{text}: % must be followed by the number of tasks to run at once, like 1-100%4"
            )
        at_once = int(limit)
        if not at_once:
            raise ValueError(f"{text}: %0 would let no task run; use 1 or more")
    parts = listed.split(",")
    if len(parts) > PARTS_MAX:
        raise ValueError(f"a list of {len(parts)} parts is too long; the limit is {PARTS_MAX}")
    runs = in_order([read_part(part, text) for part in parts], text)
    if (count := count_of(runs)) > COUNT_MAX:
        raise ValueError(
            f"{text}: {count} tasks are too many; dispatch.max_array is at most {COUNT_MAX}"
        )
    return runs, min(at_once, COUNT_MAX)


def read_part(part: str, text: str) -> Run:
    """Raises ValueError."""
    span, colon, step_text = part.partition(":")
    first, dash, last = span.partition("-")
    numbers = [first] + ([last] if dash else []) + ([step_text] if colon else [])
    for number in numbers:
        if not (number.isascii() and number.isdecimal()) or (colon and not dash):
            raise ValueError(f"{text}: must be {HOW}")
        if len(number) > DIGITS_MAX:
            raise ValueError(
                f"{text}: {number} is too large; an index has at most {DIGITS_MAX} digits"
            )
    begin, end, step = int(first), int(last or first), int(step_text or "1")
    if not step:
        raise ValueError(f"{text}: the step after : must be 1 or more")
    if begin == end + 1 == 1:  # 1-$(grep -c '' LIST)
        raise ValueError(f"{text}: {span} has no task: is the list empty?")
    if begin > end:
        raise ValueError(f"{text}: {span} is backwards; use {end}-{begin}")
    return run(begin, end, step)


def run(first: int, last: int, step: int) -> Run:
    """Returns a run whose last index is one that the step reaches."""
    last -= (last - first) % step
    return (first, last, step if last > first else 1)


def in_order(runs: list[Run], text: str) -> Runs:
    """Sorts the runs. Raises ValueError if an index occurs twice."""
    runs.sort()
    if all(runs[n][1] < runs[n + 1][0] for n in range(len(runs) - 1)):
        return joined(runs)
    for n in range(len(runs) - 1):
        one, other = runs[n], runs[n + 1]
        if other[0] <= one[1] and (other[0] - one[0]) % one[2] == 0:
            raise ValueError(f"{text}: index {other[0]} occurs twice")
    if count_of(tuple(runs)) > MIXED_MAX:
        raise ValueError(f"{text}: ranges of more than {MIXED_MAX} indexes overlap")
    indexes = sorted([index for one in runs for index in range(one[0], one[1] + 1, one[2])])
    for n in range(len(indexes) - 1):
        if indexes[n] == indexes[n + 1]:
            raise ValueError(f"{text}: index {indexes[n]} occurs twice")
    mixed = runs_in(indexes)
    if len(mixed) > PARTS_MAX:
        raise ValueError(f"a list of {len(mixed)} parts is too long; the limit is {PARTS_MAX}")
    return mixed


def joined(runs: list[Run]) -> Runs:
    """Joins adjacent runs: 1,2,3 becomes 1-3."""
    found: list[Run] = []
    for one in runs:
        if found and found[-1][2] == one[2] == 1 and found[-1][1] + 1 == one[0]:
            found[-1] = (found[-1][0], one[1], 1)
        else:
            found.append(one)
    return tuple(found)


def runs_in(indexes: list[int]) -> Runs:
    """Returns rising indexes as runs. A step is used only for runs long enough to benefit."""
    found: list[Run] = []
    for index in indexes:
        if found:
            first, last, step = found[-1]
            if last == first or index - last == step:
                found[-1] = (first, index, index - last)
                continue
            if is_short(found[-1]):
                found[-1:] = [(one, one, 1) for one in range(first, last, step)]
                found.append((last, index, index - last))
                continue
        found.append((index, index, 1))
    if found and is_short(found[-1]):
        first, last, step = found.pop()
        found += [(one, one, 1) for one in range(first, last + 1, step)]
    return tuple(found)


def is_short(one: Run) -> bool:
    """Returns whether a stepped run should be written out: `5-41:18` looks like 5 to 41, while
    5,23,41 does not."""
    first, last, step = one
    return step > 1 and (last - first) // step + 1 < STEPPED_MIN


def read_runs(text: str) -> Runs:
    """Reads the output of `runs_text` from an untrusted source. Raises ValueError."""
    if len(text) > PARTS_MAX * (3 * DIGITS_MAX + 3):
        raise ValueError("a list of indexes that is too long")
    parts = text.split(",")
    if len(parts) > PARTS_MAX:
        raise ValueError("a list of indexes that is too long")
    runs = tuple([read_part(part, "indexes") for part in parts])
    if not all(runs[n][1] < runs[n + 1][0] for n in range(len(runs) - 1)):
        raise ValueError("indexes that are not in order")
    if count_of(runs) > COUNT_MAX:
        raise ValueError("an array that is too large")
    return runs


def runs_text(runs: Runs) -> str:
    return ",".join([run_text(one) for one in runs])


def run_text(one: Run) -> str:
    first, last, step = one
    return f"{first}" if first == last else f"{first}-{last}" + (f":{step}" if step > 1 else "")


def count_of(runs: Runs) -> int:
    return sum([(last - first) // step + 1 for first, last, step in runs])


def shown_runs(runs: Runs) -> str:
    """Returns the first runs as text for people."""
    return runs_text(runs[:SHOWN]) + (",…" if len(runs) > SHOWN else "")


def is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
