"""What a dispatcher answers to `metrics`: see lbd/metrics/core/table.py."""

from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.ledger.store import Store
from lbd.local.json_socket import Json


def dispatcher_metrics(dispatcher: Dispatcher | None) -> Json:
    """None: another leads."""
    if dispatcher is None:
        return {"dispatcher_leads": 0}
    life, ledger = dispatcher.life, dispatcher.ledger
    begun = sum(live.lease is not None and live.lease.begun for live in life.leased.values())
    in_line = len(life.queues.registry)
    return {
        "dispatcher_leads": 1,
        "dispatcher_hosts": len(dispatcher.lines),
        "jobs": [
            ["queued", "pending", in_line - begun],
            ["queued", "blocked", len(life.jobs) - in_line],
            ["queued", "running", begun],
        ],
        "ledger_trouble": bool(ledger.trouble),
        **(ledger.counts.answer() if isinstance(ledger, Store) else {}),
    }
