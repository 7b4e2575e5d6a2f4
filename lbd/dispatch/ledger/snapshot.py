"""A copy of the ledger, taken while a dispatcher writes to it, and prepared for a restart from
it."""

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lbd.dispatch.core.records import Cause, Fate
from lbd.dispatch.core.restore import OPEN_FATES
from lbd.dispatch.ledger.schema import missing_steps
from lbd.dispatch.ledger.sqlite import migrate
from lbd.errors import ConfigError
from lbd.model import JobState

# Jobs submitted after the copy have numbers too, and output files named by them.
NUMBERS_SKIPPED = 10_000
OPEN = json.dumps(sorted(OPEN_FATES))


@dataclass(frozen=True, slots=True)
class Restored:
    held: int  # jobs
    lost: int


def copy_ledger(path: Path, to: Path) -> None:
    """Copies everything committed, even during writes. Raises ConfigError."""
    with opened(path) as source, opened(to) as target:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")  # a single file, with no others beside it


def last_number(path: Path, host: str) -> int:
    """Returns the highest number of a host's own jobs in the accounting; 0 if there is none. Raises
    ConfigError."""
    with opened(path) as usage:
        columns = [row[1] for row in usage.execute("PRAGMA table_info(jobs)")]
        query = "SELECT max(CAST(substr(id, ?) AS INTEGER)) FROM jobs WHERE id GLOB ?"
        own = len(host) + 2, f"{host}-[0-9]*"
        (found,) = usage.execute(query, own).fetchone() if "id" in columns else (0,)
    return max(0, int(found or 0))


def has_jobs(path: Path) -> bool:
    """Whether it contains a job: in a ledger's table or, with the same name, the accounting's.
    Raises ConfigError."""
    with opened(path) as copy:
        found = copy.execute("SELECT 1 FROM sqlite_schema WHERE name = 'jobs'").fetchone()
        return found is not None and copy.execute("SELECT 1 FROM jobs").fetchone() is not None


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a ledger goes."""

    next_job: int
    latest_s: float  # UNIX time of the last change of a job; 0 without jobs


def extent(path: Path) -> Extent:
    """Raises ConfigError if it is not a ledger, or one of a newer release."""
    with opened(path) as ledger:
        check(ledger, path)
        (next_job,) = ledger.execute(
            "SELECT value FROM counters WHERE name = 'next_job'"
        ).fetchone()
        (latest_s,) = ledger.execute(
            "SELECT max(max(submitted, coalesce(started, 0), coalesce(finished, 0))) FROM jobs"
        ).fetchone()
    return Extent(int(next_job), float(latest_s or 0.0))


def check(ledger: sqlite3.Connection, path: Path) -> None:
    """Raises ConfigError if it is not a ledger, or one of a newer release."""
    (version,) = ledger.execute("PRAGMA user_version").fetchone()
    (health,) = ledger.execute("PRAGMA quick_check(1)").fetchone()
    missing_steps(version, f"{path.name} in it")
    if version < 1 or health != "ok":
        raise ConfigError(f"{path.name} in it is a damaged ledger ({health})")
    # A trigger or a view would run SQL written by someone else.
    (programs,) = ledger.execute(
        "SELECT count(*) FROM sqlite_schema WHERE type NOT IN ('table', 'index')"
    ).fetchone()
    if programs:
        raise ConfigError(f"{path.name} in it is not an lbd ledger: it has triggers or views")


def begin_again(path: Path, why: str, unix_s: float, next_job: int = 0) -> Restored:
    """Prepares a copy so that nothing starts by itself, as what has run since is unknown. Jobs that
    had not ended are held, and running attempts count as lost; jobs that must not run twice are
    lost with them. A job that was already held by somebody keeps its reason. Numbers below
    `next_job` are not given again.

    Raises ConfigError if it is not a ledger, or one of a newer release.
    """
    with opened(path) as ledger:
        check(ledger, path)
        migrate(ledger, path)
        ledger.execute("BEGIN IMMEDIATE")
        lost = ledger.execute(
            "UPDATE jobs SET state = ?, cause = ?, finished = ?, reason = ? WHERE finished IS NULL"
            " AND submission IN (SELECT id FROM submissions WHERE may_restart = 0)"
            " AND id IN (SELECT job FROM attempts"
            " WHERE fate IN (SELECT value FROM json_each(?)))",
            (JobState.LOST.value, Cause.LOST.value, unix_s, why, OPEN),
        ).rowcount
        ledger.execute(
            "UPDATE attempts SET fate = ?, finished = ?, reason = ?"
            " WHERE fate IN (SELECT value FROM json_each(?))",
            (Fate.LOST.value, unix_s, why, OPEN),
        )
        held = ledger.execute(
            "UPDATE jobs SET state = ?, host = '', started = NULL, suspended = NULL,"
            " reason = iif(reason LIKE 'held by %', reason, ?) WHERE finished IS NULL",
            (JobState.PENDING.value, f"held: {why}"),
        ).rowcount
        ledger.execute(
            "UPDATE counters SET value = max(value + ?, ?) WHERE name = 'next_job'",
            (NUMBERS_SKIPPED, next_job),
        )
        ledger.execute("COMMIT")
    return Restored(held, lost)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Raises ConfigError, also for errors within the block."""
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as ledger:
            ledger.execute("PRAGMA trusted_schema = OFF")  # its owner may be another user
            yield ledger
    except sqlite3.Error as problem:
        raise ConfigError(f"{path}: {problem}") from problem
