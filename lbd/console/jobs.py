"""Asks for the cluster's jobs and filters them; names a job and describes its state."""

import argparse
import math
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lbd.console.daemons import Daemons
from lbd.console.figures import NONE, duration
from lbd.console.picking import Pick
from lbd.console.reply import Json, number, table, tables, text, texts, whole
from lbd.errors import LbdError
from lbd.model import ENDED_NAMES, JobState
from lbd.text.dispatcher_phrases import cause_in
from lbd.text.job_phrases import (
    BEGINS_ONCE,
    DISPATCHER,
    ENDED_UNRECORDED,
    HELD,
    MAY_STILL_RUN,
    NOT_HEARD_OF,
    OVER_UNRECORDED,
    RUNS_UNRECORDED,
    is_end_unseen,
    without_launcher,
)
from lbd.text.job_phrases import (
    is_held as is_held_by,
)
from lbd.text.one_line import one_line
from lbd.text.spelling import nearest

STANDING = frozenset(("pending", "suspended"))  # states in which a job shows what it waits for
UNWRITTEN = (ENDED_UNRECORDED, OVER_UNRECORDED, RUNS_UNRECORDED, BEGINS_ONCE)
SOON_S = 2.0
ANSWER_S = 25.0  # enough for very many jobs, and longer than the LBM's longest wait
INDEX_WIDTH = 24


def fetch(
    daemons: Daemons,
    ended_too: bool,
    *,
    tasks: bool = False,
    of_hosts: bool = True,
    pick: Pick | None = None,
) -> Json:
    """Returns {"jobs": those of every host, "missing": the hosts that did not answer, "withheld":
    by host, the setting that hides some of its jobs, "unlisted": how many older ones of the queue
    are left out, "only_of": the user whose jobs these are, if they are not everybody's}.
    `of_hosts`: otherwise only the queue is asked. If given, `pick` gets each of the jobs, and
    "jobs" is empty."""
    daemons.lbm({"op": "status"})  # an LBM that hangs fails here, after a shorter wait
    question: Json = {
        "op": "jobs", "all": ended_too, "cluster": True, "tasks": tasks, "hosts": of_hosts,
    }  # fmt: skip
    return (daemons.picking("jobs", pick) if pick else daemons).lbm(question, ANSWER_S)


def why_no_queue(daemons: Daemons) -> str:
    """Returns why the dispatcher is among those that did not answer: at least that it is."""
    try:
        daemons.lbm({"op": "queue.status"}, SOON_S)
    except LbdError as problem:
        if cause_in(problem):
            return str(problem)
    return f"{DISPATCHER} did not answer"


def shown_wait(job: Json) -> str:
    """Returns what the job waits for, or why the ledger's state of it is old: its host is out of
    contact, or the ledger cannot be written. "" if neither applies."""
    reason = text(job, "reason")
    is_old = NOT_HEARD_OF in reason or MAY_STILL_RUN in reason or reason.startswith(UNWRITTEN)
    return reason if states_of(job) & STANDING or is_old else ""


def shown_command(job: Json) -> list[str]:
    """Returns the command; for a job of sbatch, its script with arguments."""
    return list(without_launcher(texts(job, "command")))


def shown_id(job: Json) -> str:
    """Returns the id; for an array `12_[8-300]`, its waiting tasks, or all if none waits."""
    if not text(job, "array"):
        return text(job, "id")
    return (
        f"{text(job, 'id')}_[{one_line(text(job, 'waiting') or text(job, 'array'), INDEX_WIDTH)}]"
    )


def shown_state(job: Json) -> str:
    """Returns the state; for an array, how many tasks are in which: `3 running, 97 done`."""
    if not text(job, "array"):
        return text(job, "state")
    return ", ".join(f"{count} {state}" for state, count in counts_of(job).items())


def counts_of(job: Json) -> dict[str, int]:
    """Returns how many tasks of an array are in each state, without states that no task is in.
    Held tasks are not among the pending ones, but counted as held."""
    tasks, held = table(job, "tasks"), whole(job, "held")
    counts = {PENDING: int(number(tasks, PENDING)) - held if tasks.get(PENDING) else 0, HELD: held}
    counts |= {state: int(number(tasks, state)) for state in STATES[1:] if tasks.get(state)}
    return {state: count for state, count in counts.items() if count}


