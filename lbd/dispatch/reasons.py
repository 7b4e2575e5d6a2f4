"""Why a pending job waits, in words for its user. Pure."""

from lbd.dispatch.forecast import Place
from lbd.dispatch.jobs import Live
from lbd.dispatch.lifecycle import Lifecycle
from lbd.dispatch.queues import Seat


def waiting_reason(life: Lifecycle, live: Live, place: Place | None = None) -> str:
    """ "" if it does not wait. `place`: in its line, if that is known."""
    if live.held:
        return live.held
    if live.lease is not None:
        return "" if live.lease.begun else f"starting on {live.lease.host}"
    return "; ".join(filter(None, (_obstacle(life, live, place), live.reason)))


def _obstacle(life: Lifecycle, live: Live, place: Place | None) -> str:
    queues = life.queues
    entry = queues.entries[live.job.id]
    if not queues.hosts:
        aside = life.hosts.aside()
        return f"set aside after failures: {', '.join(aside)}" if aside else "no host takes jobs"
    if entry.line is None:
        if live.job.only is not None and live.job.only not in queues.hosts:
            return f"{live.job.only} takes no jobs now"
        largest = max(seat.slots for seat in queues.hosts.values())
        if live.job.slots > largest:
            return f"it needs {live.job.slots} slots on one host; the largest there has {largest}"
        return "no host that takes jobs now is fit for it"
    if obstacle := queues.shares.obstacle(live.job):
        return obstacle
    servers = queues.servers.get(entry.line, [])
    tier = f"tier {entry.line}: " if live.job.tier > 1 else ""
    if queues.head(entry.line) is entry or (place is not None and not place.jobs):
        need = live.job.slots
        what = "a slot is free" if need == 1 else f"{need} slots are free at once"
        return f"{tier}next, as soon as {what} on {_names(servers)}{_closed(servers)}"
    if place is None:
        return f"{tier}others go before it"
    return f"{tier}{place.jobs} {'jobs go' if place.jobs > 1 else 'job goes'} before it"


def _closed(seats: list[Seat]) -> str:
    """Hosts that have slots and none for the queue, the first few."""
    hosts = sorted((seat.host.name, seat.host.closed) for seat in seats if seat.host is not None)
    told = [f"{name}: {why}" for name, why in hosts if why]
    return f" ({'; '.join(told[:4])})" if told else ""


def _names(seats: list[Seat]) -> str:
    names = sorted(seat.host.name for seat in seats if seat.host is not None)
    return ", ".join(names[:4]) + (f" or {len(names) - 4} more" if len(names) > 4 else "")
