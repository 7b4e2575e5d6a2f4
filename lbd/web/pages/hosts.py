"""The list of hosts with their load now and in the last hour; and the page of one host."""

import math
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from lbd.console.figures import NONE, Clock, count, decimal, duration, of_total, share
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
from lbd.console.past_loads import ask_past_loads
from lbd.console.reply import Json, number, table, tables, text, texts
from lbd.local.json_socket import Refusal
from lbd.web.asked import Asked
from lbd.web.charts import Spark
from lbd.web.view import (
    BAD,
    DIM,
    GOOD,
    WARN,
    Button,
    Buttons,
    Chart,
    Facts,
    Item,
    Page,
    Part,
    Table,
    Viewer,
    right,
)

STATES = {"up": GOOD, "late": WARN, "down": BAD, "revoked": BAD, "drained": WARN}
HEAD = ("Host", "State", "Load", "Last hour", "CPU", "Memory", "Slots", "Jobs", "Tier", "Age",
        "Note")  # fmt: skip


def make_hosts(asked: Asked) -> Page:
    status = ask_status(asked.daemons)
    clock = Clock(asked.unix_now_s)
    parts: list[Part] = [
        cluster_part(status, asked.daemons.queue()[0]),
        hosts_part(status, asked.sparks, clock),
    ]
    return Page("Hosts", parts, status, "/")


def make_host(asked: Asked) -> Page:
    status = ask_status(asked.daemons)
    host = host_named(status, asked.name)
    if not host:
        raise Refusal(f"no host {asked.name!r} in this cluster", "missing")
    hour = asked.hour.of(asked.name)
    day = ask_past_loads(asked.daemons, [asked.name], "day").of(asked.name)
    parts = host_parts(host, hour, day, Clock(asked.unix_now_s), asked.viewer)
    data = {**host, "load_hour": list(hour), "load_day": list(day)}
    return Page(f"Host {text(host, 'name')}", parts, data, "/")


def cluster_part(status: Json, queue_hosts: Sequence[str] = ()) -> Facts:
    """`queue_hosts`: those that may run the dispatcher."""
    cluster = table(status, "cluster")
    dispatcher = table(cluster, "dispatcher")
    hosts = tables(status, "hosts")
    up = sum(text(host, "state") == "up" for host in hosts)
    items = [
        ("cluster", Item(text(cluster, "name"))),
        ("hosts up", Item(of_total(str(up), str(len(hosts))), GOOD if up == len(hosts) else WARN)),
        ("algorithm", Item(text(cluster, "algorithm"), href="/settings")),
        ("coordinator", Item(text(cluster, "centre") or "none")),
    ]
    if dispatcher:
        leader = text(dispatcher, "leader")
        items += [
            ("queue", Item(f"{text(dispatcher, 'mode')} on {leader or 'nobody'}")),
            ("queued", Item(count(number(dispatcher, "queued")))),
            ("running", Item(count(number(dispatcher, "running")))),
        ]
        if full := text(dispatcher, "full"):
            items.append(("queue's ledger", Item(full, WARN)))
    else:
        items.append(("queue", no_queue(text(cluster, "dispatcher_unknown"), queue_hosts)))
    return Facts("cluster", "Cluster", items)


def no_queue(unknown: str, queue_hosts: Sequence[str]) -> Item:
    """`unknown`: why nothing is known of the dispatcher, if that is known."""
    if not queue_hosts:
        return Item("none; lbctl queue enable HOST", DIM)
    return Item(f"on {' or '.join(queue_hosts)}: {unknown or 'no answer'}", WARN)


def hosts_part(status: Json, sparks: Mapping[str, Spark], clock: Clock) -> Table:
    """`sparks`: each host's load in the last hour."""
    rows = [
        host_row(host, sparks.get(text(host, "name")), clock) for host in tables(status, "hosts")
    ]
    head: tuple[str, ...] = HEAD
    for name in ("Note", "Tier"):
        at = head.index(name)
        if not any(row[at].text for row in rows):
            head = (*head[:at], *head[at + 1 :])
            rows = [(*row[:at], *row[at + 1 :]) for row in rows]
    return Table("hosts", "Hosts", head, rows, "no hosts known")


