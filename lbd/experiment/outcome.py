"""The results of one run, and their form on disk: one JSON file for each run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from lbd.errors import LbdError
from lbd.experiment.design import Case


@dataclass(frozen=True, slots=True)
class Job:
    """One command of a user; "" where a value is unknown."""

    host: str
    user: int
    number: int
    kind: str
    may_leave: bool
    demand_s: float
    submitted_s: float  # since the start of the run
    response_s: float
    ran_on: str
    status: int

    @property
    def moved(self) -> bool:
        return self.ran_on != self.host


@dataclass(frozen=True, slots=True)
class HostCost:
    """One host's cost during the run. Bytes are TCP payload, in and out; -1: not known."""

    host: str
    level: str
    cpu_s: float  # of the whole host
    lim_cpu_s: float
    lbm_cpu_s: float  # including its keeper
    lim_bytes: int
    lbm_bytes: int
    messages: int  # between LIMs, in and out
    accounted: int  # commands that its LBM has on record
    wrong: int  # of these, sent to a host that was no less busy


@dataclass(frozen=True, slots=True)
class Outcome:
    case: Case
    began: float  # UNIX seconds
    elapsed_s: float
    others_cores: float  # cores of this machine that were busy with anything but this lab
    jobs: tuple[Job, ...]
    hosts: tuple[HostCost, ...]
    said: str = ""  # error output of a command that failed


def as_json(outcome: Outcome) -> dict[str, object]:
    """Writes jobs and hosts as rows under one heading each, because a run has hundreds."""
    body = asdict(outcome)
    body["jobs"] = table(Job, body["jobs"])
    body["hosts"] = table(HostCost, body["hosts"])
    return body


def table(kind: type[Job] | type[HostCost], rows: Sequence[Mapping[str, object]]) -> list[object]:
    names = [item.name for item in fields(kind)]
    return [names, *([row[name] for name in names] for row in rows)]


def from_json(body: Mapping[str, object]) -> Outcome:
    """Raises LbdError for a file that `as_json` did not write."""
    try:
        case, jobs, hosts = body["case"], body["jobs"], body["hosts"]
        if not (isinstance(case, dict) and isinstance(jobs, list) and isinstance(hosts, list)):
            raise TypeError("an object and two tables")
        return Outcome(
            case=Case(**case),
            began=float(str(body["began"])),
            elapsed_s=float(str(body["elapsed_s"])),
            others_cores=float(str(body["others_cores"])),
            jobs=tuple(Job(**dict(zip(jobs[0], row, strict=True))) for row in jobs[1:]),
            hosts=tuple(HostCost(**dict(zip(hosts[0], row, strict=True))) for row in hosts[1:]),
            said=str(body.get("said", "")),
        )
    except (KeyError, TypeError, ValueError, IndexError) as problem:
        raise LbdError(f"it is no run's outcome ({problem!r})") from problem
