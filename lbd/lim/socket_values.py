"""Reads and checks the requests of local clients on lim.sock, and builds the replies.

A request is a JSON object. Everything in it is checked here: an invalid one raises ConfigError with
one line that names the nearest valid spelling.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict

from lbd.errors import ConfigError
from lbd.lim.core.events import LbmStatus
from lbd.lim.core.messages import OPENS_CHARS_MAX, REASON_CHARS_MAX, Settings
from lbd.lim.core.past_loads import SPANS
from lbd.lim.core.state import LimState
from lbd.lim.core.table import Table, why_closed
from lbd.model import (
    Candidate,
    Closed,
    Facts,
    HostId,
    HostState,
    JobId,
    LoadVector,
    Needs,
    Placement,
    PlacementRequest,
)
from lbd.process.boot_clock import time_of_day
from lbd.text.closed_words import WORDS, drained_words
from lbd.text.needs_words import facts_fields, read_facts_fields, read_needs_text
from lbd.text.one_line import one_line
from lbd.text.spelling import nearest

Json = dict[str, object]
LOADS_HOSTS_MAX = 50  # hosts whose past loads fit in one answer
REPLACED = "it has a new certificate, but its daemons have not used it yet"
NAME_MAX = 255  # characters of a user name
SECONDS_MAX = 1e18  # larger whole numbers may not fit a float


def text(request: Json, key: str) -> str:
    value = request.get(key)
    if not isinstance(value, str) or not value:
        raise ConfigError(f'"{key}" must be a string')
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
    if not isinstance(value, int | float) or not 0.0 <= value <= SECONDS_MAX:
        raise ConfigError(f'"{key}" must be a number of seconds')
    return float(value)


def known_host(name: object, hosts: Mapping[HostId, object]) -> HostId:
    """Raises ConfigError with the nearest known name."""
    if isinstance(name, str) and name in hosts:
        return HostId(name)
    near = nearest(str(name), hosts)
    fix = f'did you mean "{near}"?' if near else "`lbctl status` lists them"
    raise ConfigError(f'no host "{str(name)[:80]}" in this cluster; {fix}')


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
        shown=flag(request, "dry") or flag(request, "report"),
        may_wait=flag(request, "may_wait"),
        needs=needs(request),
    )


def needs(request: Json) -> Needs:
    given = request.get("needs") or ""
    try:
        return read_needs_text(given if isinstance(given, str) else "?")
    except ValueError as problem:
        raise ConfigError(f'"needs": {problem}') from None


def facts(request: Json) -> Facts:
    """Reads what its LBM reports about this host."""
    try:
        return read_facts_fields(request.get("facts"))
    except ValueError as problem:
        raise ConfigError(f'"facts": {problem}') from None


def placement_reply(placement: Placement, table: Table) -> Json:
    return {
        "verdict": placement.verdict.value,
        "host": placement.host,
        "address": table.entries[placement.host].member.lbm_target,
        "reason": placement.reason,
        "algorithm": table.params.algorithm,
        "candidates": [candidate(c, table) for c in placement.candidates],
    }


def load_here(state: LimState) -> Json:
    """Returns our name and load, up to which load commands stay, and the gain a move must bring."""
    sample = state.table.entries[state.me].sample
    return {
        "asked_on": state.me,
        "load_here": round(sample.vector.index, 4) if sample is not None else None,
        "local_threshold": state.in_force.lim.local_threshold,
        "min_gain": state.in_force.lim.min_gain,
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
        owner=owner if (owner := request.get("owner")) in ("here", "away") else "",
        facts=facts(request),
        closed=Closed.numbered(count(request, "closed")),
        opens=one_line(str(request.get("opens") or ""), OPENS_CHARS_MAX),
    )


def status(
    state: LimState, now_s: float, queue: Json | None = None,
    revoked: Collection[HostId] = (), replaced: Collection[HostId] = (),
) -> Json:  # fmt: skip
    """Returns the object of `lbctl status --json`. `queue`: from the dispatcher, if there is one.
    `revoked`: revoked hosts that have not joined again. `replaced`: revoked hosts that have, but
    are not heard yet."""
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
        "hosts": [
            host_status(state, name, now_s, name in revoked, name in replaced) for name in names
        ],
    }


def host_status(
    state: LimState, name: HostId, now_s: float, revoked: bool = False, replaced: bool = False
) -> Json:
    entry = state.table.entries[name]
    drained = state.table.is_drained(entry)
    host_state, why_down = state.table.state(name, now_s)
    if replaced or (revoked and host_state in (HostState.UP, HostState.DRAINED)):
        host_state = HostState.DOWN  # no host here talks to it any more
    if drained and host_state is HostState.DOWN:
        why_down += "; stays drained when it is back"
    shown: Json = {
        "name": name,
        "address": entry.member.address,
        "state": host_state.value,
        "revoked": revoked,
        "why_down": REPLACED if replaced else why_down,
        "drained": drain_note(state, name) if drained else None,
        "version": entry.member.version,
    }
    sample = entry.sample
    if sample is None:
        return shown | unheard()
    vector, queues = sample.vector, sample.vector.queues
    return shown | {
        "why_closed": why_closed(vector) if host_state is HostState.UP else "",
        "index": round(vector.index, 4),
        "queues": {
            "cpu": round(queues.cpu, 4),
            "io": round(queues.io, 4),
            "memory": round(queues.memory, 4),
        },
        "utilisation": round(vector.utilisation, 4),
        "memory": memory(vector),
        "site": {load: round(value, 4) for load, value in vector.site},
        "cores": round(vector.cores, 3),
        "speed": round(vector.speed, 3),
        "age_s": round(max(0.0, now_s - entry.sampled_at_s), 3),
        "slots": {"total": vector.slots_total, "used": vector.slots_used},
        "tier": None,
        "jobs": {"local": vector.jobs_local, "foreign": vector.jobs_foreign},
        # Until its LBM has reported to its LIM, nobody knows what runs there.
        "jobs_known": vector.closed not in (Closed.STARTING, Closed.NO_LBM),
        "owner": vector.owner or None,
        "features": list(vector.facts.features),
        "resources": resources(vector.facts),
    }


def unheard() -> Json:
    """Returns what is said of a host of which no load has come."""
    return {
        "why_closed": "",
        "index": None,
        "queues": {"cpu": None, "io": None, "memory": None},
        "utilisation": None,
        "memory": None,
        "site": {},
        "cores": None,
        "speed": None,
        "age_s": None,
        "slots": {"total": 0, "used": 0},
        "tier": None,
        "jobs": {"local": 0, "foreign": 0},
        "jobs_known": False,
        "owner": None,
        "features": [],
        "resources": {},
    }


def memory(vector: LoadVector) -> Json | None:
    total, available = vector.memory
    if not total:
        return None
    return {
        "total": total,
        "available": available,
        "for_jobs": vector.facts.memory_total or None,
        "given": vector.facts.memory_given,
    }


def resources(facts: Facts) -> Json:
    return {name: {"total": total, "used": used} for name, total, used in facts.resources}


def drain_note(state: LimState, name: HostId) -> Json:
    """Returns the note of a drain. For an old drain the author may be unknown."""
    note = state.settings.drain_notes.get(name)
    if note is None:
        return {"reason": "", "by": "", "since": None}
    return {"reason": note.reason, "by": note.by, "since": note.since}


def drained_there(state: LimState, name: HostId) -> str:
    """Who drained the host, since when and why, in words, as its LBM tells other hosts."""
    note = state.settings.drain_notes.get(name)
    return (
        drained_words(note.by, time_of_day(note.since), note.reason)
        if note
        else WORDS[Closed.DRAINED]
    )


def drains(settings: Settings) -> list[Json]:
    """Returns past and current drains; the current ones have no end."""
    past: list[Json] = [
        {"host": one.host, **asdict(one.note), "until": one.until, "until_by": one.until_by}
        for one in settings.past_drains
    ]
    now: list[Json] = [
        {"host": host, **asdict(note), "until": None, "until_by": None}
        for host, note in settings.drain_notes.items()
    ]
    return past + now


def drain_reason(request: Json) -> str:
    """Raises ConfigError if the reason is too long for messages between hosts."""
    given = one_line(str(request.get("reason") or ""))
    if len(given) > REASON_CHARS_MAX:
        raise ConfigError(f"--reason: longer than {REASON_CHARS_MAX} characters")
    return given


def owners(state: LimState, now_s: float, *, with_facts: bool = False) -> Json:
    """Answers the LBM's polls: which hosts are free of their owners, whether any other has room,
    the free slots of each, and with `with_facts` what those have."""
    away: dict[str, bool] = {}
    room: dict[str, int] = {}
    there: dict[str, Json] = {}
    others_free = False
    for name, entry in state.table.entries.items():
        if entry.sample is None or state.table.state(name, now_s)[0] is not HostState.UP:
            continue
        vector = entry.sample.vector
        away[name] = vector.owner != "here"
        has_room = vector.accepting and vector.slots_used < vector.slots_total
        others_free = others_free or (name != state.me and has_room)
        if has_room:
            room[name] = vector.slots_total - vector.slots_used
            if with_facts:
                there[name] = facts_fields(vector.facts)
    found: Json = {"away": away, "others_free": others_free, "room": room}
    return found | {"facts": there} if with_facts else found


def span(request: Json) -> str:
    name = text(request, "span")
    if name not in SPANS:
        raise ConfigError(f'no span "{name[:40]}"; allowed: {", ".join(SPANS)}')
    return name


def hosts_asked(request: Json) -> list[str]:
    names = request.get("hosts")
    if not isinstance(names, list) or len(names) > LOADS_HOSTS_MAX:
        raise ConfigError(f'"hosts" must be a list of at most {LOADS_HOSTS_MAX} names')
    return [name for name in names if isinstance(name, str) and len(name) <= NAME_MAX]


def loads(points: Iterable[float]) -> list[float | None]:
    """Rounds the loads, oldest first; None where a load is unknown."""
    return [round(point, 3) if math.isfinite(point) else None for point in points]


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


def still_up(host: HostId, age_s: float) -> str:
    """Returns why the host is not forgotten: one that has just died looks alive for a while."""
    heard = f"{host} is up, last heard from {max(0.0, age_s):.0f} s ago"
    return f"{heard}: run `lbctl leave` there to take it out of the cluster"
