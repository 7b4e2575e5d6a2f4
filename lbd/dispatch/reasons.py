"""Why a pending job waits, in words for its user. Pure."""

from lbd.dispatch.jobs import Live
from lbd.dispatch.lifecycle import Lifecycle
from lbd.dispatch.queues import Seat


def waiting_reason(life: Lifecycle, live: Live) -> str:
    """ "" if it does not wait."""
    if live.held:
        return live.held
    if live.lease is not None:
        return "" if live.lease.begun else f"starting on {live.lease.host}"
    return "; ".join(filter(None, (_obstacle(life, live), live.reason)))


def _obstacle(life: Lifecycle, live: Live) -> str:
    queues = life.queues
    entry = queues.entries[live.job.id]
    if not queues.hosts:
        aside = life.hosts.aside()
        return f"set aside after failures: {', '.join(aside)}" if aside else "no host takes jobs"
    if entry.line is None:
        if live.job.only is not None and live.job.only not in queues.hosts:
            return f"{live.job.only} takes no jobs now"
        return "no host that takes jobs now is fit for it"
    servers = queues.servers.get(entry.line, [])
    ahead = queues.lines[entry.line].jobs - 1
    tier = f"tier {entry.line}: " if live.job.tier > 1 else ""
    head = queues.head(entry.line)
    if head is entry or ahead <= 0:
        return f"{tier}next, as soon as a slot is free on {_names(servers)}"
    return f"{tier}{ahead} {'others wait' if ahead > 1 else 'other waits'} in its line"


def _names(seats: list[Seat]) -> str:
    names = sorted(seat.host.name for seat in seats if seat.host is not None)
    return ", ".join(names[:4]) + (f" or {len(names) - 4} more" if len(names) > 4 else "")
