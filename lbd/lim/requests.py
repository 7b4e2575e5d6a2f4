"""What local clients ask over lim.sock, read and checked; and what they are told.

A request is an object of JSON. Everything in it is checked here: a wrong one raises ConfigError
with one line that names the nearest right spelling.
"""

from collections.abc import Collection, Mapping

from lbd.errors import ConfigError
from lbd.lim.events import LbmStatus
from lbd.lim.state import LimState
from lbd.lim.table import Table, why_closed
from lbd.model import Candidate, HostId, HostState, JobId, Placement, PlacementRequest
from lbd.spelling import nearest

Json = dict[str, object]
NAME_MAX = 255  # characters of a user's


def text(request: Json, key: str) -> str:
    value = request.get(key)
    if not isinstance(value, str) or not value:
        raise ConfigError(f'"{key}" must be a text')
    return value


def flag(request: Json, key: str, default: bool = False) -> bool:
    value = request.get(key, default)
    if not isinstance(value, bool):
        raise ConfigError(f'"{key}" must be true or false')
    return value


def count(request: Json, key: str) -> int:
    value = request.get(key, 0)
    if not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise ConfigError(f'"{key}" must be a whole number')
    return value


def seconds(request: Json, key: str) -> float:
    value = request.get(key, 0.0)
    if not isinstance(value, int | float) or not 0.0 <= value < float("inf"):
        raise ConfigError(f'"{key}" must be a number of seconds')
    return float(value)


def known_host(name: object, hosts: Mapping[HostId, object]) -> HostId:
    """Raises ConfigError with the nearest right name."""
    if isinstance(name, str) and name in hosts:
        return HostId(name)
    near = nearest(str(name), hosts)
    mend = f'did you mean "{near}"?' if near else "`lbctl status` lists them"
    raise ConfigError(f'no host "{str(name)[:80]}" in this cluster; {mend}')


def placement_request(request: Json, table: Table) -> PlacementRequest:
    wanted = request.get("wanted")
    excluded = request.get("excluded") or ()
    if not isinstance(excluded, list | tuple):
        raise ConfigError('"excluded" must be a list of host names')
    return PlacementRequest(
        job=JobId(text(request, "job")),
        wanted=None if wanted is None else known_host(wanted, table.entries),
        excluded=frozenset(known_host(name, table.entries) for name in excluded),
        user=str(request.get("user") or "")[:NAME_MAX],
        cpu_s=seconds(request, "cpu_s"),
        must_leave=flag(request, "must_leave"),
        must_stay=flag(request, "must_stay"),
        shown=flag(request, "dry"),
        may_wait=flag(request, "may_wait"),
    )


def placement_reply(placement: Placement, table: Table) -> Json:
    return {
        "verdict": placement.verdict.value,
        "host": placement.host,
        "address": table.entries[placement.host].member.lbm_target,
        "reason": placement.reason,
        "algorithm": table.params.algorithm,
        "candidates": [candidate(c, table) for c in placement.candidates],
    }


def candidate(shown: Candidate, table: Table) -> Json:
    known = shown.load != float("inf")  # JSON has no infinity
    return {
        "name": shown.name,
        "address": table.entries[shown.name].member.lbm_target,
        "load": round(shown.load, 4) if known else None,
        "age_s": round(shown.age_s, 3) if known else None,
        "willing": shown.willing,
        "why": shown.why,
    }


def lbm_status(request: Json) -> LbmStatus:
    return LbmStatus(
        accepting=flag(request, "accepting"),
        hog=str(request.get("hog") or "")[:NAME_MAX],
        slots_total=count(request, "slots_total"),
        slots_used=count(request, "slots_used"),
        jobs_local=count(request, "local"),
        jobs_foreign=count(request, "foreign"),
    )


def status(
    state: LimState, now_s: float, queue: Json | None = None, revoked: Collection[HostId] = ()
) -> Json:
    """The object of `lbctl status --json`. `queue`: of the dispatcher, if there is one; `revoked`:
    hosts that are so unless they are heard of all the same."""
    names = sorted(state.table.entries, key=lambda n: (state.table.entries[n].member.rank, n))
    return {
        "schema": 1,
        "self": state.me,
        "cluster": {
            "name": state.identity.cluster,
            "algorithm": state.in_force.lim.algorithm,
            "load_index": state.in_force.load.index,
            "centre": state.centre,
            "dispatcher": queue,
        },
        "params": {**state.settings.params, **state.settings.words},
        "hosts": [host_status(state, name, now_s, name in revoked) for name in names],
    }


def host_status(state: LimState, name: HostId, now_s: float, revoked: bool = False) -> Json:
    entry = state.table.entries[name]
    host_state, why_down = state.table.state(name, now_s)
    drained = state.table.is_drained(entry)
    if drained and host_state is HostState.DOWN:
        why_down += "; drained, also when it is back"
    shown: Json = {
        "name": name,
        "address": entry.member.address,
        "state": host_state.value,
        "revoked": revoked and host_state in (HostState.LATE, HostState.DOWN),
        "why_down": why_down,
        "drained": {"reason": "", "by": "", "since": None} if drained else None,
        "version": entry.member.version,
    }
    sample = entry.sample
    if sample is None:
        return shown | {
            "why_closed": "",
            "index": None,
            "queues": {"cpu": None, "io": None, "memory": None},
            "utilisation": None,
            "site": {},
            "cores": None,
            "speed": None,
            "age_s": None,
            "slots": {"total": 0, "used": 0},
            "tier": None,
            "jobs": {"local": 0, "foreign": 0},
        }
    vector = sample.vector
    queues = vector.queues
    return shown | {
        "why_closed": why_closed(vector) if host_state is HostState.UP else "",
        "index": round(vector.index, 4),
        "queues": {
            "cpu": round(queues.cpu, 4),
            "io": round(queues.io, 4),
            "memory": round(queues.memory, 4),
        },
        "utilisation": round(vector.utilisation, 4),
        "site": {load: round(value, 4) for load, value in vector.site},
        "cores": round(vector.cores, 3),
        "speed": round(vector.speed, 3),
        "age_s": round(max(0.0, now_s - entry.sampled_at_s), 3),
        "slots": {"total": vector.slots_total, "used": vector.slots_used},
        "tier": None,
        "jobs": {"local": vector.jobs_local, "foreign": vector.jobs_foreign},
    }


def peers(state: LimState, now_s: float) -> list[Json]:
    return [
        {
            "name": name,
            "lim": entry.member.lim_target,
            "lbm": entry.member.lbm_target,
            "state": state.table.state(name, now_s)[0].value,
        }
        for name, entry in state.table.entries.items()
        if name != state.me
    ]
