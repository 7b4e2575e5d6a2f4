"""`squeue`: jobs, a line each. What waits of an array is one line, `12_[5-10%4]`; with -r each task
has its own."""

import getpass
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator

from lbd.slurm.options import (
    PARTITION,
    Given,
    Grammar,
    SlurmError,
    listed,
    read,
    width_of,
    words_of,
)
from lbd.slurm.queue import OPEN, SHORT, Job, ids_in, jobs, tasks_at_once
from lbd.slurm.times import moment, short_elapsed
from lbd.text.index_list import runs_in, runs_text

GRAMMAR = Grammar(
    words_of("format Format jobs name states user nodelist partition sort clusters"),
    words_of("noheader me array help long"),
    {"h": "noheader", "o": "format", "O": "Format", "j": "jobs", "n": "name", "t": "states",
     "u": "user", "w": "nodelist", "p": "partition", "r": "array", "M": "clusters", "l": "long",
     "S": "sort", "A": "account", "q": "qos", "i": "iterate", "s": "steps"},
    words_of("account qos iterate steps licenses reservation"),
    words_of("start all json yaml priority"),
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
NORMAL = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.6D %R"
SIGN = re.compile(r"%(\.?)([0-9]*)([A-Za-z])")
WIDTH = 20  # default width of a field of -O
USAGE = (
    "usage: squeue [-h] [-o FORMAT | -O FIELDS] [-j IDS] [-u USER | --me] [-n NAMES] [-t STATES]"
)


def ran_s(job: Job) -> float:
    if job.started is None:
        return 0.0
    return (job.finished or time.time()) - job.started


def where(job: Job) -> str:
    return job.host if job.state != "PENDING" else f"({job.reason})"


Field = tuple[str, Callable[[Job], str]]
FIELDS: dict[str, Field] = {
    "jobid": ("JOBID", lambda job: job.number),
    "jobarrayid": ("JOBID", lambda job: job.id),
    "arrayjobid": ("ARRAY_JOB_ID", lambda job: job.array),
    "arraytaskid": ("ARRAY_TASK_ID", lambda job: job.index or "N/A"),
    "name": ("NAME", lambda job: job.name),
    "username": ("USER", lambda job: job.user),
    "state": ("STATE", lambda job: job.state),
    "statecompact": ("ST", lambda job: SHORT[job.state]),
    "timeused": ("TIME", lambda job: short_elapsed(ran_s(job))),
    "numnodes": ("NODES", lambda _: "1"),
    "numcpus": ("CPUS", lambda job: str(job.slots)),
    "partition": ("PARTITION", lambda _: PARTITION),
    "reason": ("REASON", lambda job: job.reason),
    "reasonlist": ("NODELIST(REASON)", where),
    "nodelist": ("NODELIST", lambda job: job.host),
    "submittime": ("SUBMIT_TIME", lambda job: moment(job.submitted, "N/A")),
    "starttime": ("START_TIME", lambda job: moment(job.started, "N/A")),
    "endtime": ("END_TIME", lambda job: moment(job.finished, "N/A")),
    "prioritylong": ("PRIORITY", lambda job: str(job.priority)),
    "exit_code": ("EXIT_CODE", lambda job: str(job.exit_status)),
    "command": ("COMMAND", lambda job: "".join(job.program)),
}
LETTERS = {
    "i": "jobarrayid", "A": "jobid", "F": "arrayjobid", "K": "arraytaskid", "j": "name",
    "u": "username", "t": "statecompact", "T": "state", "M": "timeused", "D": "numnodes",
    "C": "numcpus", "P": "partition", "r": "reason", "R": "reasonlist", "N": "nodelist",
    "B": "nodelist", "V": "submittime", "S": "starttime", "e": "endtime", "Q": "prioritylong",
    "o": "command",
}  # fmt: skip


def run(words: list[str]) -> int:
    """Raises SlurmError."""
    given = read(words, GRAMMAR, mixed=True)
    if "help" in given.plain:
        print(USAGE)
        return 0
    if given.rest:
        raise SlurmError(f"Unrecognized parameter: {given.rest[0]}")
    check_clusters(given)
    row = row_of(given)
    found = list(chosen(given))
    if "array" not in given.plain and not os.environ.get("SQUEUE_ARRAY"):
        found = waiting_as_one(found)
    if "noheader" not in given.plain:
        print(row(None))
    for job in found:
        print(row(job))
    return 0


def check_clusters(given: Given) -> None:
    if given.values.get("clusters", "all") not in ("all", PARTITION):
        raise SlurmError(f"'{given.values['clusters']}' can't be reached now, or it is an invalid "
                         "entry for --cluster.")  # fmt: skip
    if given.values.get("sort", "i") != "i":
        raise SlurmError(f"--sort {given.values['sort']} is not supported by lbd")


def chosen(given: Given) -> Iterator[Job]:
    values = given.values
    ids = ids_in(values.get("jobs", ""))
    user = getpass.getuser() if "me" in given.plain else ""
    users = set(listed(values.get("user", ""))) | ({user} if user else set())
    names, hosts = set(listed(values.get("name", ""))), set(listed(values.get("nodelist", "")))
    states = states_of(values.get("states", ""), OPEN)
    if not set(listed(values.get("partition", PARTITION))) & {PARTITION}:
        return
    now_s = time.time()
    found = [job for job in known(ids) if job.is_shown(now_s)]
    if len(ids) == 1 and not found:
        raise SlurmError("slurm_load_jobs error: Invalid job id specified")
    for job in found:
        wanted = (not users or job.user in users) and (not names or job.name in names)
        if wanted and (not hosts or job.host in hosts) and (not states or job.state in states):
            yield job


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
    """Returns the jobs of these ids that are on record; without ids, all. Raises SlurmError."""
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


def row_of(given: Given) -> Callable[[Job | None], str]:
    """Returns a function that formats a job's line, or the header for None. Raises SlurmError."""
    if "Format" in given.values:
        return by_names(given.values["Format"])
    text = given.values.get("format", LONG if "long" in given.plain else NORMAL)
    for _, width, letter in SIGN.findall(text):
        if letter not in LETTERS:
            known = " ".join(f"%{one}" for one in sorted(LETTERS))
            raise SlurmError(f"--format: %{letter} is not supported by lbd; it has {known}")
        width_of(width, f"--format: %{width}{letter}")

    def row(job: Job | None) -> str:
        def shown(found: re.Match[str]) -> str:
            dot, width, letter = found.groups()
            return cell(FIELDS[LETTERS[letter]], job, int(width or 0), right=bool(dot))

        return SIGN.sub(shown, text)

    return row


def by_names(text: str) -> Callable[[Job | None], str]:
    parts: list[tuple[Field, int, bool]] = []
    for one in listed(text):
        name, _, width = one.partition(":")
        if name.lower() not in FIELDS:
            known = ", ".join(FIELDS)
            raise SlurmError(f"--Format: field {name} is not supported by lbd; it has {known}")
        size = width_of(width.removeprefix("."), f"--Format: {one}") or WIDTH
        parts.append((FIELDS[name.lower()], size, width.startswith(".")))
    return lambda job: "".join(cell(field, job, size, right=right) for field, size, right in parts)


def cell(field: Field, job: Job | None, size: int, *, right: bool) -> str:
    title, value = field
    text = title if job is None else value(job)
    if not size:
        return text
    return text[:size].rjust(size) if right else text[:size].ljust(size)
