"""`sacct`: jobs on the queue's record, including ended ones; a line each, no steps."""

import getpass
import os
import time
from collections.abc import Callable

from lbd.slurm.columns import ran_s
from lbd.slurm.hostlist import hosts_in
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
from lbd.slurm.queue import Job, all_with_details, ids_in, jobs, kept, recent, status_of
from lbd.slurm.squeue import check_filters, of_partition, states_of
from lbd.slurm.times import elapsed, moment, unix_s

GRAMMAR = Grammar(
    words_of("jobs format starttime endtime name user state clusters delimiter partition nodelist"
             " units"),
    words_of("allocations parsable parsable2 noheader allusers helpformat help duplicates brief"),
    {"j": "jobs", "o": "format", "S": "starttime", "E": "endtime", "u": "user", "s": "state",
     "M": "clusters", "X": "allocations", "p": "parsable", "P": "parsable2", "n": "noheader",
     "a": "allusers", "r": "partition", "e": "helpformat", "h": "help", "D": "duplicates",
     "A": "accounts", "q": "qos", "N": "nodelist", "L": "allclusters",
     "b": "brief", "l": "long"},
    words_of("accounts qos gid uid"),
    words_of("long json yaml truncate batch-script env-vars allclusters completion"),
    instead={"json": "`lbctl history --json` prints JSON",
             "long": "use -o FIELDS; `sacct -e` names them"},
)  # fmt: skip
USUAL = "JobID,JobName,Partition,AllocCPUS,State,ExitCode"
BRIEF = "JobID,State,ExitCode"
WIDTHS = {"jobid": 12, "jobidraw": 12, "exitcode": 8,
          "submit": 19, "eligible": 19, "start": 19, "end": 19}  # fmt: skip
FIELDS: dict[str, tuple[str, Callable[[Job], str]]] = {
    "jobid": ("JobID", lambda job: job.id),
    "jobidraw": ("JobIDRaw", lambda job: job.id),
    "jobname": ("JobName", lambda job: job.name),
    "state": ("State", lambda job: job.state),
    "exitcode": ("ExitCode", lambda job: job.exit_code),
    "derivedexitcode": ("DerivedExitCode", lambda job: job.exit_code),
    "user": ("User", lambda job: job.user),
    "partition": ("Partition", lambda _: PARTITION),
    "cluster": ("Cluster", lambda _: PARTITION),
    "alloccpus": ("AllocCPUS", lambda job: str(job.slots)),
    "ncpus": ("NCPUS", lambda job: str(job.slots)),
    "reqcpus": ("ReqCPUS", lambda job: str(job.slots)),
    "nnodes": ("NNodes", lambda _: "1"),
    "allocnodes": ("AllocNodes", lambda job: "1" if job.host else "0"),
    "nodelist": ("NodeList", lambda job: job.host or "None assigned"),
    "submit": ("Submit", lambda job: moment(job.submitted, "Unknown")),
    "start": ("Start", lambda job: moment(job.started, "Unknown")),
    "end": ("End", lambda job: moment(job.finished, "Unknown")),
    "elapsed": ("Elapsed", lambda job: elapsed(ran_s(job))),
    "elapsedraw": ("ElapsedRaw", lambda job: str(int(ran_s(job)))),
    "cputimeraw": ("CPUTimeRAW", lambda job: str(int(ran_s(job) * job.slots))),
    "totalcpu": ("TotalCPU", lambda job: elapsed(job.cpu_s)),
    "maxrss": ("MaxRSS", lambda job: f"{job.max_rss_bytes >> 10}K" if job.max_rss_bytes else ""),
    "cputime": ("CPUTime", lambda job: elapsed(ran_s(job) * job.slots)),
    "alloctres": ("AllocTRES", lambda job: f"cpu={job.slots},node=1" if job.host else ""),
    "eligible": ("Eligible", lambda job: moment(job.submitted, "Unknown")),
    "planned": ("Planned", lambda job: elapsed(waited_s(job))),
    "reserved": ("Reserved", lambda job: elapsed(waited_s(job))),
    "reason": ("Reason", lambda job: job.reason),
    "priority": ("Priority", lambda job: str(job.priority)),
}
# Unknown, or what we do not have, but often asked for along with others: always empty.
EMPTY = (
    "Account", "AveCPU", "AveRSS", "AveVMSize", "Group", "MaxVMSize", "QOS", "WCKey",
)  # fmt: skip
DETAILED: dict[str, tuple[str, Callable[[Job], str]]] = {
    "timelimit": ("Timelimit", lambda job: limit_of(job)),
    "reqmem": ("ReqMem", lambda job: f"{job.memory_bytes >> 20}M" if job.memory_bytes else ""),
    "workdir": ("WorkDir", lambda job: job.directory),
}
FIELDS |= DETAILED | {name.lower(): (name, lambda _: "") for name in EMPTY}
USAGE = "usage: sacct [-X] [-P | -p] [-n] [-o FIELDS] [-j IDS] [-S TIME] [-E TIME] [-u USER | -a]"


