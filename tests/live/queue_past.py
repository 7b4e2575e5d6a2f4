"""Puts jobs that have ended on a dispatcher's record while the dispatcher is down."""

import contextlib
import sqlite3

from lbd.dispatch.core.ledger_rows import Submission
from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Fate
from lbd.dispatch.ledger.sqlite import carry_out
from lbd.dispatch.ledger.work import apply_all, insert
from lbd.model import HostId, JobId, JobState

H1 = HostId("h1")


@contextlib.contextmanager
def away(lab):
    """Yields the dispatcher's ledger while the dispatcher is down, then starts it again."""
    lab.kill("h1", "dispatcher")
    path = lab.paths("h1").state / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db
    lab.start("h1", "dispatcher")


def put(db, command, submitted, cpu_s, user="root"):
    """Adds a job that started at once and had a slot to itself."""
    sent = Submission(user, 0, "h1", "", b"\0".join(command), b"")
    job = JobId(str(carry_out(db, insert(sent, submitted)).first))
    ending = Ending(Cause.EXITED, 0, cpu_s=cpu_s)
    changes = [
        (Begin(job, 1, H1, 1, None), submitted),
        (changed(job, JobState.RUNNING, Fate.RUNNING), submitted),
        (changed(job, JobState.DONE, Fate.DONE, ending), submitted + cpu_s),
    ]
    for change in changes:
        carry_out(db, apply_all([change]))


def changed(job, state, fate, ending=None):
    return Changed(job, state, 1, 1, H1, fate, ending, 0, "", frozenset())
