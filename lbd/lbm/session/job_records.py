"""The jobs of plain `lbrun` commands as messages between LBMs, and all jobs as JSON for `lbctl`."""

import os
import re
from collections.abc import Mapping

from lbd.lbm.core.jobs import Job
from lbd.lbm.outbound.context import Underway
from lbd.lbm.queue.dispatcher_client import OWN_KEY
from lbd.lbm.session.peer_process import PeerProcess
from lbd.lbm.usage.record import Usage
from lbd.load.process_table import status_of
from lbd.local.json_socket import Json
from lbd.model import JobId, JobState
from lbd.net.gen import dispatch_pb2, lbm_pb2
from lbd.text.command_words import shown
from lbd.text.needs_words import read_needs_text
from lbd.text.placement_phrases import PLACED

TASK = re.compile(r"([0-9]{1,18})_([0-9]{1,18})")
QUEUED = re.compile(r"[0-9]{1,19}(_[0-9]{1,18})?")
ID_CHARS_MAX = 255
TIME_MAX = 1e12  # UNIX seconds, and CPU seconds
STOPPED = b"Tt"  # process states
STOPPED_REASON = "stopped by a signal"


def job_record(
    job: Job, staying: Mapping[JobId, PeerProcess], underway: Mapping[JobId, Underway]
) -> lbm_pb2.JobRecord:
    """`staying`: processes that have become commands on this host, whose state is read from them;
    `underway`: commands that have not begun, which know what they wait for."""
    record = lbm_pb2.JobRecord(
        id=job.id,
        name=job.name,
        command=job.command,
        user=job.user,
        origin=job.origin,
        host=job.host,
        state=job.state.value,
        attempt=1,
        submitted=job.submitted,
        started=job.started or 0.0,
        finished=job.finished or 0.0,
        cpu_s=job.cpu_s or 0.0,
        reason=job.reason,
        pid=job.pid,
        directory=job.directory,
        slots=job.slots,
    )
    if job.exit_status is not None:
        record.exit_status = job.exit_status
    if job.state is JobState.PENDING and (command := underway.get(job.id)) is not None:
        record.reason = command.why_waiting or record.reason
    process = staying.get(job.id)
    status = status_of(process.pid) if process is not None and process.pid else None
    if status is not None and status.state in STOPPED:
        record.state, record.reason = JobState.SUSPENDED.value, STOPPED_REASON
    return record


def ended_record(number: int, usage: Usage) -> lbm_pb2.JobRecord:
    """A record from the accounting."""
    is_open = usage.response_s is None and usage.state == JobState.UNKNOWN.value
    record = lbm_pb2.JobRecord(
        number=number,
        id=usage.id,
        name=usage.name,
        command=usage.words.split(b"\0"),
        user=usage.user,
        origin=usage.origin,
        host=usage.host,
        state=usage.state,
        attempt=1,
        submitted=usage.submitted,
        started=0.0 if usage.waiting_s is None else usage.submitted + usage.waiting_s,
        finished=0.0 if is_open else usage.finished,
        cpu_s=usage.cpu_s or 0.0,
        reason=usage.reason,
        slots=usage.slots,
    )
    if usage.exit_status is not None:
        record.exit_status = usage.exit_status
    return record


def has_times(job: lbm_pb2.JobRecord) -> bool:
    """Whether its figures are valid. Nobody's list may fail because of one host's answer."""
    figures = job.submitted, job.started, job.finished, job.cpu_s
    return all(0 <= one <= TIME_MAX for one in figures)  # nor NaN


def is_plain_of(host: str, job: lbm_pb2.JobRecord) -> bool:
    """Whether a host may report that plain command. With another host's id, or one that names
    jobs of the queue (7, 1-99, @me), it would have `lbctl kill --name` and the like end those."""
    own = job.id.removeprefix(f"{host}-")
    is_own = job.origin == host and own != job.id and own.isascii() and own.isdecimal()
    return is_own and len(job.id) <= ID_CHARS_MAX and has_times(job)


def is_past_of(host: str, job: lbm_pb2.JobRecord) -> bool:
    """Whether that host can have the ended job on record: its own plain command, wherever that ran,
    or a job of the queue that ran there and nowhere else."""
    is_queued = QUEUED.fullmatch(job.id) is not None
    return job.host == host if is_queued else is_plain_of(host, job)


def job_json(job: lbm_pb2.JobRecord | dispatch_pb2.JobInfo) -> Json:
    """The object of the contract; absent values are null."""
    reason, _, placed = job.reason.partition(PLACED)
    return {
        "id": str(job.id),
        "name": job.name or None,
        "command": [os.fsdecode(part) for part in shown(job.command)],
        "user": job.user,
        "origin": job.origin,
        "host": job.host or None,
        "state": job.state,
        "attempt": job.attempt,
        "tier": None,
        "exit_status": job.exit_status if job.HasField("exit_status") else None,
        "submitted": job.submitted,
        "started": job.started or None,
        "finished": job.finished or None,
        "cpu_s": job.cpu_s or None,
        "slots": job.slots or 1,
        "array_index": None,
        "reason": reason or None,
        **({"placed": placed} if placed else {}),
    } | task_json(str(job.id))


def task_json(shown: str) -> Json:
    """The fields of an id like 12_7, which a task of an array has in the accounting."""
    found = TASK.fullmatch(shown)
    return {"array_id": found[1], "array_index": int(found[2])} if found else {}


def needs_json(text: str) -> Json | None:
    """Reads the text of another host; None: there is nothing, or it is not readable."""
    try:
        needs = read_needs_text(text)
    except ValueError:
        return None
    if not needs:
        return None
    return {
        "resources": dict(needs.resources),
        "features": list(needs.features),
        "not_features": list(needs.not_features),
        "memory_bytes": needs.memory_bytes or None,
    }


def attempt_json(attempt: dispatch_pb2.AttemptInfo) -> Json:
    return {
        "number": attempt.number,
        "host": attempt.host,
        "tier": attempt.tier,
        "state": attempt.state,
        "cutoff_s": attempt.cutoff_s or None,
        "started": attempt.started or None,
        "finished": attempt.finished or None,
        "cpu_s": attempt.cpu_s if attempt.HasField("cpu_s") else None,
        "exit_status": attempt.exit_status if attempt.HasField("exit_status") else None,
        "reason": attempt.reason or None,
        "slots": attempt.slots or 1,
    }


def given_json(given: dispatch_pb2.GivenInfo) -> Json:
    """null: not given, or not known here; without `output` it is kept for `lbctl logs`. A key that
    our `lbrun` made up is not shown."""
    return {
        "directory": os.fsdecode(given.directory) or None,
        "submitted_in": os.fsdecode(given.submitted_in) or None,
        "fetch": [os.fsdecode(name) for name in given.fetch],
        "fetched": None,
        "output": os.fsdecode(given.output) or None,
        "error": os.fsdecode(given.error) or None,
        "timeout_s": given.timeout_s or None,
        "memory_bytes": given.memory_bytes or None,
        "idempotency_key": None if given.key.startswith(OWN_KEY) else given.key or None,
        "may_restart": given.may_restart,
        "begin": given.begin or None,
        "notify": os.fsdecode(given.notify) or None,
    }
