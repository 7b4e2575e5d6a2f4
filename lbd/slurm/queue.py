"""Requests of Slurm's programs to the queue: by `lbrun -d`, and on the socket of this host's
LBM."""

import json
import os
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from lbd.client.complaints import Trouble, say
from lbd.client.lbm_socket import connect, find_runtime_dirs
from lbd.local.frames import JSON, Splitter, pack
from lbd.slurm.options import SlurmError
from lbd.text.job_phrases import BEGINS_ONCE, DISPATCHER, STARTING, without_launcher
from lbd.text.one_line import printable

ANSWER_S = 30.0
ANSWER_BYTES = 64 << 20
RECEIVED = 1 << 16
QUEUED_ID = re.compile(r"[0-9]+(_[0-9]+)?")
SELECTOR = re.compile(r"[0-9]+(_([0-9]+|\[[0-9,:%-]+\]))?")
BETWEEN_IDS, AT_ONCE_LIMIT = re.compile(r",(?![^\[\]]*\])"), re.compile(r"%[0-9]*\]")
Json = dict[str, object]

DETAILS = ("directory", "output", "error", "timeout_s", "memory_bytes", "begin", "needs")
DETAILED_MAX = 200  # jobs or arrays, each of which takes a request
HELD, DEPENDS, LATER, NEXT = "held", "after ", "not before ", "next, "
UNFIT, TOO_WIDE, CLOSED = "no host ", "it needs ", "it may run o"
LACKING = "it starts once "
# No host can ever run it. If hosts that take no jobs now might, the reason goes on to name them.
NEVER = re.compile(
    r"it needs \d+ slots on (one host; the largest host has \d+|\S+, which has \d+)"
    r"|no host has \S+ of memory; the largest has \S+; it starts once .*"
)
AT_ONCE = " of its array may run at once "
STATES = {
    "pending": ("PENDING", "PD"), "running": ("RUNNING", "R"), "suspended": ("SUSPENDED", "S"),
    "done": ("COMPLETED", "CD"), "failed": ("FAILED", "F"), "cancelled": ("CANCELLED", "CA"),
    "lost": ("NODE_FAIL", "NF"),
}  # fmt: skip
SHORT = dict(STATES.values()) | {"TIMEOUT": "TO", "OUT_OF_MEMORY": "OOM"}
OPEN = {"PENDING", "RUNNING", "SUSPENDED"}
ENDED_BY = {"timeout": ("TIMEOUT", "0:15"), "memory": ("OUT_OF_MEMORY", "0:125")}  # and ExitCode
SHOWN_S = 300  # how long squeue shows an ended job, like Slurm's MinJobAge


class Job:
    """One job or task, in Slurm's terms: one class because these are the columns of one row."""

    def __init__(self, row: Json) -> None:
        state, reason = str(row.get("state")), str(row.get("reason") or "")
        index, command = row.get("array_index"), row.get("command")
        self.exit_status = whole(row.get("exit_status"))
        self.row = row
        self.id = str(row["id"])  # 12, or 12_7, or 12_[5-10]
        # its array's id, or its own if it is not a task
        self.array = str(row.get("array_id") or row["id"])
        self.number = self.array if "[" in self.id else self.id
        self.index = "" if index is None else str(index)
        self.user = str(row.get("user"))
        self.host = str(row.get("host") or "")
        self.cause = str(row.get("cause")) if state == "failed" else ""
        self.state = state_of(state, self.cause)
        self.reason, self.raw_reason = reason_of(state, reason), reason
        self.slots = whole(row.get("slots")) or 1
        self.priority = whole(row.get("priority"))
        self.submitted = number(row.get("submitted")) or 0.0
        self.started = number(row.get("started"))
        self.finished = number(row.get("finished"))
        self.cpu_s = number(row.get("cpu_s")) or 0.0
        self.max_rss_bytes = whole(row.get("max_rss_bytes"))
        self.begin = number(row.get("begin"))
        self.limit_s = number(row.get("timeout_s"))
        self.directory, self.output, self.error = (
            printable(str(row.get(name) or "")) for name in ("directory", "output", "error")
        )
        needs = row.get("needs")
        self.needs: Json = needs if isinstance(needs, dict) else {}
        self.has_details = "timeout_s" in row
        self.memory_bytes = whole(row.get("memory_bytes"))
        # It may be another user's, and is shown, so nothing in it may control the terminal.
        words = tuple(printable(str(word)) for word in command) if isinstance(command, list) else ()
        self.program = without_launcher(words)[:1]
        self.name = str(row.get("name") or os.path.basename("".join(self.program)) or "wrap")

    def with_tasks(self, indexes: str) -> "Job":
        """Returns the row of several tasks of its array, of which it is the first."""
        return Job(self.row | {"id": f"{self.array}_[{indexes}]", "array_index": indexes})

    @property
    def exit_code(self) -> str:
        """Returns STATUS:SIGNAL, and Slurm's own numbers for a job that a limit ended: its status
        says only how the command took that."""
        if self.cause in ENDED_BY:
            return ENDED_BY[self.cause][1]
        signal = self.exit_status - 128 if self.exit_status > 128 else 0
        return f"0:{signal}" if signal else f"{self.exit_status}:0"

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    def is_shown(self, unix_s: float) -> bool:
        """Returns whether squeue still shows the job."""
        return self.is_open or unix_s - (self.finished or self.submitted) < SHOWN_S


