"""Checks rows read from the ledger, which others may have written to. Pure.

A value of the wrong type, meaningless text, or an impossible number would crash each dispatcher as
it starts, or break every list with the row. Such a row is left out and reported, and no attempt of
its job is started. The bounds are wide: what a message can carry and what is a plausible time, not
what a submission may ask for, as an older dispatcher may have accepted more.
"""

import math
from types import NoneType, UnionType
from typing import get_args, get_type_hints

from lbd.dispatch.core.dependencies.conditions import conditions_of
from lbd.dispatch.core.ledger_rows import AttemptRow, JobRow
from lbd.model import JobState
from lbd.text.job_limits import SLOTS_MAX
from lbd.text.needs_words import read_needs_text

Kinds = tuple[type, ...]
Range = tuple[float, float]
SOUND: set[Kinds] = set()  # type tuples of rows that were checked
SOUND_MAX = 1024


def is_within(number: float, allowed: Range) -> bool:
    return allowed[0] <= number <= allowed[1]  # nor NaN


def kinds_of(hint: object) -> Kinds:
    """Returns the types a value may have. A whole number is valid for a float, and a store has no
    booleans."""
    found: list[type] = []
    for one in get_args(hint) if isinstance(hint, UnionType) else (hint,):
        kind = getattr(one, "__origin__", one)
        found += {float: (float, int), int: (int,), bool: (bool, int)}.get(kind, (kind,))
    return tuple(found)


KINDS = {
    kind: {name: kinds_of(hint) for name, hint in get_type_hints(kind).items()}
    for kind in (JobRow, AttemptRow)
}
# Allowed numbers of a row, both ends included; NaN is in none of them.
NUMBER, NUMBER_OR_0 = (1, (1 << 63) - 2), (0, (1 << 63) - 2)
COUNT, SIGNED = (0, (1 << 31) - 1), (-(1 << 31), (1 << 31) - 1)  # limits of message fields
SLOTS, NO_SLOTS = (1, SLOTS_MAX), (0, SLOTS_MAX)
UNIX_S = (-1e9, 1e11)  # a clock may have been wrong
LENGTH_S, SUM_S = (0, 1e12), (-1e12, 1e12)
RANGES: dict[type[JobRow] | type[AttemptRow], dict[str, Range]] = {
    JobRow: {
        "id": NUMBER, "submission": NUMBER, "slots": SLOTS, "array_index": (0, 1e18),
        "tier": COUNT, "attempt": COUNT, "crashes": COUNT, "submitted": UNIX_S, "started": UNIX_S,
        "finished": UNIX_S, "cpu_s": LENGTH_S, "exit_status": SIGNED, "signal": SIGNED,
        "slots_most": NO_SLOTS, "slots_held": NO_SLOTS, "priority": SIGNED, "requeued": UNIX_S,
        "uid": (0, (1 << 32) - 1), "target": UNIX_S, "deadline": UNIX_S, "gang": NO_SLOTS,
        "limit_s": LENGTH_S,
        "parallelism": LENGTH_S, "sigma": LENGTH_S,
        "work_s": LENGTH_S, "first": NUMBER, "count": (1, COUNT[1]), "at_once": COUNT,
        "suspended_s": SUM_S, "suspended": UNIX_S, "not_before": UNIX_S,
        "max_rss_bytes": NUMBER_OR_0,
    },
    AttemptRow: {
        "job": NUMBER, "number": COUNT, "tier": COUNT, "cutoff_s": (0, math.inf),
        "leased": UNIX_S, "started": UNIX_S, "finished": UNIX_S, "cpu_s": LENGTH_S,
        "exit_status": SIGNED, "slots": SLOTS,
    },
}  # fmt: skip
IN_ORDER = {
    kind: [(at, name, *ranges[name]) for at, name in enumerate(KINDS[kind]) if name in ranges]
    for kind, ranges in RANGES.items()
}
STATES = frozenset(state.value for state in JobState)
NAMES = {bytes: "bytes", str: "a text", int: "a number", float: "a number", NoneType: "nothing"}


def fault_of(row: JobRow | AttemptRow, values: tuple[object, ...]) -> str:
    """Returns the first fault, or "". `values`: the row's, in order."""
    kinds = tuple(map(type, values))
    if kinds not in SOUND:
        for (name, allowed), value in zip(KINDS[type(row)].items(), values, strict=True):
            if not isinstance(value, allowed):
                return f"{name} is {NAMES.get(type(value), type(value).__name__)}"
        if len(SOUND) < SOUND_MAX:
            SOUND.add(kinds)
    for at, name, least, most in IN_ORDER[type(row)]:
        number = values[at]
        if number is not None and not least <= number <= most:  # type: ignore[operator]  # see above
            return f"{name} is {number}"
    if not isinstance(row, JobRow):
        return ""
    if row.state not in STATES:
        return f"state is {row.state}"
    if not row.first <= row.id < row.first + row.count:
        return "it is no job of its submission"
    try:
        if row.needs:
            read_needs_text(row.needs)
        if row.after:
            conditions_of(row.after, row.array_index)
    except ValueError as problem:
        return str(problem)
    return ""
