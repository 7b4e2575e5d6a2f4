"""`squeue`: jobs, a line each. What waits of an array is one line, `12_[5-10%4]`; with -r each task
has its own."""

import getpass
import os
import time
from collections.abc import Iterable

from lbd.slurm.columns import LONG, NORMAL, Columns, by_details, by_letters, by_names, in_order
from lbd.slurm.hostlist import hosts_in
from lbd.slurm.options import PARTITION, Given, Grammar, SlurmError, listed, read, words_of
from lbd.slurm.queue import (
    OPEN,
    SHORT,
    SHOWN_S,
    Job,
    all_with_details,
    ids_in,
    jobs,
    kept,
    recent,
    status_of,
    tasks_at_once,
)
from lbd.text.index_list import runs_in, runs_text

GRAMMAR = Grammar(
    words_of("format Format jobs name states user nodelist partition sort clusters"),
    words_of("noheader me array help long all priority"),  # the last two: it is so anyway
    {"h": "noheader", "o": "format", "O": "Format", "j": "jobs", "n": "name", "t": "states",
     "u": "user", "w": "nodelist", "p": "partition", "r": "array", "M": "clusters", "l": "long",
     "S": "sort", "A": "account", "q": "qos", "i": "iterate", "s": "steps", "a": "all",
     "P": "priority", "L": "licenses", "R": "reservation"},
    words_of("account qos iterate steps licenses reservation"),
    words_of("start json yaml"),
    optional=words_of("steps"),
    instead={"start": "`lbctl job ID` says when a job begins", "iterate": "use `watch squeue`",
             "json": "`lbctl jobs --json` prints JSON"},
)  # fmt: skip
# States that no job of the queue is ever in.
NEVER = {
    "CF": "CONFIGURING", "CG": "COMPLETING", "BF": "BOOT_FAIL", "DL": "DEADLINE",
    "PR": "PREEMPTED", "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD",
    "RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED", "SE": "SPECIAL_EXIT", "SI": "SIGNALING",
    "SO": "STAGE_OUT", "ST": "STOPPED",
}  # fmt: skip
OF_ITS_TURN = ("Resources", "Priority", "JobArrayTaskLimit")  # tasks may differ in these alone
FILTERS = ("jobs", "name", "jobname", "user", "nodelist", "partition", "state")
USAGE = (
    "usage: squeue [-h] [-o FORMAT | -O FIELDS] [-j IDS] [-u USER | --me] [-n NAMES] [-t STATES]"
)


def run(words: list[str]) -> int:
    """Raises SlurmError."""
    given = read(words, GRAMMAR, mixed=True)
    if "help" in given.plain:
        print(USAGE)
        return 0
    if given.rest:
        raise SlurmError(f"Unrecognized parameter: {given.rest[0]}")
    check_filters(given)
    columns = columns_of(given)
    found, left_out = chosen(given)
    order = given.values.get("sort", os.environ.get("SQUEUE_SORT", ""))
    if (columns.need_details or by_details(order)) and found:
        found = all_with_details(found)
    if "array" not in given.plain and not os.environ.get("SQUEUE_ARRAY"):
        found = waiting_as_one(found)
    found = in_order(found, order)
    if "noheader" not in given.plain:
        if "long" in given.plain:
            print(time.strftime("%a %b %d %H:%M:%S %Y"))
        print(columns.line(None))
    for job in found:
        print(columns.line(job))
    return status_of(left_out, "squeue", "choose those of one user (-u) or by ids (-j)")


def columns_of(given: Given) -> Columns:
    """Raises SlurmError."""
    if "Format" in given.values:
        return by_names(given.values["Format"])
    if "format" in given.values or "long" in given.plain:
        return by_letters(given.values.get("format", LONG))
    if names := os.environ.get("SQUEUE_FORMAT2"):
        return by_names(names)
    return by_letters(os.environ.get("SQUEUE_FORMAT") or NORMAL)


def check_filters(given: Given) -> None:
    """Raises SlurmError, also for an empty filter, as of an unset variable: it would select all."""
    for option in FILTERS:
        if given.values.get(option) == "":
            raise SlurmError(f"option '--{option}' has an empty value")
    if given.values.get("clusters", "all") not in ("all", PARTITION):
        raise SlurmError(f"'{given.values['clusters']}' can't be reached now, or it is an invalid "
                         "entry for --cluster.")  # fmt: skip


def chosen(given: Given) -> tuple[list[Job], int]:
    """Returns the jobs, and how many more may have been chosen. Raises SlurmError."""
    values = given.values
    ids = ids_in(values.get("jobs", ""))
    user = getpass.getuser() if "me" in given.plain else ""
    users = set(listed(values.get("user", ""))) | ({user} if user else set())
    names, hosts = set(listed(values.get("name", ""))), set(hosts_in(values.get("nodelist", "")))
    states = states_of(values.get("states", ""), OPEN)
    if not of_partition(values):
        return [], 0
    now_s, left_out = time.time(), 0
    if ids:
        found = known(ids)
    else:
        has_ended = not states or bool(states - OPEN)
        found, left_out = recent(users, now_s - SHOWN_S if has_ended else None)
    found = [job for job in found if job.is_shown(now_s)]
    if len(ids) == 1 and not found:
        raise SlurmError("slurm_load_jobs error: Invalid job id specified")
    return kept(found, user=users, name=names, host=hosts, state=states), left_out


def of_partition(values: dict[str, str]) -> bool:
    """Returns whether the partitions to select, if any, include ours."""
    return PARTITION in listed(values.get("partition", PARTITION))


def waiting_as_one(found: list[Job]) -> list[Job]:
    """Returns the jobs, with one for all tasks of an array that wait for the same."""
    lines: list[list[Job]] = []
    waiting: dict[tuple[str, str], list[Job]] = {}
    for job in found:
        if not job.index or job.state != "PENDING":
            lines.append([job])
            continue
        key = job.array, job.reason if job.reason not in OF_ITS_TURN else ""
        if key not in waiting:
            lines.append(waiting.setdefault(key, []))
        waiting[key].append(job)
    arrays = {jobs[0].array for jobs in lines if len(jobs) > 1}
    at_once = tasks_at_once(sorted(arrays)) if arrays else {}
    for tasks in lines:
        if len(tasks) > 1:
            limit = at_once.get(tasks[0].array)
            indexes = runs_text(runs_in(sorted(int(task.index) for task in tasks)))
            tasks[0] = tasks[0].with_tasks(f"{indexes}%{limit}" if limit else indexes)
    return [tasks[0] for tasks in lines]


def known(ids: list[str]) -> list[Job]:
    """Returns the jobs of these ids that are on record. Raises SlurmError."""
    try:
        return jobs(ids)
    except SlurmError as problem:
        if not str(problem).startswith("no job "):
            raise
    return [job for one in ids for job in known([one])] if len(ids) > 1 else []


def states_of(text: str, otherwise: Iterable[str]) -> set[str]:
    """Returns the states; empty: all of them. Raises SlurmError."""
    if text.lower() == "all":
        return set()
    long = NEVER | {short: name for name, short in SHORT.items()}
    found = set()
    for one in listed(text.upper()):
        name = long.get(one, one)
        if name not in long.values():
            raise SlurmError(f"Invalid job state specified: {one}")
        found.add(name)
    return found or set(otherwise)
