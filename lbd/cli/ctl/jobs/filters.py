"""The options of `lbctl jobs`: which jobs, in what order, with which fields."""

import argparse
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lbd.cli.past_time import past_time
from lbd.cli.program import Parser, add_utc
from lbd.cli.quantities import count
from lbd.console.figures import Clock
from lbd.console.forecasts import target_phrase
from lbd.console.jobs import STATES, Filters, ran_s, shown_wait
from lbd.console.reply import Json, number
from lbd.errors import ConfigError
from lbd.text.spelling import nearest

KEYS = (
    "id", "name", "command", "user", "origin", "host", "state", "attempt", "tier", "exit_status",
    "submitted", "started", "finished", "ran_s", "cpu_s", "max_rss_bytes", "slots", "array",
    "array_id", "array_index", "reason", "waits",
)  # fmt: skip


HEADING_OF = {  # heading of a column, if it is not the key itself
    "origin": "FROM", "host": "ON", "submitted": "AGE", "ran_s": "RAN", "cpu_s": "CPU",
    "exit_status": "EXIT",
}  # fmt: skip
KEY_OF = {heading: key for key, heading in HEADING_OF.items()}


def key_named(given: str) -> str:
    """Accepts a JSON key or the heading that people see."""
    key = KEY_OF.get(given.upper(), given.lower())
    if key not in KEYS:
        near = nearest(given, KEYS)
        hint = f'; did you mean "{near}"?' if near else f"; fields: {', '.join(KEYS)}"
        raise argparse.ArgumentTypeError(f"no field {given!r}{hint}")
    return key


def order_named(given: str) -> str:
    descending = "-" if given.startswith("-") else ""
    return descending + key_named(given.removeprefix("-"))


def keys_named(given: str) -> tuple[str, ...]:
    return tuple(key_named(part.strip()) for part in given.split(","))


def states_named(given: str, known: Sequence[str] = STATES) -> frozenset[str]:
    states = [part.strip().lower() for part in given.split(",")]
    for state in states:
        if state not in known:
            raise argparse.ArgumentTypeError(f"no state {state!r}; states: {', '.join(known)}")
    return frozenset(states)


def add_filters(parser: Parser, states: Sequence[str] = STATES) -> None:
    """`states`: the states that jobs of this list can be in."""
    parser.add_argument("--user", metavar="U", help="only that user's jobs")
    parser.add_argument(
        "--name", metavar="PATTERN", help="only jobs whose name matches this shell pattern"
    )
    parser.add_argument("--state", metavar="S,…",
                        type=lambda given: states_named(given, states),
                        help=f"only jobs in these states: {', '.join(states)}")  # fmt: skip
    parser.add_argument("--host", metavar="H", help="only jobs running, or last run, on that host")


def add_view(parser: Parser, states: Sequence[str] = STATES) -> None:
    add_filters(parser, states)
    add_utc(parser)
    parser.add_argument("--since", metavar="TIME", type=past_time,
                        help="submitted at most that long ago (90s, 2h, 1d), or since then (17:30: "
                             "the last; monday, 2026-12-01, 2026-12-01T06:00)")  # fmt: skip
    parser.add_argument("--until", metavar="TIME", type=past_time,
                        help="submitted before then; takes the same forms as --since; 17:30 "
                             "is the next one after it, if the last was before")  # fmt: skip
    parser.add_argument("--limit", metavar="N", type=count, help="show at most N")
    parser.add_argument("--sort", metavar="KEY", type=order_named,
                        help="sort by a field, see --format; --sort=-KEY: descending")  # fmt: skip
    parser.add_argument("--format", metavar="FIELDS", type=keys_named, dest="fields",
                        help=f"print only some fields, such as id,state,command, of these: "
                             f"{', '.join(KEYS)}; times as 2026-12-01T06:00:00")  # fmt: skip
    parser.add_argument("--no-header", action="store_true",
                        help="leave out the header line, for scripts")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Period:
    """A period in UNIX seconds. None: no limit at that end."""

    since_s: float | None
    until_s: float | None

    @classmethod
    def of(cls, options: argparse.Namespace, unix_now_s: float) -> "Period":
        since, until = options.since, options.until
        since_s = None if since is None else since.unix_s(unix_now_s, utc=options.utc)
        found = cls(
            since_s,
            None if until is None else until.end_s(since_s, unix_now_s, utc=options.utc),
        )
        if (
            found.since_s is not None
            and found.until_s is not None
            and found.since_s > found.until_s
        ):
            raise ConfigError("--since is later than --until")
        return found

    def has(self, unix_s: float) -> bool:
        return (self.since_s is None or unix_s >= self.since_s) and (
            self.until_s is None or unix_s <= self.until_s
        )


def chosen_and_sorted(
    jobs: Iterable[Json], options: argparse.Namespace, unix_now_s: float
) -> list[Json]:
    """Returns all jobs that match, before `--limit`, each with how long it has run."""
    filters, period = Filters.of(options), Period.of(options, unix_now_s)
    clock = Clock(unix_now_s, options.utc)
    is_asked = "waits" in (*(options.fields or ()), (options.sort or "").removeprefix("-"))
    found = [
        {**job, "ran_s": None if math.isnan(ran := ran_s(job, unix_now_s)) else round(ran, 3)}
        | ({"waits": waits(job, clock)} if is_asked else {})
        for job in jobs
        if filters.keeps(job) and period.has(number(job, "submitted"))
    ]
    return in_order(found, options.sort) if options.sort else found


def waits(job: Json, clock: Clock) -> str:
    """Returns what a list says of a job that waits, or of an array with a target."""
    return "; ".join(filter(None, (target_phrase(job, clock), shown_wait(job))))


def in_order(jobs: Iterable[Json], order: str) -> list[Json]:
    """Sorts by a key, descending if it begins with "-". Jobs without it come last."""
    key, found = order.removeprefix("-"), list(jobs)
    known = [job for job in found if job.get(key) is not None]
    unknown = [job for job in found if job.get(key) is None]
    known.sort(key=lambda job: sort_value(job[key]), reverse=order.startswith("-"))
    return known + unknown


def sort_value(value: object) -> tuple[float, tuple[tuple[float, str], ...]]:
    """Sorts numbers by value, also those within words: h1-9 before h1-10."""
    if isinstance(value, int | float):
        return (float(value), ())
    words = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    parts: list[tuple[float, str]] = []
    digits = ""
    for letter in words:
        if letter.isdecimal():
            digits += letter
            continue
        if digits:
            parts.append((float(digits), ""))
            digits = ""
        parts.append((float("inf"), letter))
    return (0.0, tuple(parts + ([(float(digits), "")] if digits else [])))


def limited(jobs: Sequence[Json], options: argparse.Namespace) -> tuple[list[Json], int]:
    """Applies the limit; also returns how many jobs were left out. If ended jobs are listed, the
    oldest are left out, unless --sort is given."""
    left_out = 0 if options.limit is None else max(0, len(jobs) - options.limit)
    if options.sort or not (options.all or Filters.of(options).wants_ended):
        return list(jobs[: len(jobs) - left_out]), left_out
    oldest = sorted(jobs, key=lambda job: number(job, "submitted"))[:left_out]
    left = {id(job) for job in oldest}
    return [job for job in jobs if id(job) not in left], left_out
