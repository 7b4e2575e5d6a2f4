"""Arrays and predictions of the queue as `lbctl` sees them, and requested updates of jobs."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lbd.local.json_socket import Json
from lbd.model import ENDED_NAMES, JobState
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.array_phrases import SHOWN
from lbd.text.job_phrases import ENDED_UNRECORDED, OVER_UNRECORDED, is_held
from lbd.text.one_line import one_line
from lbd.text.ranges import merged
from lbd.text.units import duration_text

CANCELLED_EARLY = "cancelled before it ran"
UNRECORDED = (ENDED_UNRECORDED, OVER_UNRECORDED)
FOREIGN_NAMED = 8
ID_LENGTH_MAX = 100


def name_of(job: pb.JobInfo) -> str:
    """The job's id as people know it."""
    return f"{job.array_id}_{job.array_index}" if job.array_id else str(job.id)


def named_in(selectors: Iterable[str], jobs: Iterable[pb.JobInfo]) -> list[pb.JobInfo]:
    """Returns the jobs, and the tasks of arrays, that are named themselves, and not by a range of
    jobs."""
    named = {selector.partition("_")[0] for selector in selectors}
    return [job for job in jobs if str(job.array_id or job.id) in named]


@dataclass(slots=True)
class LeftOut:
    """What a question named, and its answer leaves out."""

    absent: list[str] = field(default_factory=list)  # what to say of ids
    others: int = 0  # jobs of other users in its ranges

    def add(self, theirs: Sequence[pb.JobInfo], asked: pb.JobsAsked) -> None:
        named = named_in(asked.selectors, theirs)
        self.others = len(theirs) - len(named)
        if named and asked.some:
            self.absent.append(not_yours(named))


def not_yours(jobs: Sequence[pb.JobInfo]) -> str:
    names = [
        str(job.array_id) if job.HasField("array") else name_of(job) for job in jobs[:FOREIGN_NAMED]
    ]
    more = f" and {len(jobs) - FOREIGN_NAMED} more" if len(jobs) > FOREIGN_NAMED else ""
    what, are = ("job", "is") if len(jobs) == 1 else ("jobs", "are")
    return f"permission denied: {what} {', '.join(names)}{more} {are} not yours"


def why_no_output(job: pb.JobInfo) -> str:
    """Why a job that has ended has no output: it never ran, or not again after a lost attempt."""
    name, why = name_of(job), one_line(job.reason) or job.state
    ran = [one for one in job.attempts if one.started]
    if not ran:
        was_cancelled = why.startswith(CANCELLED_EARLY)
        return f"job {name} was {why}" if was_cancelled else f"job {name} never ran: {why}"
    last, why = ran[-1], why.replace(CANCELLED_EARLY, f"{CANCELLED_EARLY} again", 1)
    took = f" {duration_text(last.finished - last.started)}" if last.finished else ""
    return (
        f"job {name} did not begin again: {why}; attempt {last.number} ran{took} on {last.host} "
        f"({last.state}): lbctl logs --attempt {last.number} {name}"
    )


def which_task(tasks: Sequence[pb.JobInfo]) -> str:
    """Says what to ask for instead of a whole array; most users want the failed task."""
    failed = next((name_of(task) for task in tasks if task.state == "failed"), None)
    like = f"{failed}, which failed" if failed else name_of(tasks[0])
    return f"{tasks[0].array_id} is an array; name one of its tasks, like {like}"


def cause_of(job: pb.JobInfo) -> str:
    """Returns how a job ended, "" if it has not: one that was cancelled also has how its command
    ended, which is no news."""
    if job.state not in ENDED_NAMES:
        return ""
    return (job.cause if job.state != "cancelled" else "") or job.state


