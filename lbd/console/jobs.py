"""The jobs of the cluster, asked for and chosen among; how one is named and its state shown."""

import argparse
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lbd.console.daemons import Daemons
from lbd.console.reply import Json, number, table, text, texts
from lbd.model import ENDED_NAMES, JobState
from lbd.text.job_phrases import LAUNCHER, NOT_HEARD_OF
from lbd.text.one_line import one_line

STANDING = frozenset(("pending", "suspended"))  # what such a job waits for is shown
ANSWER_S = 25.0  # of very many jobs, and more than the LBM's longest patience
INDEX_WIDTH = 24


def fetch(daemons: Daemons, ended_too: bool, *, tasks: bool = False) -> Json:
    """{"jobs": those of every host, "missing": the hosts that did not answer, "withheld": by host
    the setting there by which not all are shown}."""
    daemons.lbm({"op": "status"})  # who does not answer this hangs, and is not waited for so long
    question: Json = {"op": "jobs", "all": ended_too, "cluster": True, "tasks": tasks}
    return daemons.lbm(question, ANSWER_S)


def shown_wait(job: Json) -> str:
    """What it waits for; of one that runs, that its host is not heard of. "" if nothing."""
    reason = text(job, "reason")
    return reason if states_of(job) & STANDING or NOT_HEARD_OF in reason else ""


def shown_command(job: Json) -> list[str]:
    """Of one of sbatch its script and that one's arguments."""
    words = texts(job, "command")
    if words[: len(LAUNCHER)] == list(LAUNCHER):
        return words[len(LAUNCHER) :]
    return words


def shown_id(job: Json) -> str:
    """Of an array `12_[8-300]`, its tasks that wait, or all of them if none does."""
    if not text(job, "array"):
        return text(job, "id")
    return (
        f"{text(job, 'id')}_[{one_line(text(job, 'waiting') or text(job, 'array'), INDEX_WIDTH)}]"
    )


def shown_state(job: Json) -> str:
    """Of an array how many of its tasks are in which state: `3 running, 97 done`."""
    tasks = table(job, "tasks")
    if not text(job, "array"):
        return text(job, "state")
    counts = {state: int(number(tasks, state)) for state in STATES if tasks.get(state)}
    return ", ".join(f"{count} {state}" for state, count in counts.items())


CANCELLED = JobState.CANCELLED.value
SHORT = ("failed", "lost", CANCELLED, "running")
STATES = tuple(state.value for state in JobState)
HISTORY_STATES = (*STATES, "checkpoint")  # there an attempt that stopped at a checkpoint has a row


@dataclass(frozen=True, slots=True)
class Filters:
    """None: any."""

    user: str | None = None
    name: str | None = None
    states: frozenset[str] | None = None
    host: str | None = None

    @classmethod
    def of(cls, options: argparse.Namespace) -> "Filters":
        return cls(options.user, options.name, options.state, options.host)

    @property
    def wants_ended(self) -> bool:
        return self.states is not None

    def keeps(self, job: Json) -> bool:
        return (
            (self.user is None or text(job, "user") == self.user)
            and (self.name is None or fnmatchcase(text(job, "name"), self.name))
            and (self.states is None or bool(self.states & states_of(job)))
            and (self.host is None or text(job, "host") == self.host)
        )


def short_state(job: Json) -> str:
    """Of an array in few words, for a narrow terminal: `100/300, 3 failed, 20 running`; else "".
    The first number is of those that have ended otherwise than cancelled."""
    if not text(job, "array"):
        return ""
    tasks = table(job, "tasks")
    counts = {name: int(number(tasks, name)) for name in STATES if tasks.get(name)}
    ended = sum(counts.get(name, 0) for name in ENDED_NAMES if name != CANCELLED)
    parts = [f"{counts[name]} {name}" for name in SHORT if name in counts]
    return ", ".join([f"{ended}/{sum(counts.values())}", *parts])


def states_of(job: Json) -> set[str]:
    """Of an array those of all its tasks."""
    if not job.get("array"):
        return {text(job, "state")}
    return {state for state, count in table(job, "tasks").items() if count}
