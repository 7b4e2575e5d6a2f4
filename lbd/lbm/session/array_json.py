"""Arrays as `lbctl` sees them, and what it wants changed of jobs."""

from collections import Counter
from collections.abc import Iterable, Sequence

from lbd.local.json_socket import Json
from lbd.model import ENDED_NAMES, JobState
from lbd.net.gen import dispatch_pb2 as pb


def name_of(job: pb.JobInfo) -> str:
    """The job's id as people know it."""
    return f"{job.array_id}_{job.array_index}" if job.array_id else str(job.id)


def which_task(tasks: Sequence[pb.JobInfo]) -> str:
    """What to ask for instead of a whole array: who asks mostly wants what failed."""
    failed = next((name_of(task) for task in tasks if task.state == "failed"), None)
    like = f"{failed}, which failed" if failed else name_of(tasks[0])
    return f"{tasks[0].array_id} is an array; name one of its tasks, like {like}"


def array_json(array: pb.ArrayInfo) -> Json:
    return {
        "array": array.indexes,
        "tasks": {state.value: array.tasks[state.value] for state in JobState},
        "waiting": array.waiting or None,
        "at_once": array.at_once or None,
        "failed": [
            {
                "array_index": task.index,
                "state": task.state,
                "exit_status": task.exit_status if task.HasField("exit_status") else None,
                "signal": task.signal or None,
                "cause": task.cause or None,
            }
            for task in array.bad
        ],
    }


def counts_json(jobs: Iterable[pb.JobInfo]) -> Json:
    """How many of these jobs, and of the tasks of these arrays, are in which state."""
    states: Counter[str] = Counter()
    for job in jobs:
        states.update(dict(job.array.tasks) if job.HasField("array") else {job.state: 1})
    left = sum(count for state, count in states.items() if state not in ENDED_NAMES)
    done = not left and states.total() == states["done"]
    return {"open": left, "all_done": done, "states": dict(states), "jobs": []}


def update_of(question: Json) -> pb.Update | None:
    """Raises ValueError."""
    given, update = question.get("update"), pb.Update()
    if not isinstance(given, dict):
        return None
    for name, kind in (("priority", int), ("name", str), ("timeout_s", float), ("begin", float)):
        if (value := given.get(name)) is not None:
            setattr(update, name, kind(value))
    return update