def state_item(host: Json) -> Item:
    state = state_of(host)
    return Item(state, STATES.get(state, ""))


def load_item(host: Json) -> Item:
    load = number(host, "index")
    known = not math.isnan(load)
    kind = BAD if load > OVERLOAD else WARN if load > BUSY_LOAD else GOOD
    return Item(decimal(load), kind if known else DIM, bar=load if known else None)


def host_row(host: Json, spark: Spark | None, clock: Clock) -> tuple[Item, ...]:
    host = without_old_figures(host)
    name, jobs = text(host, "name"), table(host, "jobs")
    state = state_item(host)
    both = [number(jobs, key) for key in ("local", "foreign")]
    row = (
        Item(name, href=host_path(name)),
        state,
        load_item(host),
        Item("", spark=spark, label=f"load of {name}, last hour"),
        right(share(number(host, "utilisation"))),
        right(memory_text(host)),
        right(slots_text(host)),
        right(count(sum(both))),
        Item(tiers_text(host.get("tier"))),
        right(duration(number(host, "age_s"))),
        Item("; ".join(notes_of(host, clock))),
    )
    if state.text not in STALE:
        return row
    return (*row[:2], Item(row[2].text, DIM), *(Item(item.text, DIM) for item in row[3:-1]),
            row[-1])  # fmt: skip


def notes_of(host: Json, clock: Clock) -> list[str]:
    """Returns the reasons why the host takes no jobs."""
    note = text(host, "why_down") or text(host, "why_closed")
    notes = [note] if note else []
    if isinstance(host.get("drained"), dict):
        notes.append(drain_phrase(table(host, "drained"), clock))
    return notes


def host_path(name: str) -> str:
    return f"/hosts/{quote(name, safe='')}"


def host_parts(
    host: Json, hour: tuple[float, ...], day: tuple[float, ...], clock: Clock, viewer: Viewer
) -> list[Part]:
    host = without_old_figures(host)
    queues, jobs = table(host, "queues"), table(host, "jobs")
    facts = [
        ("state", state_item(host)),
        ("load", load_item(host)),
        ("tasks wanting a core", Item(decimal(number(queues, "cpu")))),
        ("waiting for disks", Item(decimal(number(queues, "io")))),
        ("waiting for memory", Item(decimal(number(queues, "memory")))),
        ("CPU", Item(share(number(host, "utilisation")))),
        ("memory", Item(memory_text(host))),
        ("cores", Item(cores_text(number(host, "cores")))),
        ("speed", Item(decimal(number(host, "speed")))),
        ("slots", Item(slots_text(host))),
        ("jobs of its own users", Item(count(number(jobs, "local")))),
        ("jobs of other hosts", Item(count(number(jobs, "foreign")))),
        ("owner", Item(text(host, "owner") or NONE)),
        ("features", Item(", ".join(texts(host, "features")) or NONE)),
        ("address", Item(text(host, "address"), DIM)),
        ("age of these numbers", Item(duration(number(host, "age_s")))),
    ]
    resources = table(host, "resources")
    for name in sorted(resources):
        one = table(resources, name)
        used, total = count(number(one, "used")), count(number(one, "total"))
        facts.append((f"{name} used", Item(of_total(used, total))))
    if notes := notes_of(host, clock):
        facts.append(("why it accepts no jobs", Item("; ".join(notes), WARN)))
    parts: list[Part] = [
        Facts("host", "Now", facts),
        Chart("hour", "Load, last hour", hour, "an hour ago", "now"),
        Chart("day", "Load, last day", day, "a day ago", "now"),
    ]
    if viewer.signed_in:
        verb = "undrain" if text(host, "state") == "drained" else "drain"
        says = {"drain": "Drain: send no new jobs there", "undrain": "Undrain: accept jobs again"}
        button = Button(f"{host_path(text(host, 'name'))}/{verb}", says[verb])
        parts.append(Buttons("act", "Administrators", [button], viewer.csrf))
    return parts
