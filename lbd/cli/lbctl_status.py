"""`lbctl status`, and the table of hosts that `lbctl top` shows too."""

import argparse
import sys

from lbd.cli.daemons import Daemons
from lbd.cli.output import DIM, GREEN, RED, YELLOW, Cell, Paint, Row, figure, lay_out, paint_for
from lbd.cli.output import print_json as show_json
from lbd.cli.reply import Json, number, table, tables, text

STATE_COLOURS = {"up": GREEN, "late": YELLOW, "down": RED, "drained": DIM}
HEADER = (
    "HOST", "STATE", ">LOAD", ">CPU", ">IO", ">MEM", ">UTIL", ">CORES", ">SPEED", ">SLOTS",
    ">LOCAL", ">FOREIGN", ">AGE", "ADDRESS",
)  # fmt: skip


def status(daemons: Daemons, options: argparse.Namespace) -> int:
    reply = daemons.lim({"op": "status"})
    if options.json:
        show_json(reply)
    else:
        print("\n".join(status_lines(reply, paint_for(sys.stdout))))
    return 0


def status_lines(reply: Json, paint: Paint) -> list[str]:
    """The cluster in one line, then a line a host."""
    own = text(reply, "self")
    rows = [host_row(host, own) for host in tables(reply, "hosts")]
    lines = [cluster_line(reply), "", *lay_out(HEADER, rows, paint)]
    faults = [
        f"{text(host, 'name')}: {text(host, 'why_down')}"
        for host in tables(reply, "hosts")
        if text(host, "why_down")
    ]
    return [*lines, "", *faults] if faults else lines


def cluster_line(reply: Json) -> str:
    cluster = table(reply, "cluster")
    dispatcher = table(cluster, "dispatcher")
    queue = (
        f"{text(dispatcher, 'mode')} on {text(dispatcher, 'leader') or 'nobody'}, "
        f"{text(dispatcher, 'queued')} queued, {text(dispatcher, 'running')} running"
    )
    return (
        f"cluster {text(cluster, 'name')}   algorithm {text(cluster, 'algorithm')}   "
        f"centre {text(cluster, 'centre') or 'none'}   dispatcher {queue if dispatcher else 'none'}"
    )


def host_row(host: Json, own: str) -> Row:
    """One host; a `*` follows the name of the one that answers."""
    queues, slots, jobs = table(host, "queues"), table(host, "slots"), table(host, "jobs")
    name, state = text(host, "name"), text(host, "state")
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
