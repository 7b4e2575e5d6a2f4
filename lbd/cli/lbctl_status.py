"""`lbctl status`, and the table of hosts that `lbctl top` shows too."""

import argparse
import sys
from collections.abc import Sequence

from lbd.cli.daemons import Daemons
from lbd.cli.output import (
    DIM,
    GREEN,
    RED,
    YELLOW,
    Cell,
    Paint,
    Row,
    figure,
    lay_out,
    paint_for,
    put,
)
from lbd.cli.output import print_json as show_json
from lbd.cli.reply import Json, number, table, tables, text
from lbd.config import INDICES
from lbd.errors import LbdError

STATE_COLOURS = {"up": GREEN, "late": YELLOW, "down": RED, "revoked": RED, "drained": DIM}
REVOKED = "revoked; it may join again: lbctl token create, and there lbctl join"
HEADER = (
    "HOST", "STATE", ">LOAD", ">CPU", ">IO", ">MEM", ">UTIL", ">CORES", ">SPEED", ">SLOTS",
    ">LOCAL", ">FOREIGN", ">AGE", "ADDRESS",
)  # fmt: skip
QUEUE_S = 1.0
QUEUE_KEYS = ("mode", "leader", "queued", "running")
SITE_AT = 7  # where the loads of the site's own stand


def status(daemons: Daemons, options: argparse.Namespace) -> int:
    reply = ask_status(daemons)
    if options.json:
        show_json(reply)
    else:
        put(*status_lines(reply, paint_for(sys.stdout)))
    return 0


def ask_status(daemons: Daemons) -> Json:
    """Of the LIM; with the dispatcher's numbers of now, and the tiers of the hosts if its mode has
    any. Where it does not answer at once, the last that the LIM has heard of it stays."""
    reply = daemons.lim({"op": "status"})
    if not daemons.config.dispatch.host:
        return reply
    try:
        told = daemons.lbm({"op": "queue.status"}, QUEUE_S)
    except LbdError:
        return reply
    tiers = table(told, "tiers")
    table(reply, "cluster")["dispatcher"] = {key: told.get(key) for key in QUEUE_KEYS}
    for host in tables(reply, "hosts"):
        host["tier"] = tiers.get(text(host, "name"))
    return reply


def status_lines(reply: Json, paint: Paint) -> list[str]:
    """The cluster in one line, then a line a host."""
    own = text(reply, "self")
    loads = sorted({name for host in tables(reply, "hosts") for name in table(host, "site")})
    rows = [host_row(host, own, loads) for host in tables(reply, "hosts")]
    header = (*HEADER[:SITE_AT], *(f">{load.upper()}" for load in loads), *HEADER[SITE_AT:])
    lines = [cluster_line(reply), "", *lay_out(header, rows, paint)]
    notes = [
        f"{text(host, 'name')}: {why}" for host in tables(reply, "hosts") if (why := note_of(host))
    ]
    return [*lines, "", *notes] if notes else lines


def note_of(host: Json) -> str:
    """Why it takes no jobs, "" if nothing is to be said."""
    if host.get("revoked"):
        return REVOKED
    return text(host, "why_down") or text(host, "why_closed")


def cluster_line(reply: Json) -> str:
    cluster = table(reply, "cluster")
    dispatcher = table(cluster, "dispatcher")
    index = text(cluster, "load_index")
    queue = (
        f"{text(dispatcher, 'mode')} on {text(dispatcher, 'leader') or 'nobody'}, "
        f"{text(dispatcher, 'queued')} queued, {text(dispatcher, 'running')} running"
    )
    return (
        f"cluster {text(cluster, 'name')}   algorithm {text(cluster, 'algorithm')}   "
        f"centre {text(cluster, 'centre') or 'none'}   dispatcher {queue if dispatcher else 'none'}"
        f"{f'   load index {index}' if index not in ('', INDICES[0]) else ''}"
    )


def host_row(host: Json, own: str, loads: Sequence[str]) -> Row:
    """One host; a `*` follows the name of the one that answers."""
    site = table(host, "site")
    queues, slots, jobs = table(host, "queues"), table(host, "slots"), table(host, "jobs")
    name = text(host, "name")
    state = "revoked" if host.get("revoked") else text(host, "state")
    load = number(host, "index")
    utilisation = number(host, "utilisation")
    return (
        f"{name} *" if name == own else name,
        Cell(state, STATE_COLOURS.get(state, "")),
        Cell(figure(load), RED if load > 1.5 else YELLOW if load > 0.7 else ""),
        figure(number(queues, "cpu")),
        figure(number(queues, "io")),
        figure(number(queues, "memory")),
        f"{figure(utilisation * 100, 0)}%" if utilisation == utilisation else "–",
        *(figure(number(site, load)) for load in loads),
        figure(number(host, "cores"), 1),
        figure(number(host, "speed")),
        f"{figure(number(slots, 'used'), 0)}/{figure(number(slots, 'total'), 0)}",
        figure(number(jobs, "local"), 0),
        figure(number(jobs, "foreign"), 0),
        f"{figure(number(host, 'age_s'), 1)}s" if host.get("age_s") is not None else "–",
        Cell(text(host, "address"), DIM),
    )


def host_named(reply: Json, name: str) -> Json:
    """That host's object in a status reply; {} if it left."""
    return next((host for host in tables(reply, "hosts") if text(host, "name") == name), {})
