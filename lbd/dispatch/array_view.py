"""Arrays as clients see them: the view of one task becomes that of its array."""

import contextlib
import time
from collections.abc import Sequence

from lbd.dispatch.core.discipline import ONLY_LINE, Foretold, QueuedJob
from lbd.dispatch.core.ledger_rows import JobRow, Tally
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.outlook.array_ends import end_of
from lbd.dispatch.core.records import Live
from lbd.dispatch.core.registry import Registry
from lbd.dispatch.predictions import Predictions, is_wait
from lbd.model import JobId, JobState
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from lbd.text.task_indexes import TaskIndexes

WAITING_SHOWN = 6  # runs of indexes of an array


def add_tally(reply: pb.JobInfo, row: JobRow, tally: Tally) -> None:
    """Turns the view of one task into that of its array."""
    state = tally.state
    reply.id = reply.array_id = row.first
    reply.state, reply.attempt, reply.host, reply.cause = state, 0, "", ""
    reply.signal, reply.is_final, reply.slots = 0, False, tally.slots or row.slots
    for name in ("array_index", "exit_status", "cpu_s"):
        reply.ClearField(name)
    add_foretold(reply, tally.foretold)
    reply.started = tally.started or 0.0
    reply.finished = 0.0 if tally.open else tally.finished or 0.0
    if tally.cpu_s is not None:
        reply.cpu_s = tally.cpu_s
    reply.max_rss_bytes = tally.max_rss_bytes
    if not (tally.waiting and tally.open):
        reply.reason = tally.suspended_for or tally.cancelled_for
    array = reply.array
    array.indexes, array.at_once, array.count = row.indexes, row.at_once, row.count
    for name, count in tally.states.items():
        array.tasks[name] = count
    array.held = tally.held_count
    if reply.HasField("target"):  # as the states say, which may be a moment older
        reply.target.left = tally.open
    if row.indexes:
        with contextlib.suppress(ValueError, IndexError):  # others may write to the ledger
            array.waiting = indexes_shown(row, tally.waiting)
            array.held_indexes = indexes_shown(row, tally.held)
    for task in tally.bad:
        array.bad.add(
            index=task.index, state=task.state, exit_status=task.exit_status,
            signal=task.signal, cause=task.cause, reason=task.reason,
        )  # fmt: skip


def next_waiting(tally: Tally) -> int:
    """Returns the id of the first waiting task that is not held; of the first if all are."""
    for low, high in tally.waiting:
        free = low
        for first, last in tally.held:
            if first <= free <= last:
                free = last + 1
        if free <= high:
            return free
    return tally.waiting[0][0]


def task_of(row: JobRow, tally: Tally, life: Lifecycle, running: dict[int, Live]) -> Live | None:
    """Returns the task that speaks for an array: the first that waits, else one that runs. `row`:
    any of its tasks; `running`: such a task of each array, found for all once one is asked for.

    The tally is some moments old: the first of short tasks that waited then may have ended. So may
    one that ran, as others are heard while a long list is made."""
    first = next_waiting(tally) if tally.waiting else row.id
    if (live := life.jobs.get(JobId(str(first)))) is not None:
        return live
    if not running:
        running.update((one.job.array, one) for one in life.leased.values())
    live = running.get(row.first)
    return live if live is not None and life.jobs.get(live.job.id) is live else None


def indexes_shown(row: JobRow, ids: Sequence[tuple[int, int]]) -> str:
    """Returns the indexes of the first of these tasks. Raises ValueError, IndexError if the array
    lacks these indexes."""
    if not ids:
        return ""
    indexes = TaskIndexes(row.indexes)
    runs = [(low - row.first, high - row.first) for low, high in ids]
    shown = [indexes.between(low, high, WAITING_SHOWN) for low, high in runs[:WAITING_SHOWN]]
    return ",".join([*shown, "…"] if runs[WAITING_SHOWN:] else shown)


def add_end(
    reply: pb.JobInfo, job: QueuedJob, tally: Tally, registry: Registry, predictions: Predictions
) -> None:
    """Adds when the array of this task ends."""
    waiting = tally.states.get(JobState.PENDING.value, 0) - tally.held_count
    last = registry.find(JobId(str(tally.waiting[-1][1]))) if tally.waiting else None
    ended = sum(tally.states.values()) - tally.open
    found = end_of(predictions.forecast, job, ended, waiting, last, clock_s())
    array, end_s = reply.array, found.wait_s
    array.expected_by = predictions.doubted(found.how) if end_s else found.how
    if end_s is None:
        return
    now = time.time()
    array.expected_end, array.is_rough = now + end_s, found.is_rough
    array.takes_turns = 0 < waiting < predictions.forecast.places.end_of(ONLY_LINE).jobs
    array.comparable = predictions.comparable(job, end_s, is_rough=found.is_rough)
    if found.within_s is not None:
        array.expected_low, array.expected_high = (now + one_s for one_s in found.within_s)


def add_foretold(reply: pb.JobInfo, foretold: Foretold) -> None:
    """Sets what was predicted at submission, as it was shown."""
    names = "foretold_s", "foretold_low_s", "foretold_high_s"
    for name, wait_s in zip(names, foretold[1:], strict=True):
        if is_wait(wait_s):
            setattr(reply, name, wait_s)
        else:
            reply.ClearField(name)
    reply.foretold_is_rough = foretold.is_rough
