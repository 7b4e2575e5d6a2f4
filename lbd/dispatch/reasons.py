"""Why a pending job waits, in words for its user. Pure."""

from lbd.dispatch.forecast import Place
from lbd.dispatch.jobs import Live
from lbd.dispatch.lifecycle import Lifecycle
from lbd.dispatch.queues import Seat
from lbd.model import JobId


def waiting_reason(life: Lifecycle, live: Live, place: Place | None = None) -> str:
    """ "" if it does not wait. `place`: in its line, if that is known."""
    if live.held:
        return live.held
    if live.lease is not None:
        return "" if live.lease.begun else f"starting on {live.lease.host}"
    return "; ".join(filter(None, (_obstacle(life, live, place), live.reason)))


def stuck_reason(life: Lifecycle, job: JobId) -> str:
    """Why a job that has come just now could wait for ever, hosts being as they are; "" if it need
    not. While no host is there at all, that says nothing about the job."""
    live, booked = life.jobs.get(job), life.queues.books.find(job)
    if live is None or booked is None or not life.queues.hosts:
        return ""
    if booked.line is not None or booked.host is not None:
        return ""
    return _obstacle(life, live, None)


def _obstacle(life: Lifecycle, live: Live, place: Place | None) -> str:
    queues = life.queues
    booked = queues.books[live.job.id]
    if not queues.hosts:
        aside = life.hosts.aside()
        return f"set aside after failures: {', '.join(aside)}" if aside else "no host takes jobs"
    if booked.line is None:
        only, slots = live.job.only, live.job.slots
        if only is not None and only not in queues.hosts:
            if only in life.hosts.known:
                return f"{only} takes no jobs now"
            return f"no host called {only} has been heard of; it begins if one joins"
        largest = max(seat.slots for seat in queues.hosts.values())
        if only is not None and slots > queues.hosts[only].slots:
            return f"it needs {slots} slots on {only}, which has {queues.hosts[only].slots}"
        if slots > largest:
            return f"it needs {slots} slots on one host; the largest there has {largest}"
        return "no host that takes jobs now is fit for it"
    if obstacle := queues.shares.obstacle(live.job):
        return obstacle
    servers = queues.servers.get(booked.line, [])
    tier = f"tier {booked.line}: " if live.job.tier > 1 else ""
    head = queues.head(booked.line)
    is_head = head is not None and head.id == live.job.id
    if is_head or (place is not None and not place.jobs):
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