def array_json(array: pb.ArrayInfo) -> Json:
    return {
        "array": array.indexes,
        "tasks": {state.value: array.tasks[state.value] for state in JobState},
        "waiting": array.waiting or None,
        "held": array.held,
        "held_indexes": array.held_indexes or None,
        "at_once": array.at_once or None,
        "expected_end": present(array, "expected_end"),
        "expected_end_90": interval(array, "expected_low", "expected_high"),
        "expected_by": one_line(array.expected_by) or None,
        "expected_from": array.comparable,
        "takes_turns": array.takes_turns,
        "failed": [
            {
                "array_index": task.index,
                "state": task.state,
                "exit_status": task.exit_status if task.HasField("exit_status") else None,
                "signal": task.signal or None,
                "cause": task.cause or None,
                "reason": one_line(task.reason) or None,
            }
            for task in array.bad
        ],
    }


def numbers_left(jobs: Iterable[pb.JobInfo]) -> list[str]:
    """Returns the numbers, as ranges, of those of these jobs and arrays that have not ended."""
    ranges = [
        (job.id, job.id + max(1, job.array.count) - 1)
        for job in jobs
        if job.state not in ENDED_NAMES
    ]
    return [f"{first}-{last}" for first, last in merged(ranges)]


def counts_json(jobs: Iterable[pb.JobInfo]) -> Json:
    """How many of these jobs, and of the tasks of these arrays, are in each state, how many of the
    pending ones are held, and the first that have ended otherwise than done."""
    states: Counter[str] = Counter()
    held = 0
    bad: list[str] = []
    unrecorded = ""
    for job in jobs:
        unrecorded = unrecorded or why_unrecorded((job,))
        states.update(dict(job.array.tasks) if job.HasField("array") else {job.state: 1})
        held += held_in(job)
        if len(bad) < SHOWN:
            bad += bad_names(job)
    left = sum(count for state, count in states.items() if state not in ENDED_NAMES)
    done = not left and states.total() == states["done"]
    counts = {"open": left, "held": held, "all_done": done, "states": dict(states)}
    return {**counts, "bad": bad[:SHOWN], "unrecorded": unrecorded, "jobs": []}


def expected_end(jobs: Sequence[pb.JobInfo]) -> float | None:
    """Returns when the only one of these, an array, ends, in UNIX seconds; None if unknown, or only
    by a rough guess."""
    if len(jobs) != 1 or not jobs[0].HasField("array") or jobs[0].array.is_rough:
        return None
    found = jobs[0].target if jobs[0].HasField("target") else jobs[0].array
    return found.expected_end if found.HasField("expected_end") else None


def why_unrecorded(jobs: Iterable[pb.JobInfo]) -> str:
    """Says that one of these jobs has ended, but not on record, and why; "" if that is true of
    none."""
    return next((why for job in jobs if (why := job.reason).startswith(UNRECORDED)), "")


def bad_names(job: pb.JobInfo) -> list[str]:
    """Names the job if it has ended otherwise than done; of an array the first tasks that failed or
    were lost, or the array if tasks were only cancelled."""
    if not job.HasField("array"):
        return [name_of(job)] if job.state in ENDED_NAMES and job.state != "done" else []
    if job.array.bad:
        return [f"{job.array_id}_{task.index}" for task in job.array.bad]
    return [str(job.array_id)] if job.array.tasks.get("cancelled") else []


def held_in(job: pb.JobInfo) -> int:
    """Returns how many tasks of the array are held; for another job, 1 if it is."""
    if job.HasField("array"):
        return int(job.array.held)
    return int(job.state == JobState.PENDING.value and is_held(job.reason))


def update_of(question: Json) -> pb.Update | None:
    """Raises ValueError."""
    given, update = question.get("update"), pb.Update()
    if not isinstance(given, dict):
        return None
    for name, kind in (("priority", int), ("name", str), ("timeout_s", float), ("begin", float)):
        if (value := given.get(name)) is not None:
            setattr(update, name, kind(value))
    return update


def speedup_of(given: object) -> tuple[float, float]:
    """Returns A and σ. Raises ValueError."""
    match given:
        case [int() | float() as parallelism, int() | float() as sigma]:
            if math.isfinite(parallelism) and math.isfinite(sigma):
                return float(parallelism), float(sigma)
    raise ValueError("speedup must be two numbers")


