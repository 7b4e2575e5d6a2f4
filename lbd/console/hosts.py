"""Asks for the cluster's state, and describes single hosts."""

import math

from lbd.console.daemons import Absent, Daemons
from lbd.console.figures import NONE, Clock, count, of_total, size
from lbd.console.reply import Json, number, table, tables, text
from lbd.errors import LbdError
from lbd.model import HostState
from lbd.text.closed_words import drained_words
from lbd.text.dispatcher_phrases import WAITS, cause_in

STALE = ("late", "down", "revoked")  # states in which a host's numbers are old
BUSY_LOAD, OVERLOAD = 0.7, 1.5  # tasks per core from which a load is shown yellow, and red
QUEUE_S = 1.0
NOT_ASKED = "not known, as this host's LBM is not running"
OF_NOW = ("index", "queues", "utilisation", "memory", "site", "slots", "jobs")
QUEUE_KEYS = ("mode", "leader", "queued", "running")


def ask_status(daemons: Daemons) -> Json:
    """Returns the LIM's status with the dispatcher's current numbers, and the hosts' tiers if its
    mode has any; its `full` says why it takes no jobs, if it takes none. If the dispatcher does not
    answer at once, the LIM's last report of it stays; `dispatcher_unknown` says why if it could not
    even be asked, and for what it waits if it cannot serve without."""
    reply = daemons.lim({"op": "status"})
    if not daemons.queue()[0]:
        return reply
    try:
        tags = daemons.lbm({"op": "queue.status"}, QUEUE_S)
    except Absent:
        table(reply, "cluster")["dispatcher_unknown"] = NOT_ASKED
        return reply
    except LbdError as problem:
        if why := cause_in(problem):
            table(reply, "cluster").update(dispatcher=None, dispatcher_unknown=f"{WAITS}{why}")
        return reply
    tiers = table(tags, "tiers")
    queue = {key: tags.get(key) for key in QUEUE_KEYS}
    if full := text(tags, "full"):
        queue["full"] = full
    if no_room := table(tags, "no_room"):
        queue["no_room"] = no_room
    table(reply, "cluster")["dispatcher"] = queue
    for host in tables(reply, "hosts"):
        host["tier"] = tiers.get(text(host, "name"))
    return reply


def drain_phrase(drained: Json, clock: Clock) -> str:
    """Returns who drained a host, since when and why, as far as known."""
    is_known = isinstance(drained.get("since"), int | float)
    since = clock.time_of_day(number(drained, "since")) if is_known else ""
    return drained_words(text(drained, "by"), since, text(drained, "reason"))


def cores_text(cores: float) -> str:
    return NONE if math.isnan(cores) else f"{cores:.3g}"


def memory_text(host: Json) -> str:
    memory = table(host, "memory")
    total = number(memory, "total")
    return of_total(size(total - number(memory, "available")), size(total))


def slots_text(host: Json) -> str:
    slots = table(host, "slots")
    return of_total(count(number(slots, "used")), count(number(slots, "total")))


def state_of(host: Json) -> str:
    return "revoked" if host.get("revoked") else text(host, "state")


def without_old_figures(host: Json) -> Json:
    """Returns the host without the figures that nobody knows if it is down: those of before are not
    true of a machine that may be off."""
    if text(host, "state") != HostState.DOWN.value:
        return host
    return {key: value for key, value in host.items() if key not in OF_NOW}


def tiers_text(tiers: object) -> str:
    """Returns the tiers of a host under `tags` or `sita-e`; it may serve several."""
    return " ".join(map(str, tiers)) if isinstance(tiers, list) else str(tiers or "")


def host_named(reply: Json, name: str) -> Json:
    """Returns that host's object in a status reply; {} if the host left."""
    return next((host for host in tables(reply, "hosts") if text(host, "name") == name), {})