def ask(question: Json, daemon: str = "lbm") -> Json:
    """Raises SlurmError."""
    try:
        runtime_dirs = find_runtime_dirs(None)
        sock = connect(runtime_dirs, daemon)
    except Trouble as problem:
        raise SlurmError(str(problem)) from None
    if sock is None:
        raise SlurmError(f"no {daemon} is running here (looked in {' or '.join(runtime_dirs)})")
    split = Splitter(ANSWER_BYTES)
    try:
        sock.settimeout(ANSWER_S)
        sock.sendall(pack(JSON, json.dumps({"id": 1, **question}).encode()))
        while data := sock.recv(RECEIVED):
            for tag, body in split.feed(data):
                if tag != JSON:
                    raise SlurmError(body.decode(errors="replace"))
                reply: Json = json.loads(body)
                if not reply.get("ok", True):
                    raise SlurmError(str(reply.get("error")))
                return reply
    except (OSError, ValueError) as problem:
        raise SlurmError(f"the {daemon} does not answer: {problem}") from None
    finally:
        sock.close()
    raise SlurmError(f"the {daemon} closed the connection")


def rows_in(reply: Json, key: str = "jobs") -> list[Json]:
    rows = reply.get(key)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def submit(words: Sequence[str], stdin: bytes) -> str:
    """Returns the id that `lbrun -d` prints. Raises SlurmError.

    It runs in a forked child, which saves starting an interpreter.
    """
    files = [os.memfd_create(name) for name in ("input", "output", "errors")]
    view = memoryview(stdin)
    while view:
        view = view[os.write(files[0], view) :]
    os.lseek(files[0], 0, os.SEEK_SET)
    child = os.fork()
    if not child:
        become_lbrun(files, ["-d", *words])
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    output, errors = (read_all(file) for file in files[1:])
    if status:
        raise SlurmError(errors.removeprefix("lbrun: ") or f"lbrun ended with {status}")
    for line in errors.splitlines():
        say(line.removeprefix("lbrun: "), "sbatch")
    return output


def become_lbrun(files: Sequence[int], words: list[str]) -> None:
    """Never returns."""
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
        from lbd.client.lbrun import main

        main(words)
    finally:
        os._exit(1)


def read_all(file: int) -> str:
    size = os.fstat(file).st_size
    return os.pread(file, size, 0).decode(errors="replace").strip()


def with_details(job: Job) -> Job:
    """Returns the job, or its array, with the options its user gave. Raises SlurmError."""
    found = rows_in(ask({"op": "queue.jobs", "ids": [job.array], "attempts": True}))
    return Job(found[0]) if found else job


def all_with_details(found: Sequence[Job]) -> list[Job]:
    """Returns the jobs, the first with the options that their users gave. Raises SlurmError."""
    arrays = list(dict.fromkeys(job.array for job in found))
    if len(arrays) > DETAILED_MAX:
        text = f"limits and directories are shown for the first {DETAILED_MAX} jobs only\n"
        os.write(2, text.encode())
    details: dict[str, Json] = {}
    for job in found:
        if job.array in details or len(details) == DETAILED_MAX:
            continue
        with suppress(SlurmError):  # it has just been forgotten
            details[job.array] = with_details(job).row
    return [
        Job(job.row | {name: details[job.array].get(name) for name in DETAILS})
        if job.array in details
        else job
        for job in found
    ]


