"""The ended jobs of the queue that are in no host's record.

No host began them, or they were lost with their host, or it could not record them. The queue itself
knows when they began and ended, and the slots that they held.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lbd.console.daemons import Daemons
from lbd.console.jobs import fetch, why_no_queue
from lbd.console.reply import Json, number, tables, text, texts
from lbd.console.usage_hosts import AT_ONCE, PAGE, OfHost, of_host
from lbd.dispatch.core.job_selection import is_selector
from lbd.errors import LbdError
from lbd.model import ENDED_NAMES, JobState
from lbd.text.job_phrases import DISPATCHER
from lbd.text.units import counted

IDS_AT_ONCE = 500
ROWS_MAX = 4 * PAGE  # of so many jobs: each may have stopped at checkpoints
CLOCKS_S = 60.0  # by which the clocks of two hosts may differ
CHECKPOINT = "checkpoint"

Records = Mapping[str, Iterable[Json]]  # by the id of the job


@dataclass(slots=True)
class OffRecord:
    jobs: list[Json] = field(default_factory=list)
    queue_trouble: str = ""  # why the queue's jobs are not known
    # hosts that did not say which of their jobs are on record, and why
    silent: dict[str, str] = field(default_factory=dict)
    unsure: list[str] = field(default_factory=list)  # a line for each host that told it of some


def off_record(
    daemons: Daemons,
    own: str,
    hosts: Collection[str],
    recorded: Iterable[Json],
    chosen: Callable[[Iterable[Json]], list[Json]],
) -> OffRecord:
    """`own` is the host that asks. `hosts` have answered, with these jobs on record; `chosen` picks
    jobs to be listed. No host is asked about a job that is on record with another."""
    try:
        reply = fetch(daemons, ended_too=True, tasks=True, of_hosts=False)
    except LbdError as problem:
        return OffRecord(queue_trouble=str(problem))
    is_missing = DISPATCHER in texts(reply, "missing")
    found = OffRecord(queue_trouble=why_no_queue(daemons) if is_missing else "")
    jobs = [
        job
        for job in tables(reply, "jobs")
        if is_selector(text(job, "id")) and text(job, "state") in ENDED_NAMES
    ]
    jobs = without_recorded(chosen(jobs), by_id(recorded))
    ran_on: dict[str, list[str]] = defaultdict(list)
    for job in jobs:
        if (host := text(job, "host")) in hosts:
            ran_on[host].append(text(job, "id"))
    rows, found.silent, unsure = ask_hosts(daemons, ran_on)
    untold: Counter[str] = Counter()
    for job in without_recorded(jobs, by_id(rows)):
        host = text(job, "host")
        is_told = bool(unsure.get(host)) and text(job, "origin") == own
        if is_told or host not in {*found.silent, *unsure} or not has_ended_there(job):
            found.jobs.append(job)
        elif host in unsure:
            untold[host] += 1
    found.unsure = [unsure_line(host, untold[host], unsure[host]) for host in sorted(untold)]
    return found


def unsure_line(host: str, jobs: int, setting: str) -> str:
    """`setting`: by which the host withholds others' jobs; "" if it withholds all."""
    why = (
        f"withholds its record of them ({setting} there)"
        if setting
        else "does not say which of them it has on record"
    )
    return f"{host}: {counted(jobs, 'queued job')} may be missing from this list, since it {why}"


def ask_hosts(
    daemons: Daemons, ran_on: Mapping[str, list[str]]
) -> tuple[list[Json], dict[str, str], dict[str, str]]:
    """Asks each host which of these jobs it has on record. Returns the records, the hosts that did
    not answer and why, and those that told it only of jobs submitted from here, with the setting of
    theirs that withholds the others; "" if it told of none, since we do not prove our name."""
    asked = [
        (host, ids[at : at + IDS_AT_ONCE])
        for host, ids in ran_on.items()
        for at in range(0, len(ids), IDS_AT_ONCE)
    ]

    def ask(one: tuple[str, list[str]]) -> OfHost | LbdError:
        try:
            return of_host(daemons, one[0], {"ids": one[1]}, ROWS_MAX)
        except LbdError as problem:
            return problem

    rows: list[Json] = []
    silent: dict[str, str] = {}
    unsure: dict[str, str] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for (host, _), answer in zip(asked, pool.map(ask, asked), strict=True):
            if isinstance(answer, LbdError):
                silent[host] = str(answer)
            elif not answer.goes_by_ids:
                unsure[host] = ""
            else:
                rows += answer.jobs
                if answer.withheld:
                    unsure[host] = answer.withheld
    return rows, silent, unsure


def by_id(records: Iterable[Json]) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = defaultdict(list)
    for record in records:
        found[text(record, "id")].append(record)
    return found


def without_recorded(jobs: Iterable[Json], records: Records) -> list[Json]:
    return [job for job in jobs if not any(map(ends(job), records.get(text(job, "id"), ())))]


def ends(job: Json) -> Callable[[Json], bool]:
    """Returns whether a record with the id of this job is of its end. It may be of a stop at a
    checkpoint, of an end before the job was queued again, or of a job of a ledger that was lost."""
    began = number(job, "started") if job.get("started") else number(job, "submitted")

    def is_its_end(record: Json) -> bool:
        is_before = number(record, "finished") < began - CLOCKS_S
        return text(record, "state") != CHECKPOINT and not is_before

    return is_its_end


def has_ended_there(job: Json) -> bool:
    """Whether its host should have recorded its end."""
    return bool(job.get("started")) and text(job, "state") != JobState.LOST.value