def prediction_json(reply: pb.PredictInfo) -> Json:
    found: Json = {
        "free": reply.free,
        "predicted_wait_s": present(reply, "wait_s"),
        "predicted_by": one_line(reply.how),
        "how": one_line(reply.how),
        "comparable": reply.comparable,
        "guess": reply.guess or None,
        "runs_is_guess": reply.runs_is_guess,
        "warning": reply.warning or None,
        "choices": [choice_json(one) for one in reply.choices],
        "picks": dict(reply.picks),
    }
    if reply.HasField("speedup"):
        found["speedup"] = speedup_json(reply.speedup)
    return found


def choice_json(one: pb.ChoiceInfo) -> Json:
    begins_in_s, runs_s = present(one, "begins_in_s"), present(one, "runs_s")
    return {
        "slots": one.slots,
        "begins_in_s": begins_in_s,
        "begins_in_s_90": interval(one, "begins_in_low_s", "begins_in_high_s"),
        "runs_s": runs_s,
        "ends_in_s": None if begins_in_s is None or runs_s is None else begins_in_s + runs_s,
    }


def speedup_json(known: pb.SpeedupInfo) -> Json:
    found: Json = {
        "parallelism": known.parallelism,
        "sigma": known.sigma,
        "work_s": present(known, "work_s"),
        "source": known.source,
    }
    if known.runs:
        found |= {
            "runs": known.runs,
            "parallelism_90": [known.parallelism_low, known.parallelism_high],
            "sigma_90": [known.sigma_low, known.sigma_high],
            "noise": known.noise,
        }
    return found


def calibration_json(found: pb.CalibrationInfo) -> Json:
    return {
        "jobs": found.jobs,
        "slope": found.slope,
        "intercept": found.intercept,
        "cc_raw": present(found, "cc_raw"),
        "cc_corrected": present(found, "cc_corrected"),
        "covered_90": present(found, "covered_90"),
        "lately": found.lately,
        "short": found.short,
        "off_by": found.off_by if found.lately else None,
        "intervals": found.intervals,
        "width": found.width or None,
        "doubt": found.doubt or None,
    }


def interval(
    message: pb.ChoiceInfo | pb.JobInfo | pb.ArrayInfo, low: str, high: str
) -> list[float] | None:
    low_s, high_s = present(message, low), present(message, high)
    return None if low_s is None or high_s is None else [low_s, high_s]


def present(
    message: pb.PredictInfo
    | pb.ChoiceInfo
    | pb.SpeedupInfo
    | pb.CalibrationInfo
    | pb.JobInfo
    | pb.ArrayInfo,
    name: str,
) -> float | None:
    return float(getattr(message, name)) if message.HasField(name) else None


def acted_json(reply: pb.ActReply) -> Json:
    """What came of an order."""
    return {  # no id is longer, except those that a lying dispatcher makes up
        "done": [
            int(one) if one.isdecimal() else one
            for one in reply.done_ids
            if len(one) <= ID_LENGTH_MAX
        ],
        "errors": list(reply.errors),
        "failed": [{"ids": list(one.ids), "error": one.error} for one in reply.failures],
        "still_open": dict(reply.still_open),
        "not_held": list(reply.not_held),
    }


def target_json(job: pb.JobInfo) -> Json:
    """Times are UNIX seconds; null: the end cannot be predicted."""
    target, end, ends = job.target, None, None
    if target.HasField("expected_end"):
        end, ends = target.expected_end, [target.expected_low, target.expected_high]
    return {
        "by": target.by,
        "kind": "deadline" if target.is_deadline else "target",
        "expected_end": end,
        "expected_end_90": ends,
        "slots": target.at_once * max(1, job.slots),
        "tasks_at_once": target.at_once,
        "tasks_running": target.running,
        "tasks_left": target.left,
        "why": target.why or None,
    }