def ran_s(job: Json, unix_now_s: float) -> float:
    """Returns the time from its start to its end, or until now; nan if it has not started, or if
    nobody saw it end."""
    started, finished = number(job, "started"), number(job, "finished")
    is_open = math.isnan(finished) and text(job, "state") not in ENDED_NAMES
    return (unix_now_s if is_open else finished) - started


def shown_ran(job: Json, unix_now_s: float) -> str:
    """Formats `ran_s` of a job, or of an attempt: `≤32s` if its end on record is when it was given
    up, because nobody saw it end."""
    found = duration(ran_s(job, unix_now_s))
    return f"≤{found}" if found != NONE and is_end_unseen(text(job, "reason")) else found


CANCELLED, PENDING = JobState.CANCELLED.value, JobState.PENDING.value
SHORT = ("failed", "lost", CANCELLED, HELD, "running")
STATES = tuple(state.value for state in JobState)
# in the history, an attempt that stopped at a checkpoint has a row of its own
HISTORY_STATES = (*STATES, "checkpoint")


@dataclass(frozen=True, slots=True)
class Filters:
    """What a job must match; None matches any."""

    user: str | None = None
    name: str | None = None
    states: frozenset[str] | None = None
    host: str | None = None

    @classmethod
    def of(cls, options: argparse.Namespace) -> "Filters":
        return cls(options.user, options.name, options.state, options.host)

    @property
    def wants_ended(self) -> bool:
        return self.states is not None and bool(self.states & ENDED_NAMES)

    def keeps(self, job: Json) -> bool:
        return (
            (self.user is None or text(job, "user") == self.user)
            and (self.name is None or fnmatchcase(text(job, "name"), self.name))
            and (self.states is None or self._has_state(job))
            and (self.host is None or text(job, "host") == self.host)
        )

    def _has_state(self, job: Json) -> bool:
        assert self.states is not None
        return bool(self.states & states_of(job)) or (HELD in self.states and is_held(job))


def short_state(job: Json, left_out: Collection[str] = ()) -> str:
    """Returns an array's state for a narrow terminal: `100/300, 3 failed, 21 held`; "" for other
    jobs. The first number counts the tasks that have ended and were not cancelled. `left_out`:
    states whose numbers are left out."""
    if not text(job, "array"):
        return ""
    counts = counts_of(job)
    ended = sum(counts.get(name, 0) for name in ENDED_NAMES if name != CANCELLED)
    parts = [f"{counts[name]} {name}" for name in SHORT if name in counts and name not in left_out]
    return ", ".join([f"{ended}/{sum(counts.values())}", *parts])


def states_of(job: Json) -> set[str]:
    """Returns the job's state; for an array, the states of all its tasks."""
    if not job.get("array"):
        return {text(job, "state")}
    return {state for state, count in table(job, "tasks").items() if count}


def is_held(job: Json) -> bool:
    """Whether a job, or a task of an array, waits for a release."""
    if job.get("array"):
        return whole(job, "held") > 0
    return text(job, "state") == PENDING and is_held_by(text(job, "reason"))


def not_shown(only_of: str, user: str | None) -> str:
    """Says that jobs of `user` are hidden from one who sees those of `only_of`; "" if not."""
    if not only_of or user in (None, only_of):
        return ""
    return f"you see only your own jobs; those of {user} are for administrators"


def others_jobs(queue: Json) -> str:
    """Returns how many jobs the queue has, to somebody who has none: `9 running, 3 waiting`; "" if
    there are none. `queue` has the dispatcher's numbers."""
    counts = ((number(queue, "running"), "running"), (number(queue, "queued"), "waiting"))
    return ", ".join(f"{count:.0f} {does}" for count, does in counts if count > 0)


def none_of_yours(others: str) -> str:
    """`others`: as `others_jobs` says it."""
    return "none of your jobs runs or waits" + (f" (others: {others})" if others else "")


def unknown_host(daemons: Daemons, host: str | None) -> str:
    """Says that there is no such host, if that is known for certain; else ""."""
    if host is None:
        return ""
    try:
        names = [text(one, "name") for one in tables(daemons.lim({"op": "status"}), "hosts")]
    except LbdError:
        return ""
    if not names or host in names:
        return ""
    near = nearest(host, names)
    return f"no host {host!r} in this cluster" + (f'; did you mean "{near}"?' if near else "")
