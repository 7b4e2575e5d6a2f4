"""Why a pending job waits, in words for its user. Pure.

One file because a reason is given only if none of the others is the better answer.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.outlook.places import Place
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.records import Lease, Live
from lbd.dispatch.core.retry import refused_by
from lbd.dispatch.core.servers import Server
from lbd.model import CANCEL, STOPPED, HostId, JobId
from lbd.policy.needs import needed, part_of, taken_by_others
from lbd.text.closed_words import OUT_OF_CONTACT, closed_words, counted_reasons
from lbd.text.job_phrases import (
    BY_USER,
    BY_USER_OR_HOST,
    MAY_STILL_RUN,
    NO_HOST_ACCEPTS,
    NO_HOST_SUITS,
    NOT_HEARD_OF,
    STARTING,
    is_taken_by_none,
    refused_for_now,
)
from lbd.text.units import duration_text, show_size

SILENT_SHARE = 0.5  # of a lease: two heartbeats of its host
REASONS_SHOWN = 4
SET_ASIDE = "set aside after failures"
TimeOf = Callable[[float], str]  # converts a time of the dispatcher's clock to the time of day


def waiting_reason(
    life: Lifecycle,
    live: Live,
    place: Place | None = None,
    time_of: TimeOf = "{:.0f} s".format,
    now_s: float = 0.0,
) -> str:
    """Returns the reason; "" if the job neither waits nor is out of contact. `place`: in its line,
    if known."""
    if live.held:
        return live.held
    if live.lease is not None:
        silent = _silent(life, live, live.lease, now_s)
        return silent or ("" if live.lease.begun else _starting(life, live, time_of))
    if live.job.id in life.dependents.waits:
        return _dependence(life, live.job.id, time_of)
    obstacle = _gang_obstacle(life, live, time_of) if live.job.gang else ""
    obstacle = obstacle or _obstacle(life, live, place, now_s)
    reason = "" if _says(obstacle, live.reason) or _is_past(life, live) else live.reason
    if obstacle and reason.endswith(f" {STOPPED}"):
        reason = f"its last attempt ended when {reason}"
    return "; ".join(filter(None, (obstacle, reason)))


def _says(obstacle: str, reason: str) -> bool:
    """Whether the obstacle has the reason in it: of a host `h3: drained` or `h3 was stopped`."""
    said = all(part in obstacle for part in reason.split(": ", 1))
    return said or reason in obstacle.replace(": ", " ")


def _is_past(life: Lifecycle, live: Live) -> bool:
    """Whether it was refused for now by a host that takes no jobs at all any more."""
    host = refused_by(live.reason)
    was_refused = live.attempt > live.over[0]
    return was_refused and host not in life.queues.hosts and host not in live.job.barred


def out_of_contact(life: Lifecycle, job: JobId, now_s: float, *, has_line: bool) -> str:
    """Returns what becomes of a job that was just told to end, if its host is not there to hear it;
    "" if the host is. `has_line`: the host is connected, as far as is known."""
    if (live := life.leased.get(job)) is None or live.lease is None:
        return ""
    return _silent(life, live, live.lease, now_s, SILENT_SHARE if has_line else 0.0)


def _silent(
    life: Lifecycle, live: Live, lease: Lease, now_s: float, share: float = SILENT_SHARE
) -> str:
    """Says that it is unknown whether its attempt still runs; "" while its host is heard from."""
    left_s, silent_s = lease.until_s - now_s, now_s - lease.renewed_s
    if silent_s < share * life.terms.lease_s or left_s == math.inf:  # not sent yet
        return ""
    left = duration_text(max(1, round(left_s)))
    then = f"{'starts again' if live.job.may_restart else 'is lost'} in {left}"
    if live.stop_reason == CANCEL:
        then = f"counts as ended in {left}"
    if now_s - life.hosts.heard_s(lease.host) < SILENT_SHARE * life.terms.lease_s:
        # It is there again, or we are, and it does not say that it has this attempt.
        return f"attempt {lease.attempt} {MAY_STILL_RUN} {lease.host}; {then} if it does not report"
    silent = f"{lease.host} {NOT_HEARD_OF} {duration_text(max(1, round(silent_s)))}"
    restarts = live.job.may_restart and live.stop_reason != CANCEL
    if restarts and _has_no_other(life, live.job, lease.host):
        back = f"it starts again when {lease.host} is back, as it may run on no other host"
        return f"{silent}; if that lasts {left} more, {back}"
    return f"{silent}; {then} if that lasts"


def _has_no_other(life: Lifecycle, job: QueuedJob, host: HostId) -> bool:
    """Whether it may run nowhere else, as far as is known so soon after a start of ours."""
    others = [name for name in life.hosts.known if name != host]
    return job.only == host or (bool(others) and not any(map(job.may_go_to, others)))


def silent_arrays(life: Lifecycle, now_s: float) -> dict[int, str]:
    """Returns the same for each array with a task on a silent host, about the first such task."""
    found: dict[int, str] = {}
    for live in life.leased.values():
        array, lease = live.job.array, live.lease
        if array and array not in found and lease and (why := _silent(life, live, lease, now_s)):
            found[array] = why
    return found


def _dependence(life: Lifecycle, job: JobId, time_of: TimeOf) -> str:
    dependents, begin = life.dependents, life.dependents.waits[job].begin
    before = f"not before {time_of(begin - dependents.unix_s)}" if begin else ""
    return ", ".join(filter(None, (dependents.left(job), before)))


def _starting(life: Lifecycle, live: Live, time_of: TimeOf) -> str:
    assert live.lease is not None
    gang, told_s = life.gangs.of(live.job), live.lease.told_s
    if gang is None or live.job.id not in gang.ready or gang.released:
        told = f"; was told to end at {time_of(told_s)}" if told_s < math.inf else ""
        return f"{STARTING}{live.lease.host}{told}"
    ready = f"{len(gang.ready)} of {gang.size} are"
    return f"held on {live.lease.host} until its whole gang is ready; {ready}"


def _gang_obstacle(life: Lifecycle, live: Live, time_of: TimeOf) -> str:
    """Returns why the gang cannot start as a whole; "" if there is nothing to say."""
    queues, job = life.queues, live.job
    room, leader = queues.gangs, queues.gangs.leader(job)
    if leader is None:
        others = [one for one in life.gangs.together(live) if one.lease is not None or one.held]
        waits = [
            f"job {one.job.shown}" + (f" ({one.held})" if one.held else "") for one in others[:1]
        ]
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        return f"waiting for {waits[0]}{more} of its gang" if waits else ""
    if not queues.hosts:
        return ""
    if leader.id in queues.aside:
        return _too_large(queues, job) + (_excluded(live, queues.hosts) if live.barred_now else "")
    together, has, unit = _together(job)
    if room.is_behind(job.array):
        return f"{together}; other gangs of {job.user or 'its user'} go first"
    if (parked := room.find(job.array)) is None:
        leads = leader.id == job.id
        return "" if leads else f"waiting in line with job {leader.job.shown} of its gang"
    if obstacle := room.obstacle(job):
        return obstacle
    able = [one for one in queues.hosts.values() if one.suits(job)]
    count = sum(one.now(unit, one.free) for one in able)
    free = f"{count} could start" if job.needs else f"{count} are free"
    drain, plan = parked.drain, queues.plan
    if parked is not room.front:
        return f"{together}; {free}; another gang is ahead of it"
    if drain is None:
        return f"{together}; {free}"
    if plan is None:
        return f"{together}; {free}; lets other jobs pass until {time_of(drain.until_s)}"
    names = sorted(plan.kept)
    there = [(queues.hosts[name], n) for name, n in plan.kept.items() if name in queues.hosts]
    held = sum(one.now(unit, min(slots, one.free)) for one, slots in there)
    since, until = time_of(drain.since_s), time_of(drain.until_s)
    kept = f"other jobs wait for it on {_some(names)} from {since} until {until}"
    if plan.ends_s < drain.until_s:
        kept += f"; room is expected by {time_of(plan.ends_s)}"
    return f"{together}{has} {held}; {kept}"


def _together(job: QueuedJob) -> tuple[str, str, QueuedJob]:
    """Returns what the gang needs at once, the words that lead to how much of it there is, and the
    job that counts it: one of a single slot, or one of its tasks if these need more."""
    if not job.needs:
        return f"needs {job.gang * job.slots} slots together", " and holds", job._replace(slots=1)
    slots = f"{job.slots} slots and " if job.slots > 1 else ""
    each = f"needs room for {job.gang} tasks together, each with {slots}{needed(job.needs)}"
    return each, ", and has room for", job


def _too_large(queues: Queues, job: QueuedJob) -> str:
    """Says that the current hosts could never start the gang."""
    count, together = queues.room_for(job), _together(job)[0]
    if job.needs:
        nobody = _nobody_has(job, queues.hosts)
        return nobody or f"{together}; the hosts it may use have room for {count}"
    if job.slots > 1:
        together = f"needs {job.gang} × {job.slots} slots together"
    return f"{together}; the hosts it may use have {count * job.slots}"


def stuck_reason(life: Lifecycle, job: JobId) -> str:
    """Returns why a new job could wait forever with the current hosts; "" if it need not, or if
    hosts are only out of contact."""
    registered = life.queues.registry.find(job)
    if registered is None:
        return ""
    if not life.queues.hosts:
        why = _nobody(life, math.inf)
        return why if is_taken_by_none(why) else ""
    if registered.line is not None or registered.host is not None:
        return ""
    if (live := life.jobs.get(job)) is None:
        return ""
    if live.job.gang:
        is_too_large = registered.id in life.queues.aside
        return _gang_obstacle(life, live, str) if is_too_large else ""
    return _obstacle(life, live, None, math.inf)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _nobody(life: Lifecycle, now_s: float) -> str:
    """Returns why no host at all takes jobs."""
    known, aside = life.hosts.known, _aside(life)
    if not known and now_s < life.hosts.more_until_s:
        return f"{NO_HOST_ACCEPTS}: none has connected yet, as the dispatcher has just started"
    if not known:
        return f"{NO_HOST_ACCEPTS}: none has connected since the dispatcher started"
    others = [(one.closed, one.more) for name, one in known.items() if name not in aside]
    reasons = [counted_reasons(others)] if others else []
    if aside:
        reasons.append(f"{SET_ASIDE}: {_some(aside)}")
    return f"{NO_HOST_ACCEPTS}: {', '.join(reasons)}"


def _without_its_host(life: Lifecycle, live: Live, only: HostId, now_s: float) -> str:
    known = life.hosts.known.get(only)
    if known is None and now_s < life.hosts.more_until_s:
        return f"{only} has not connected yet, as the dispatcher has just started"
    if known is None:
        return f"no host named {only} is known; it starts if one joins"
    if known.closed is not None:
        why = closed_words(known.closed, known.more)
        return f"it may run only on {only} (-H), which accepts no jobs now: {why}"
    is_away = known.more or f"is {OUT_OF_CONTACT}"
    then = f"it begins {'again ' if live.over[0] else ''}when {only} is back"
    then += ", unless it is drained then" if known.was_drained else ""
    return f"it may run only on {only} (-H): {only} {is_away}; {then}"


def _obstacle(life: Lifecycle, live: Live, place: Place | None, now_s: float) -> str:
    queues = life.queues
    registered = queues.registry[live.job.id]
    if not queues.hosts:
        return _nobody(life, now_s)
    if registered.line is None:
        only, slots = live.job.only, live.job.slots
        if only is not None and only not in queues.hosts:
            return _without_its_host(life, live, only, now_s)
        away = list(_away(life, live.job))
        if live.job.needs and (why := _nobody_has(live.job, queues.hosts, away)):
            return why
        largest = max(server.slots for server in queues.hosts.values())
        if only is not None and slots > queues.hosts[only].slots:
            return f"it needs {slots} slots on {only}, which has {queues.hosts[only].slots}"
        if slots > largest:
            why = f"it needs {slots} slots on one host; the largest host has {largest}"
        elif only is not None and live.job.spooled and (full := life.hosts.no_room(only)):
            why = refused_for_now(only, full)
        elif only in live.barred_now:
            why = refused_for_now(only, dict(live.refusals).get(only, ""))
        elif live.job.barred.issuperset(queues.hosts) and not (live.refusals or live.barred_now):
            names = _some(sorted(queues.hosts))
            why = f"all hosts that accept jobs now are excluded ({_by_whom(live)}): {names}"
        else:
            why = f"{NO_HOST_SUITS}{_excluded(live, queues.hosts)}"
        return "; ".join(filter(None, (why, _by_reason(away))))
    if obstacle := queues.shares.obstacle(live.job):
        return obstacle
    servers = queues.servers.get(registered.line, [])
    tier = f"tier {registered.line}: " if live.job.tier > 1 else ""
    head = queues.head(registered.line)
    is_head = head is not None and head.id == live.job.id
    if is_head and (hold := queues.heads.holding(registered.line, live.job.id)) is not None:
        where = hold.host or "a host"
        return f"{tier}it could start on fewer slots, but is waiting for {hold.slots} on {where}"
    if is_head or (place is not None and not place.jobs):
        need = live.job.slots
        what = "a slot is free" if need == 1 else f"{need} slots are free at once"
        if short := _short(live.job, servers):
            taken = {name for one in short for name in taken_by_others(live.job.needs, one.facts())}
            lacking = needed(part_of(live.job.needs, taken))
            return f"{tier}next, as soon as it can have {lacking}; {_lacks(live.job, short)}"
        fit = [one for one in servers if one.suits(live.job)] or servers
        where = f"{_names(fit)}{_closed(fit)}"
        if queues.plan is not None and (front := queues.gangs.front) is not None:
            where += f", besides those reserved for the gang of job {front.leader.job.array}"
        return f"{tier}next, as soon as {what} on {where}{_excluded(live, queues.hosts)}"
    if place is None:
        return f"{tier}other jobs are ahead of it"
    return f"{tier}{place.jobs} {'jobs are' if place.jobs > 1 else 'job is'} ahead of it"


def _by_whom(live: Live) -> str:
    """Says who excluded the hosts of which no refusal is known: its user, unless others may be
    forgotten."""
    return BY_USER_OR_HOST if live.forgot else BY_USER


def _excluded(live: Live, hosts: Mapping[HostId, Server]) -> str:
    barred = _barred(live, hosts) if live.job.only is None else ""
    return f"; {barred}" if barred else ""


def _barred(live: Live, hosts: Mapping[HostId, Server]) -> str:
    """Returns the hosts that the job cannot go to now, and why."""
    refusals = dict(live.refusals)

    def why(host: HostId) -> str:
        otherwise = "refused for now" if host in live.barred_now else f"excluded ({_by_whom(live)})"
        return refusals.get(host) or otherwise

    barred = {host: why(host) for host in live.job.barred.intersection(hosts)}
    if live.job.spooled:
        there = [one.host for one in hosts.values() if one.host is not None]
        barred |= {one.name: one.no_room for one in there if one.no_room}
    return _by_reason(barred.items())


def _away(life: Lifecycle, job: QueuedJob) -> Iterable[tuple[str, str]]:
    """Yields hosts it may go to that take no jobs now, and why: one of them may be suitable."""
    aside = _aside(life)
    for name, known in life.hosts.known.items():
        if name not in life.queues.hosts and job.may_go_to(name):
            why = closed_words(known.closed, known.more)
            yield name, SET_ASIDE if name in aside else why


def _aside(life: Lifecycle) -> list[HostId]:
    """Returns the hosts that get no jobs only because several failed there."""
    known = life.hosts.known
    return [name for name in life.hosts.aside() if known[name].slots is not None]


def _nobody_has(
    job: QueuedJob, hosts: Mapping[HostId, Server], away: Sequence[tuple[str, str]] = ()
) -> str:
    """Says that no host it may go to has what the job needs; "" if one has. `away`: hosts that take
    no jobs now, so what they have is unknown."""
    able = [server for name, server in hosts.items() if job.may_go_to(name)]
    if any(server.could_have(job) for server in able):
        return ""
    lacks = _memory_of_all(job, able) if not away else ""
    if not (lacks := lacks or _lacks(job, able, away)):
        return ""
    other = job.only or ("a host" if len(able) == len(hosts) else "another host")
    return f"{lacks}; it starts once {other} has what it needs"


def _memory_of_all(job: QueuedJob, servers_by_host: Sequence[Server]) -> str:
    """Says that no host has as much memory; "" if one has, or may have."""
    totals = [one.host.facts.memory_total for one in servers_by_host if one.host is not None]
    wanted = job.needs.memory_bytes
    if len(totals) < 2 or not all(0 < total < wanted for total in totals):
        return ""
    return f"no host has {show_size(wanted)} of memory; the largest has {show_size(max(totals))}"


def _short(job: QueuedJob, servers_by_host: list[Server]) -> list[Server]:
    """Returns the hosts with enough slots if all of them lack what the job needs; else none."""
    able = [one for one in servers_by_host if one.suits(job) and one.free >= job.slots]
    return [] if any(one.has_for(job) for one in able) else able


def _lacks(
    job: QueuedJob, servers_by_host: list[Server], away: Sequence[tuple[str, str]] = ()
) -> str:
    found = [
        (one.host.name, lack.why)
        for one in servers_by_host
        if one.host is not None and (lack := one.lacks(job)) is not None
    ]
    return _by_reason([*found, *away]) if found else ""


def _closed(servers_by_host: list[Server]) -> str:
    """Names the first few hosts that have slots but none for the queue."""
    reasons = _by_reason(
        (server.host.name, server.host.closed)
        for server in servers_by_host
        if server.host is not None and server.host.closed
    )
    return f" ({reasons})" if reasons else ""


def _by_reason(found: Iterable[tuple[str, str]]) -> str:
    """Formats hosts by reason: `h1, h2: no gpu; h3: its gpu is taken`."""
    hosts: dict[str, list[str]] = {}
    for name, why in sorted(found):
        hosts.setdefault(why, []).append(name)
    reasons = list(hosts)
    more = sum(len(hosts[why]) for why in reasons[REASONS_SHOWN:])
    shown = "; ".join(f"{_some(hosts[why])}: {why}" for why in reasons[:REASONS_SHOWN])
    return shown + (f" and {more} more" if more else "")


def _names(servers_by_host: list[Server]) -> str:
    names = sorted(server.host.name for server in servers_by_host if server.host is not None)
    return ", ".join(names[:4]) + (f" or {len(names) - 4} more" if len(names) > 4 else "")