def run(words: list[str]) -> int:
    """Raises SlurmError."""
    given = read(words, GRAMMAR, mixed=True)
    if "help" in given.plain or "helpformat" in given.plain:
        names = " ".join(name for name, _ in FIELDS.values())
        print(names if "helpformat" in given.plain else USAGE)
        return 0
    if given.rest:
        raise SlurmError(f"Unrecognized parameter: {given.rest[0]}")
    check_filters(given)
    usual = BRIEF if "brief" in given.plain else os.environ.get("SACCT_FORMAT") or USUAL
    fields = fields_of(given.values.get("format", usual))
    uses_cpu = any(name == "totalcpu" for name, _ in fields)
    found, left_out = chosen(given, asks_hosts=uses_cpu)
    if found and any(name in DETAILED for name, _ in fields):
        found = all_with_details(found)
    if "noheader" not in given.plain:
        put(given, [FIELDS[name][0] for name, _ in fields], fields)
        if not given.plain & {"parsable", "parsable2"}:
            put(given, ["-" * width for _, width in fields], fields)
    for job in found:
        put(given, [FIELDS[name][1](job) for name, _ in fields], fields)
    return status_of(left_out, "sacct", "choose a later start (-S), one user (-u) or ids (-j)")


def limit_of(job: Job) -> str:
    if not job.has_details:
        return ""
    return elapsed(job.limit_s) if job.limit_s else "UNLIMITED"


def waited_s(job: Job) -> float:
    return (job.started or job.finished or time.time()) - job.submitted


def fields_of(text: str) -> list[tuple[str, int]]:
    """Returns the names and widths of the fields. Raises SlurmError."""
    found = []
    for one in listed(text):
        name, _, width = one.partition("%")
        if name.lower() not in FIELDS:
            raise SlurmError(f'Invalid field requested: "{name}"; lbd does not have it')
        size = width_of(width.removeprefix("-"), f"--format: {one}")
        found.append((name.lower(), size or WIDTHS.get(name.lower(), 10)))
    return found


def put(given: Given, cells: list[str], fields: list[tuple[str, int]]) -> None:
    between = given.values.get("delimiter", "|")
    if given.plain & {"parsable", "parsable2"}:
        print(between.join(cells) + (between if "parsable" in given.plain else ""))
        return
    print(
        " ".join(text[:width].rjust(width) for text, (_, width) in zip(cells, fields, strict=True))
    )


def chosen(given: Given, *, asks_hosts: bool) -> tuple[list[Job], int]:
    """Returns the chosen jobs, and how many more there may be; `asks_hosts`: of CPU time. As
    with Slurm, without ids these are the caller's of today."""
    values = given.values
    ids = [one.partition(".")[0] for one in ids_in(values.get("jobs", ""))]
    names, states = set(listed(values.get("name", ""))), states_of(values.get("state", ""), ())
    own = set() if ids or "allusers" in given.plain else {getpass.getuser()}
    users = set(listed(values["user"])) if "user" in values else own
    from_s = unix_s(values.get("starttime", "now-2000weeks" if ids else "today"))
    until_s = unix_s(values.get("endtime", "now"))
    if not of_partition(values):
        return [], 0
    if ids:
        found, left_out = jobs(ids), 0
    else:
        found, left_out = recent(users, from_s, hosts=asks_hosts)
    hosts = set(hosts_in(values.get("nodelist", "")))
    found = kept(found, host=hosts, name=names, state=states, user=users)
    now_s = time.time()
    found = [job for job in found if (job.finished or now_s) >= from_s and job.submitted <= until_s]
    return found, left_out
