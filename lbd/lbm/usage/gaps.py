"""What a host's accounting lacks: how many commands, and from when until when they ended.

It is kept in the file of the accounting, beside the commands on record, and is never forgotten: of
more than `KEPT` gaps the two oldest become one.
"""

import contextlib
import math
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

KEPT = 100


@dataclass(frozen=True, slots=True)
class Gap:
    """Times are UNIX seconds: the first and the last end of these commands."""

    commands: int  # 0: not known, as after a restored backup
    since: float
    until: float
    not_yet: bool = False  # they are still to be recorded


def joined(*gaps: Gap | None) -> Gap | None:
    """Returns one gap with all their commands; None if there are none."""
    known = [gap for gap in gaps if gap is not None]
    if len(known) < 2:
        return known[0] if known else None
    since, until = min(gap.since for gap in known), max(gap.until for gap in known)
    return Gap(sum(gap.commands for gap in known), since, until)


def gap_of(ends: Iterable[float], *, not_yet: bool = False) -> Gap | None:
    """Returns the gap of commands with these ends; None if there are none."""
    known = [end if math.isfinite(end) else 0.0 for end in ends]
    return Gap(len(known), min(known), max(known), not_yet) if known else None


def begin(database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE IF NOT EXISTS gaps (since, until, commands)")


def note(database: sqlite3.Connection, gap: Gap) -> None:
    """To be called within a transaction."""
    database.execute("INSERT INTO gaps VALUES (?, ?, ?)", (gap.since, gap.until, gap.commands))
    rows = database.execute("SELECT rowid FROM gaps ORDER BY until, rowid").fetchall()
    if len(rows) > KEPT:
        oldest = joined(*gaps(database)[:2])
        assert oldest is not None
        database.executemany("DELETE FROM gaps WHERE rowid = ?", rows[:2])
        note(database, oldest)


def note_restored(copy: Path, made_s: float, now_s: float) -> None:
    """Notes in a backup of the accounting that what ended since it was made is not on record.
    Raises sqlite3.Error."""
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as database:
        begin(database)
        note(database, Gap(0, min(made_s, now_s), now_s))


def gaps(database: sqlite3.Connection) -> list[Gap]:
    """Returns the gaps, the oldest first."""
    rows = database.execute("SELECT commands, since, until FROM gaps ORDER BY until, rowid")
    return [Gap(*row) for row in rows]
