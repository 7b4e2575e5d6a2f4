"""What the dispatcher logs about each job, every step that it records and every order, and about
room for jobs."""

import logging
from collections.abc import Iterable
from dataclasses import replace

from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.records import Action, Begin, Changed, Fate, Signal
from lbd.model import HostId, JobId, JobState
from lbd.process.job_log import JobLog

log = logging.getLogger("lbd.dispatch")
job_log = JobLog(log)

NO_HOSTS: frozenset[HostId] = frozenset()
NEWS = (Fate.LOST, Fate.EVICTED)  # what administrators look for in the journal


def shown_id(life: Lifecycle, job: JobId) -> str:
    """Returns the id that people know; for an ended job its number."""
    live = life.jobs.get(job)
    return live.job.shown if live is not None else job


def say(life: Lifecycle, actions: Iterable[Action]) -> None:
    for action in actions:
        if isinstance(action, Changed):
            shown = action.shown or action.job
            if action.fate in NEWS:
                job_log.news(shown, "%s", change_phrase(action))
            else:
                # Thousands of lines are kept, and a set may have a thousand names.
                kept = replace(action, barred=NO_HOSTS) if action.barred else action
                job_log.debug_later(shown, change_phrase, kept)
        elif isinstance(action, Begin):
            shown = f"{action.array}_{action.array_index}" if action.array else action.job
            job_log.debug_later(shown, begin_phrase, action)
        elif isinstance(action, Signal):
            job_log.debug_later(shown_id(life, action.job), signal_phrase, action)


def begin_phrase(begin: Begin) -> str:
    return f"attempt {begin.attempt} goes to {begin.host}"


def signal_phrase(signal: Signal) -> str:
    what = f"is sent signal {signal.number}" if signal.number else "is asked to end"
    why = "" if signal.number else f" ({signal.stop_reason or 'requested'})"
    return f"attempt {signal.attempt} on {signal.host} {what}{why}"


def change_phrase(change: Changed) -> str:
    ending, attempt = change.ending, f"attempt {change.attempt}"
    where = f" on {change.host}" if change.host else ""
    said = change.state.value
    if change.fate is not None and change.fate.value != said:
        said = f"{attempt} {change.fate.value}{where}; {said}"
    elif change.attempt and change.state is not JobState.PENDING:
        said = f"{attempt} {said}{where}"
    if ending is not None and ending.exit_status is not None:
        said += f", exit {ending.exit_status}"
    why = (ending.reason if ending is not None else "") or change.reason
    return f"{said}: {why}" if why else said


def say_full(before: str, full: str) -> str:
    """Logs when the ledger begins, or ceases, to take no jobs. Returns why it takes none now."""
    if full != before:
        level = logging.WARNING if full else logging.INFO
        log.log(level, "%s", full or "the ledger has room: the queue takes jobs again")
    return full
