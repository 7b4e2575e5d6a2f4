"""`lbctl status`, and the table of hosts that `lbctl top` also shows."""

import argparse
import time
from collections.abc import Sequence

from lbd.cli.ctl.verb import Verb, reading, say
from lbd.cli.program import Parser, add_utc
from lbd.config.schema import INDICES
from lbd.console.daemons import Daemons
from lbd.console.figures import Clock, bar, count, decimal, duration, of_total, share, size
from lbd.console.hosts import (
    BUSY_LOAD,
    OVERLOAD,
    STALE,
    ask_status,
    cores_text,
    drain_phrase,
    host_named,
    memory_text,
    slots_text,
    state_of,
    tiers_text,
    without_old_figures,
)
from lbd.console.output import (
    BOLD,
    DIM,
    GREEN,
    RED,
    YELLOW,
    Cell,
    Page,
    Row,
    cell,
    folded,
    own_page,
    put,
    wrapped,
)
from lbd.console.output import print_json as show_json
from lbd.console.reply import Json, number, table, tables, text, texts
from lbd.console.usage_hosts import ask_host
from lbd.errors import LbdError
from lbd.policy.needs import is_size
from lbd.text.dispatcher_phrases import WAITS

EXAMPLES = (
    "lbctl status                  a line a host",
    "lbctl status h3               h3 alone, with whose commands it takes, which and when",
)
STATE_COLOURS = {"up": GREEN, "late": YELLOW, "down": RED, "revoked": RED, "drained": YELLOW}
REVOKED = (
    "revoked, and not seen with a new certificate; to get one, run `lbctl token create "
    "{host}`, then `lbctl join` and `lbctl restart` on {host}"
)
REVOKED_HERE = "revoked: no other host talks to it; `lbctl doctor` says what to do"
HEADER = (
    "HOST", "STATE", "BUSY", ">LOAD", ">CPU", ">IO", ">STALLED", ">UTIL", ">MEMORY", ">CORES",
    ">SPEED", ">SLOTS", ">FROM", ">FOREIGN", ">TIER", ">AGE", "ADDRESS",
)  # fmt: skip
GO_FIRST = (
    "ADDRESS", ">SPEED", ">STALLED", ">IO", ">CPU", ">CORES", ">FROM", ">AGE", "BUSY",
    ">UTIL", ">MEMORY", ">FOREIGN", ">TIER",
)  # fmt: skip
SITE_AT = 8  # column where the site's own loads go
BAR_COLUMNS = 8


def add_options(parser: Parser) -> None:
    about = "only this host, and the rules by which it takes commands"
    parser.add_argument("host", metavar="HOST", nargs="?", default="", help=about)
    add_utc(parser)


def status(daemons: Daemons, options: argparse.Namespace) -> int:
    reply = ask_status(daemons)
    if options.host:
        return one_host(daemons, reply, options)
    if options.json:
        show_json(reply)
    else:
        clock, (queue, _) = Clock(time.time(), options.utc), daemons.queue()
        put(*status_lines(reply, clock, own_page(), queue))
    return 0


def one_host(daemons: Daemons, reply: Json, options: argparse.Namespace) -> int:
    """Shows one host. Asks the host itself for its rules. Raises LbdError."""
    name = options.host
    host = host_named(reply, name)
    if not host:
        raise LbdError(f'no host "{name}" in this cluster; lbctl status lists them')
    rules: list[str] | None = None
    try:
        rules = texts(ask_host(daemons, "owners", name), "admission")
    except LbdError as problem:
        say(f"the rules of {name} are not known: {problem}")
    if options.json:
        show_json({**reply, "hosts": [{**host, "admission": rules}]})
        return 0
    clock, page, hosts = Clock(time.time(), options.utc), own_page(), tables(reply, "hosts")
    put(*host_lines([host], text(reply, "self"), page))
    own = text(reply, "self")
    more = [*note_lines(host, own, clock, page.columns), *offer_lines(hosts, page.columns, of=name)]
    for rule in rules or ():
        more += wrapped(f"{name}: {rule}", page.columns, "  ")
    put(*(["", *more] if more else []))
    return 0


def status_lines(
    reply: Json, clock: Clock, page: Page, queue_hosts: Sequence[str] = ()
) -> list[str]:
    """Returns the cluster in one line, or as many as the terminal needs, then a line for each host,
    then notes."""
    hosts = tables(reply, "hosts")
    lines = [*cluster_lines(reply, page.columns, queue_hosts), ""]
    own = text(reply, "self")
    lines += host_lines(hosts, own, page)
    if notes := [note for host in hosts for note in note_lines(host, own, clock, page.columns)]:
        lines += ["", *notes]
    if offers := offer_lines(hosts, page.columns):
        lines += ["", *offers]
    return lines


def host_lines(hosts: list[Json], own: str, page: Page) -> list[str]:
    """Returns a heading and a line for each host, with a bar only if the width is known."""
    loads = sorted({name for host in hosts for name in table(host, "site")})
    site = tuple(f">{load.upper()}" for load in loads)
    header: tuple[str, ...] = (*HEADER[:SITE_AT], *site, *HEADER[SITE_AT:])
    rows: list[Row] = [host_row(host, own, loads) for host in hosts]
    if page.columns is None:
        at = header.index("BUSY")
        header = (*header[:at], *header[at + 1 :])
        rows = [(*row[:at], *row[at + 1 :]) for row in rows]
    go_first = (*GO_FIRST, *reversed(site))
    return page.table(header, rows, go_first, ("HOST", "ADDRESS"))


