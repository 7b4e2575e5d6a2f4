"""Rows on hosts' owners: whether they are there, and when they usually are."""

from lbd.console.figures import NONE, Clock, duration
from lbd.console.output import DIM, YELLOW, Cell, Row
from lbd.console.reply import Json, number, text

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_HOURS = 24


def owner_row(row: Json, clock: Clock) -> Row:
    owner, seen = text(row, "owner"), number(row, "steps")
    learnt = seen > 0
    within_s = number(row, "free_within_s")
    return (
        text(row, "host"),
        Cell(owner or "not watched", {"here": YELLOW, "": DIM}.get(owner, "")),
        clock.time_of_day(number(row, "since")),
        text(row, "stays"),
        duration(within_s),
        f"{number(row, 'p01'):.3f}" if learnt else NONE,
        f"{number(row, 'p11'):.3f}" if learnt else NONE,
        duration(seen * number(row, "step_s")) if learnt else NONE,
        text(row, "rule"),
    )


def tenths(hour: Json) -> str:
    if not number(hour, "steps") > 0:
        return "."
    leaves, comes = number(hour, "p01"), 1 - number(hour, "p11")
    return str(min(9, int(10 * leaves / (leaves + comes)))) if leaves + comes > 0 else "."
