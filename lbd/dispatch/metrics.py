"""What a dispatcher answers to `metrics`: see lbd/metrics/core/table.py."""

from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.ledger.store import Store
from lbd.local.json_socket import Json
from lbd.process.written_disks import besides_state, disk_metrics, of_ledger


def dispatcher_metrics(dispatcher: Dispatcher | None) -> Json:
    """`dispatcher` is None while another one leads."""
    if dispatcher is None:
        return {"dispatcher_leads": 0}
    life, ledger = dispatcher.life, dispatcher.ledger
    begun = sum(live.lease is not None and live.lease.begun for live in life.leased.values())
    in_line = len(life.queues.registry)
    most_bytes = dispatcher.config.dispatch.ledger_bytes
    closed = ledger.room.why_closed(most_bytes, ledger.disk(), ledger.trouble)
    return {
        "dispatcher_leads": 1,
        "dispatcher_hosts": len(dispatcher.lines),
        "jobs": [
            ["queued", "pending", in_line - begun],
            ["queued", "blocked", len(life.jobs) - in_line],
            ["queued", "running", begun + dispatcher.ending],
        ],
        **disk_metrics(besides_state(dispatcher.config, of_ledger(dispatcher.config))),
        "ledger_trouble": bool(closed),
        **(ledger.counts.answer() if isinstance(ledger, Store) else {}),
    }