def note_lines(host: Json, own: str, clock: Clock, columns: int | None) -> list[str]:
    """Returns why the host takes no jobs; empty if it takes jobs."""
    revoked = REVOKED_HERE if text(host, "name") == own else REVOKED
    note = (
        revoked.format(host=text(host, "name"))
        if host.get("revoked")
        else text(host, "why_down") or text(host, "why_closed")
    )
    notes = [note] if note else []
    if isinstance(host.get("drained"), dict):
        notes.append(drain_phrase(table(host, "drained"), clock))
    shown = f"{text(host, 'name')}: {'; '.join(notes)}"
    return wrapped(shown, columns, "  ") if notes else []


def offer_lines(hosts: list[Json], columns: int | None, of: str = "") -> list[str]:
    """Returns what commands may need: resources, and features that not all hosts have. `of` limits
    this to one host."""
    known = [names(host, "features") for host in hosts if host.get("features")]
    common = set.intersection(*known) if known else set()
    lines: list[str] = []
    for host in [host for host in hosts if of in ("", text(host, "name"))]:
        offers = [
            f"{of_total(amount(name, number(one, 'used')), amount(name, number(one, 'total')))}"
            f" {name} used"
            for name, one in sorted(table(host, "resources").items())
            if isinstance(one, dict)
        ]
        if own := sorted(names(host, "features") - common):
            offers.append(f"features {', '.join(own)}")
        if offers:
            lines += wrapped(f"{text(host, 'name')}: {'; '.join(offers)}", columns, "  ")
    return lines


def amount(name: str, value: float) -> str:
    return size(value) if is_size(name, int(value)) else count(value)


def names(host: Json, key: str) -> set[str]:
    found = host.get(key)
    return set(map(str, found)) if isinstance(found, list) else set()


def cluster_lines(
    reply: Json, columns: int | None = None, queue_hosts: Sequence[str] = ()
) -> list[str]:
    """`queue_hosts`: where a dispatcher should run according to this host's configuration."""
    cluster = table(reply, "cluster")
    dispatcher = table(cluster, "dispatcher")
    index = text(cluster, "load_index")
    queue = (
        f"{text(dispatcher, 'mode')} on {text(dispatcher, 'leader') or 'nobody'}, "
        f"{text(dispatcher, 'queued')} queued, {text(dispatcher, 'running')} running"
    )
    unknown = text(cluster, "dispatcher_unknown") or "no answer"
    full, where = text(dispatcher, "full"), f"dispatcher on {text(dispatcher, 'leader')}:"
    if not dispatcher and unknown.startswith(WAITS):
        full, where, unknown = unknown, f"dispatcher on {' or '.join(queue_hosts)}", "it waits"
    silent = f"on {' or '.join(queue_hosts)}: {unknown}" if queue_hosts else "none"
    parts = [
        f"cluster {text(cluster, 'name')}",
        f"algorithm {text(cluster, 'algorithm')}",
        f"coordinator {text(cluster, 'centre') or 'none'}",
        f"dispatcher {queue if dispatcher else silent}",
    ]
    if index not in ("", INDICES[0]):
        parts.append(f"load index {index}")
    lines = folded(parts, columns)
    if full:
        lines += wrapped(f"{where} {full}", columns, "  ")
    for host, why in sorted(table(dispatcher, "no_room").items()):
        lines += wrapped(f"queue: no job without -o begins on {host}: {why}", columns, "  ")
    return lines


def host_row(host: Json, own: str, loads: Sequence[str]) -> Row:
    """Returns the row of one host. Outdated values are grey."""
    host = without_old_figures(host)
    site, queues, jobs = table(host, "site"), table(host, "queues"), table(host, "jobs")
    name = text(host, "name")
    state = state_of(host)
    load = number(host, "index")
    colour = RED if load > OVERLOAD else YELLOW if load > BUSY_LOAD else GREEN
    row: tuple[Cell | str, ...] = (
        Cell(f"{name} (here)", BOLD, short=name) if name == own else Cell(name),
        Cell(state, STATE_COLOURS.get(state, "")),
        Cell(bar(load, BAR_COLUMNS), colour),
        Cell(decimal(load), colour),
        decimal(number(queues, "cpu")),
        decimal(number(queues, "io")),
        decimal(number(queues, "memory")),
        share(number(host, "utilisation")),
        *(decimal(number(site, load)) for load in loads),
        memory_text(host),
        cores_text(number(host, "cores")),
        decimal(number(host, "speed")),
        slots_text(host),
        count(number(jobs, "local")),
        count(number(jobs, "foreign")),
        tiers_text(host.get("tier")),
        duration(number(host, "age_s")),
        Cell(text(host, "address"), DIM),
    )
    if state not in STALE:
        return row
    return [item if at == 1 else Cell(cell(item).text, DIM) for at, item in enumerate(row)]


VERBS = {"status": Verb(reading(status), add_options, EXAMPLES)}
