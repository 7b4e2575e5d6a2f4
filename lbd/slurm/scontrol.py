"""`scontrol`: shows, holds, releases, requeues and updates jobs; a small part of Slurm's."""

import os
import shlex

from lbd.slurm.columns import ran_s
from lbd.slurm.options import PARTITION, Grammar, SlurmError, listed, read, words_of
from lbd.slurm.queue import SHOWN_S, Job, act, ids_in, jobs, with_details
from lbd.slurm.times import begin_text, elapsed, limit_s, moment
from lbd.text.index_list import is_number
from lbd.text.job_phrases import only_together
from lbd.text.name_patterns import fill_in

GRAMMAR = Grammar(
    words_of("clusters"),
    words_of("oneliner quiet verbose help details hide"),
    {"o": "oneliner", "Q": "quiet", "v": "verbose", "d": "details", "M": "clusters", "h": "help"},
    frozenset(),
    words_of("all future json yaml"),
)
DETAILED = 20  # most jobs or arrays shown with details, each of which takes a request
VERBS = ("show", "hold", "release", "requeue", "update", "ping", "uhold")
USAGE = """usage: scontrol [-o] show job [ID], show config, hold|release|requeue ID...,
       update JobId=ID KEY=VALUE..."""


def run(words: list[str]) -> int:
    """Raises SlurmError."""
    given = read(words, GRAMMAR, mixed=True)
    if "help" in given.plain or not given.rest:
        print(USAGE)
        return 0
    verb, *rest = given.rest
    if verb not in VERBS:
        raise SlurmError(f"{verb} is not supported by lbd; it has {', '.join(VERBS)}")
    if verb == "ping":
        print("Slurmctld(primary) at lbd is UP")
    elif verb == "show":
        show(rest, one_line="oneliner" in given.plain)
    elif verb == "update":
        update(rest)
    else:
        ids = [one for word in rest for one in ids_in(word.partition("=")[2] or word)]
        if not ids:
            raise SlurmError(f"too few arguments for keyword:{verb}")
        check(act("hold" if verb == "uhold" else verb, ids))
    return 0


def check(problems: list[str]) -> None:
    if problems:
        raise SlurmError(problems[0])


def show(rest: list[str], *, one_line: bool) -> None:
    what, *ids = rest or [""]
    if what.startswith("conf"):
        print("ClusterName             = lbd")
        print(f"MinJobAge               = {SHOWN_S} sec")
        return
    if what == "hostnames":
        print("\n".join(one for word in ids for one in listed(word)))
        return
    if not what.startswith("job"):
        raise SlurmError(f"show {what} is not supported by lbd; it has job, config, hostnames")
    ids = [what.partition("=")[2]] if "=" in what else ids
    found = jobs([one for word in ids for one in ids_in(word)])
    given: dict[str, Job] = {}  # by array
    for job in found:
        if job.array not in given and len(given) < DETAILED:
            given[job.array] = with_details(job)
        pairs = [f"{key}={value}" for key, value in described(job, given.get(job.array, job))]
        print(" ".join(pairs) if one_line else "\n   ".join(pairs) + "\n")
    if not found:
        print("No jobs in the system")


def described(job: Job, given: Job) -> list[tuple[str, str]]:
    """`given`: the job with the options its user gave."""
    pairs = [("JobId", job.id)]
    if job.index:
        pairs += [("ArrayJobId", job.array), ("ArrayTaskId", job.index)]
    index = int(job.index) if job.index else None
    output, error = (
        os.path.join(given.directory, fill_in(path.encode(), job.id, index, job.host).decode())
        if path
        else f"(lbctl logs {job.id})"
        for path in (given.output, given.error or given.output)
    )
    end = job.finished
    if end is None and job.started is not None and given.limit_s:
        end = job.started + given.limit_s
    return [
        *pairs,
        ("JobName", job.name),
        ("UserId", job.user),
        ("Priority", str(job.priority)),
        ("JobState", job.state),
        ("Reason", job.reason),
        ("ExitCode", job.exit_code),
        ("RunTime", elapsed(ran_s(job))),
        ("TimeLimit", elapsed(given.limit_s) if given.limit_s else "UNLIMITED"),
        ("SubmitTime", moment(job.submitted, "Unknown")),
        ("StartTime", moment(given.begin if job.started is None else job.started, "Unknown")),
        ("EndTime", moment(end, "Unknown")),
        ("Partition", PARTITION),
        ("NodeList", job.host or "(null)"),
        ("BatchHost", job.host or "(null)"),
        ("NumNodes", "1"),
        ("NumCPUs", str(job.slots)),
        ("NumTasks", "1"),
        ("Comment", job.raw_reason or "(null)"),
        ("Command", shlex.join(job.program)),
        ("WorkDir", given.directory or "(null)"),
        ("StdErr", error),
        ("StdOut", output),
    ]


def update(rest: list[str]) -> None:
    """Raises SlurmError."""
    ids: list[str] = []
    change: dict[str, object] = {}
    for word in rest:
        key, equals, value = word.partition("=")
        name = key.lower()
        if not equals:
            raise SlurmError(f"Invalid input: {word}")
        if name in ("jobid", "job"):
            ids = ids_in(value)
        elif name in ("jobname", "name"):
            change["name"] = value
        elif name == "timelimit":
            change["timeout_s"] = float(limit_s(value))
        elif name == "priority" and is_number(value.removeprefix("-")):
            change["priority"] = int(value)
        elif name in ("starttime", "eligibletime"):
            change["begin"] = begin_at(value)
        else:
            raise SlurmError(f"update {key} is not supported by lbd")
    if not ids or not change:
        raise SlurmError("No job ID or nothing to change specified")
    if problem := only_together(ids):
        raise SlurmError(problem)
    check(act("update", ids, update=change))


def begin_at(value: str) -> float:
    from lbd.client.wait_rules import begin_unix_s

    try:
        return begin_unix_s(text) if (text := begin_text(value)) else 0.0
    except ValueError as problem:
        raise SlurmError(f"StartTime={value}: {problem}") from None
