"""The cluster report: a self-contained page made from the daemons' answers. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lbd.console.figures import SLOWDOWN, count, decimal, duration, share
from lbd.console.past_loads import PastLoads
from lbd.console.reply import Json, number, text
from lbd.web.charts import LEVELS
from lbd.web.view import WARN, Chart, Facts, Heat, Item, Line, Page, Part, Table, right

DAY_HOURS = 24
DAY_S, HOUR_S = 86400.0, 3600.0
SHOWN = 20  # rows of each table
GROUP_HEAD = ("Jobs", "Failed", "Response", "P95", "Waiting", "Wait P95", "Slowdown", "Moved",
              "Wrongly", "CPU")  # fmt: skip
WAITING_HEAD = ("Class", "Jobs", "Mean", "Median", "P95", "Longest")
KINDS = (("by_user", "User", "Users"), ("by_command", "Command", "Commands"),
         ("by_host", "Host", "Jobs by host"))  # fmt: skip
RAN = ((1.0, "ran up to 1 s"), (60.0, "ran 1 s to 1 min"), (HOUR_S, "ran 1 min to 1 h"),
       (math.inf, "ran longer than 1 h"))  # fmt: skip
HERE, MOVED, QUEUED = "immediately, on this host", "immediately, on another host", "queued"


@dataclass(frozen=True, slots=True)
class Advice:
    """What `lbctl advise` says, or why it has no advice."""

    text: str
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, slots=True)
class Material:
    cluster: str
    user: str  # the only user whose jobs count; "" for all
    since_s: float
    until_s: float
    hosts: Sequence[str]
    curve: PastLoads  # in the finest steps that are stored for that period
    hours: PastLoads  # a month by the hour
    total: Json  # as in `lbctl stats --json`
    groups: Mapping[str, Mapping[str, Json]]  # by kind and key
    jobs: Sequence[Json]  # the latest that ended
    advice: Advice | None
    missing: Mapping[str, str] = field(default_factory=dict)  # host -> why
    notes: Sequence[str] = ()
    hour_of: Callable[[float], int] = lambda unix_s: int(unix_s // HOUR_S) % DAY_HOURS
    when: Callable[[float], str] = str


def report_page(given: Material) -> Page:
    mean, highest = curves(given)
    begins, ends = given.when(given.since_s), given.when(given.until_s)
    parts: list[Part] = [
        summary(given),
        Chart("load", "Load over time, mean of all hosts", mean, begins, ends),
        Chart("highest", "Load over time, busiest host", highest, begins, ends),
        by_hour(given),
        waiting(given.jobs),
        *(group_table(given, *kind) for kind in KINDS),
        Line("slowdown", "Slowdown", SLOWDOWN),
    ]
    if given.advice is not None:
        if given.advice.rows:
            rows = [[Item(row[0]), Item(row[1]), *map(right, row[2:])]
                    for row in given.advice.rows]  # fmt: skip
            parts.append(Table("tried", "The same jobs, simulated",
                               given.advice.head, rows))  # fmt: skip
        parts.append(Line("advice", "Advice", given.advice.text))
    if given.missing or given.notes:
        lines = [[Item(host), Item(f"did not answer: {why}", WARN)]
                 for host, why in given.missing.items()]  # fmt: skip
        lines += [[Item("all"), Item(note)] for note in given.notes]
        parts.append(Table("missing", "Not shown", ("Host", "Why"), lines))
    return Page(f"Report on {given.cluster}", parts)


def summary(given: Material) -> Facts:
    total = given.total
    return Facts("summary", f"Jobs{f' of {given.user}' if given.user else ''}", [
        ("ended", Item(count(number(total, "jobs")))),
        ("failed", failed_item(total, Item)),
        ("mean response", Item(duration(number(total, "mean_response_s")))),
        ("mean waiting", Item(duration(number(total, "mean_waiting_s")))),
        ("mean slowdown", Item(decimal(number(total, "mean_slowdown")))),
        ("CPU time", Item(duration(number(total, "cpu_s")))),
        ("moved", Item(share(number(total, "transferred")))),
        ("wrongly moved", Item(share(number(total, "wrong_transfers")))),
        ("hosts", Item(count(len(given.hosts)))),
    ])  # fmt: skip


def failed_item(figures: Json, item: Callable[[str, str], Item]) -> Item:
    failed = number(figures, "failed")
    return item(count(failed), WARN if failed > 0 else "")


# Loads


def within(loads: PastLoads, since_s: float, points: Sequence[float]) -> tuple[float, ...]:
    """Returns the points of those steps that end after `since_s`."""
    steps = math.ceil((loads.until_s - since_s) / loads.step_s) if loads.step_s > 0 else 0
    return tuple(points[max(0, len(points) - max(0, steps)) :])


def mean_of(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return sum(known) / len(known) if known else math.nan


def curves(given: Material) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns the mean over the hosts and the highest load, at each step."""
    lines = [within(given.curve, given.since_s, one) for one in given.curve.hosts.values()]
    columns = list(zip(*lines, strict=False))
    highest = tuple(max((one for one in column if math.isfinite(one)), default=math.nan)
                    for column in columns)  # fmt: skip
    return tuple(mean_of(column) for column in columns), highest