def ids_in(text: str) -> list[str]:
    """Returns the ids of a list, such as `12,13_[5,7-9%2]`, as squeue prints them."""
    return [one for one in BETWEEN_IDS.split(AT_ONCE_LIMIT.sub("]", text)) if one]


def tasks_at_once(arrays: Sequence[str]) -> dict[str, int]:
    """Returns how many tasks may run at once, for arrays that say so. Raises SlurmError."""
    found = rows_in(ask({"op": "queue.jobs", "ids": list(arrays), "foretold": False}))
    return {str(row.get("id")): limit for row in found if (limit := whole(row.get("at_once")))}


def jobs(ids: Sequence[str], *, tasks: bool = True) -> list[Job]:
    """Returns the jobs with these ids. `tasks`: each of an array's, otherwise the array as one.
    Raises SlurmError."""
    for one in ids:
        if not SELECTOR.fullmatch(one):
            raise SlurmError(f"Invalid job id specified: {one}")
    return jobs_in(ask({"op": "queue.jobs", "ids": list(ids), "tasks": tasks}))


def recent(
    users: Collection[str] = (),
    since_s: float | None = None,
    *,
    tasks: bool = True,
    hosts: bool = False,
) -> tuple[list[Job], int]:
    """Returns the jobs that have not ended, with `since_s` also those that ended from then on, and
    for how many of them there was no room. What ended before is not even looked at: it may be a
    hundred times as much.

    `users`: others' jobs may be left out, but need not be. `tasks`: as for `jobs`; what has ended
    takes it. `hosts`: also ask all hosts how much CPU time jobs have used that still run. Raises
    SlurmError.
    """
    question: Json = {"op": "jobs", "all": False, "cluster": True, "hosts": hosts, "tasks": tasks}
    if len(users) == 1:
        question["of_user"] = next(iter(users))
    if since_s is not None:
        question["ended_since"] = max(1.0, since_s)
    reply = ask(question)
    missing = reply.get("missing")
    if isinstance(missing, list) and DISPATCHER in missing:
        raise SlurmError(f"{DISPATCHER} did not answer")
    return jobs_in(reply), whole(reply.get("unlisted"))


def jobs_in(reply: Json) -> list[Job]:
    found = rows_in(reply)
    return [Job(row) for row in found if QUEUED_ID.fullmatch(str(row.get("id")))]


def status_of(left_out: int, program: str, instead: str) -> int:
    """Returns the exit status after a list, and says if jobs had no room in it. `instead`: what to
    do about it."""
    if left_out:
        say(f"error: {left_out} older jobs left out: the list is too long; {instead}", program)
    return 1 if left_out else 0


def kept(found: Iterable[Job], **wanted: set[str]) -> list[Job]:
    """Returns the jobs whose attributes are among the wanted ones; an empty set wants all."""
    return [
        job
        for job in found
        if all(not values or getattr(job, name) in values for name, values in wanted.items())
    ]


def state_of(state: str, cause: str) -> str:
    """`cause`: what ended a job that failed. Its exit status does not say: 124 may be the
    command's own."""
    if cause in ENDED_BY:
        return ENDED_BY[cause][0]
    return STATES.get(state, ("FAILED", "F"))[0]


def reason_of(state: str, reason: str) -> str:
    if state != "pending" or not reason or reason.startswith(STARTING):
        return "None"
    if AT_ONCE in reason:
        return "JobArrayTaskLimit"
    if NEVER.fullmatch(reason):
        return "BadConstraints"
    if LACKING in reason:
        return "Resources"
    words = ((HELD, "JobHeldUser"), (DEPENDS, "Dependency"), (LATER, "BeginTime"),
             (NEXT, "Resources"), (UNFIT, "Resources"), (TOO_WIDE, "Resources"),
             (BEGINS_ONCE, "Resources"), (CLOSED, "ReqNodeNotAvail"))  # fmt: skip
    return next((name for begin, name in words if reason.startswith(begin)), "Priority")


def whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def act(verb: str, ids: Sequence[str], **more: object) -> list[str]:
    """Returns the errors, a line each. Raises SlurmError."""
    reply = ask({"op": "queue.act", "verb": verb, "ids": list(ids), **more})
    errors = reply.get("errors")
    return [str(one) for one in errors] if isinstance(errors, list) else []


def wait(ids: Sequence[str]) -> None:
    """Waits until all have ended. Raises SlurmError."""
    while ask({"op": "queue.wait", "ids": list(ids), "patience_s": 15.0, "brief": True})["open"]:
        pass
