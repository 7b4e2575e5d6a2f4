"""What a dispatcher answers to `metrics`: see lbd/metrics/core/table.py."""

from lbd.config.schema import Config
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.ledger.store import Store
from lbd.local.json_socket import Json
from lbd.process.written_disks import besides_state, disk_metrics, of_ledger
from lbd.text.dispatcher_phrases import shortly

NO_ROOM, UNWRITABLE = "its ledger has no room", "its ledger cannot be written"


def waiting_metrics(config: Config, why: str) -> Json:
    """Returns what a dispatcher answers that does not lead. `why`: why it cannot use its ledger; ""
    if it is not its turn. The disk of a ledger that is not there is another one."""
    if not why:
        return {"dispatcher_leads": 0}
    place = {name: file for name, file in of_ledger(config).items() if file.exists()}
    disks = disk_metrics(besides_state(config, place))
    return {"dispatcher_leads": 0, "ledger_trouble": True, "waits": shortly(why), **disks}


def dispatcher_metrics(dispatcher: Dispatcher) -> Json:
    life, ledger = dispatcher.life, dispatcher.ledger
    in_line = len(life.queues.registry)
    most_bytes = dispatcher.config.dispatch.ledger_bytes
    full = ledger.room.full(most_bytes, ledger.disk())
    waits = NO_ROOM if full else UNWRITABLE if ledger.trouble else ""
    return {
        "dispatcher_leads": 1,
        "dispatcher_hosts": len(dispatcher.lines),
        "jobs": [
            ["queued", "pending", in_line - life.running],
            ["queued", "blocked", len(life.jobs) - in_line],
            ["queued", "running", dispatcher.running],
        ],
        **disk_metrics(besides_state(dispatcher.config, of_ledger(dispatcher.config))),
        "ledger_trouble": bool(waits),
        **({"waits": waits} if waits else {}),
        **(ledger.counts.answer() if isinstance(ledger, Store) else {}),
    }