def by_hour(given: Material) -> Heat:
    """Returns the last 24 hours; for a longer period the means by hour of the day."""
    steps = next((len(points) for points in given.hours.hosts.values()), 0)
    ends = [given.hours.until_s - HOUR_S * back for back in reversed(range(steps))]
    clock = [given.hour_of(end - HOUR_S / 2) for end in ends]
    span_s = given.until_s - given.since_s
    known = [at for at, end in enumerate(ends) if end > given.since_s]
    rows: list[tuple[str, Sequence[float]]] = []
    if span_s <= DAY_S * 1.01:
        shown, title = known[-DAY_HOURS:], "Hosts by hour"
        head = [f"{clock[at]:02}" for at in shown]
        for host, points in given.hours.hosts.items():
            rows.append((host, [points[at] for at in shown]))
    else:
        title, head = "Hosts by hour of the day", [f"{hour:02}" for hour in range(DAY_HOURS)]
        for host, points in given.hours.hosts.items():
            of_hour: list[list[float]] = [[] for _ in range(DAY_HOURS)]
            for at in known:
                of_hour[clock[at]].append(points[at])
            rows.append((host, [mean_of(values) for values in of_hour]))
    legend = [("none", "not known"), *((str(at), words) for at, (_, words) in enumerate(LEVELS))]
    return Heat("hours", title, head, rows, legend, "no loads on record")


# Jobs


def waiting(jobs: Sequence[Json]) -> Table:
    """Returns waiting times by how jobs were started, and by how long they ran."""
    found: dict[str, list[float]] = {name: [] for name in (HERE, MOVED, QUEUED)}
    found |= {name: [] for _, name in RAN}
    for job in jobs:
        submitted, started, finished = (
            number(job, key) for key in ("submitted", "started", "finished")
        )
        if not math.isfinite(submitted + started):
            continue
        waited = max(0.0, started - submitted)
        found[way_of(job)].append(waited)
        if math.isfinite(finished):
            ran_s = finished - started
            found[next(name for top, name in RAN if ran_s <= top)].append(waited)
    rows = [waiting_row(name, sorted(waits)) for name, waits in found.items() if waits]
    return Table("waiting", "Waiting, by class", WAITING_HEAD, rows, "no job started")


def way_of(job: Json) -> str:
    if not is_plain(text(job, "id")):
        return QUEUED
    return HERE if text(job, "host") == text(job, "origin") else MOVED


def is_plain(name: str) -> bool:
    """Returns whether the id is like `h1-26`; ids of queued jobs are numbers."""
    return not name.replace("_", "").isdecimal()


def waiting_row(name: str, waits: Sequence[float]) -> Sequence[Item]:
    """`waits` is sorted in ascending order."""
    middle, tail = (waits[min(len(waits) - 1, int(of * len(waits)))] for of in (0.5, 0.95))
    shown = (mean_of(waits), middle, tail, waits[-1])
    return [Item(name), right(count(len(waits))), *(right(duration(one)) for one in shown)]


def group_table(given: Material, key: str, name: str, title: str) -> Table:
    groups = given.groups.get(key, {})
    rows = [group_row(each, figures) for each, figures in list(groups.items())[:SHOWN]]
    more = len(groups) - len(rows)
    note = f"and {more} more" if more else ""
    return Table(key, title, (name, *GROUP_HEAD), rows, "no job ended", note)


def group_row(name: str, figures: Json) -> Sequence[Item]:
    times = ("mean_response_s", "p95_response_s", "mean_waiting_s", "p95_waiting_s")
    return [
        Item(name),
        right(count(number(figures, "jobs"))),
        failed_item(figures, right),
        *(right(duration(number(figures, key))) for key in times),
        right(decimal(number(figures, "mean_slowdown"))),
        right(share(number(figures, "transferred"))),
        right(share(number(figures, "wrong_transfers"))),
        right(duration(number(figures, "cpu_s"))),
    ]
