"""`scontrol`: shows, holds, releases, requeues and updates jobs; a small part of Slurm's."""

import getpass
import os
import shlex
import time

from lbd.slurm.columns import ran_s
from lbd.slurm.hostlist import hosts_in
from lbd.slurm.options import PARTITION, Grammar, SlurmError, read, words_of
from lbd.slurm.queue import SHOWN_S, Job, act, ids_in, jobs, recent, status_of, with_details
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
VERBS = ("show", "hold", "release", "requeue", "update", "ping", "uhold", "version")
SHOWS = "job, node, partition, config, hostnames, hostlist"
USAGE = """usage: scontrol [-o] show job [ID], show node [HOSTS], show partition, show config,
       show hostnames [LIST], hold|release|requeue ID..., update JobId=ID KEY=VALUE..."""


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
    elif verb == "version":
        print("slurm of lbd")
    elif verb == "show":
        return show(rest, one_line="oneliner" in given.plain)
    elif verb == "update":
        update(rest)
    else:
        ids = [one for word in rest for one in selected(word)]
        if not ids:
            raise SlurmError(f"too few arguments for keyword:{verb}")
        check(act("hold" if verb == "uhold" else verb, ids))
    return 0


def selected(word: str) -> list[str]:
    """Returns the ids in `12,13`, `JobId=12` or `Name=fit`. Raises SlurmError."""
    key, equals, value = word.partition("=")
    if not equals or key.lower() in ("jobid", "job"):
        return ids_in(value if equals else word)
    if key.lower() not in ("name", "jobname"):
        raise SlurmError(f"{word} is not supported by lbd; it has JobId= and Name=")
    own = getpass.getuser()
    found, left_out = recent({own}, tasks=False)
    ids = [job.id for job in found if job.is_open and job.name == value and job.user == own]
    if left_out:
        raise SlurmError(f"{left_out} of your jobs are not looked at: too many wait; name ids")
    if not ids:
        raise SlurmError(f"no job of yours that has not ended is named {value}")
    return ids


def check(problems: list[str]) -> None:
    if problems:
        raise SlurmError(*problems)


def show(rest: list[str], *, one_line: bool) -> int:
    """Raises SlurmError."""
    what, *ids = rest or [""]
    what, names = what.lower(), ",".join(ids)
    if "=" in what:
        what, _, names = rest[0].partition("=")
        what = what.lower()
    if what.startswith("conf"):
        print("ClusterName             = lbd")
        print(f"MinJobAge               = {SHOWN_S} sec")
        return 0
    if what.startswith("hostname"):
        print("\n".join(hosts_in(names or os.environ.get("SLURM_JOB_NODELIST", ""))))
        return 0
    if what.startswith("hostlist"):  # a list in full is one, too
        print(",".join(dict.fromkeys(hosts_in(names))))
        return 0
    if what.startswith(("node", "part")):
        from lbd.slurm.nodes import nodes, partition

        for pairs in nodes(names) if what.startswith("node") else [partition(names)]:
            put(pairs, one_line=one_line)
        return 0
    if not what.startswith("job"):
        raise SlurmError(f"show {what} is not supported by lbd; it has {SHOWS}")
    return show_jobs(ids_in(names), one_line=one_line)


def show_jobs(ids: list[str], *, one_line: bool) -> int:
    """Without ids, what squeue shows with all states. Raises SlurmError."""
    if ids:
        found, left_out = jobs(ids), 0
    else:
        found, left_out = recent(since_s=time.time() - SHOWN_S)
    given: dict[str, Job] = {}  # by array
    for job in found:
        if job.array not in given and len(given) < DETAILED:
            given[job.array] = with_details(job)
        put(described(job, given.get(job.array, job)), one_line=one_line)
    if not found:
        print("No jobs in the system")
    return status_of(left_out, "scontrol", "name ids")


def put(pairs: list[tuple[str, str]], *, one_line: bool) -> None:
    texts = [f"{key}={value}" for key, value in pairs]
    print(" ".join(texts) if one_line else "\n   ".join(texts) + "\n")


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
    holds = False
    left = list(rest)
    while left:
        word = left.pop(0)
        key, equals, value = word.partition("=")
        name = key.lower()
        if name in ("jobid", "job") and not equals and left:
            value = left.pop(0)
        elif not equals:
            raise SlurmError(f"Invalid input: {word}")
        if name in ("jobid", "job"):
            ids = ids_in(value)
        elif name in ("jobname", "name"):
            change["name"] = value
        elif name == "timelimit":
            change["timeout_s"] = value
        elif name == "priority" and value == "0":
            holds = True  # as Slurm does
        elif name == "priority" and is_number(value.removeprefix("-")):
            change["priority"] = int(value)
        elif name in ("starttime", "eligibletime"):
            change["begin"] = begin_at(value)
        else:
            hint = "; use `lbctl drain HOST`" if name == "nodename" else ""
            raise SlurmError(f"update {key} is not supported by lbd{hint}")
    if not ids or not (change or holds):
        raise SlurmError("No job ID or nothing to change specified")
    if change and (problem := only_together(ids)):
        raise SlurmError(problem)
    problems = act("hold", ids) if holds else []
    if str(change.get("timeout_s", ""))[:1] in ("+", "-"):
        for one in ids:
            problems += act("update", [one], update=change | {"timeout_s": changed_s(one, change)})
    elif change:
        if "timeout_s" in change:
            change["timeout_s"] = float(limit_s(str(change["timeout_s"])))
        problems += act("update", ids, update=change)
    check(problems)


def changed_s(one: str, change: dict[str, object]) -> float:
    """Returns the limit of the job, increased or reduced. Raises SlurmError."""
    text = str(change["timeout_s"])
    now_s = with_details(jobs([one])[0]).limit_s
    if not now_s:
        raise SlurmError(f"TimeLimit={text}: job {one} has no time limit")
    return max(60.0, now_s + limit_s(text[1:]) * (1 if text[0] == "+" else -1))


def begin_at(value: str) -> float:
    from lbd.client.wait_rules import begin_unix_s

    try:
        return begin_unix_s(text) if (text := begin_text(value)) else 0.0
    except ValueError as problem:
        raise SlurmError(f"StartTime={value}: {problem}") from None
