"""Which hosts' owners are back, and when hosts are usually free."""

from lbd.console.figures import Clock
from lbd.console.output import cell
from lbd.console.owners import DAY_HOURS, DAYS, owner_row, tenths
from lbd.console.reply import Json, tables, text
from lbd.console.usage_hosts import ask_host, gather
from lbd.web.asked import Asked
from lbd.web.view import DIM, WARN, Item, Page, Part, Table

HEAD = ("Host", "Owner", "Since", "Stays", "Free within", "p01", "p11", "Seen", "Rule")
KINDS = {"here": WARN, "not watched": DIM}


def make_owners(asked: Asked) -> Page:
    found = gather(asked.daemons, lambda host: ask_host(asked.daemons, "owners", host))
    rows = list(found.answers.values())
    return owners_page(rows, found.missing, Clock(asked.unix_now_s))


def owners_page(rows: list[Json], missing: dict[str, str], clock: Clock) -> Page:
    shown = [owner_items(row, clock) for row in rows]
    rest = (Item(""),) * (len(HEAD) - 2)
    shown += [(Item(host), Item(f"no answer: {why}", WARN), *rest) for host, why in missing.items()]
    parts: list[Part] = [Table("owners", "Owners", HEAD, shown)]
    learnt = [row for row in rows if any(hour != "." for hour in hours_of(row))]
    if learnt:
        parts.append(hours_part(learnt))
    data = [{key: row[key] for key in row if key != "interruptions"} for row in rows]
    return Page("Owners", parts, data, "/owners")


def owner_items(row: Json, clock: Clock) -> tuple[Item, ...]:
    cells = [cell(one).text for one in owner_row(row, clock)]
    return tuple(Item(one, KINDS.get(one, "") if at == 1 else "") for at, one in enumerate(cells))


def hours_of(row: Json) -> list[str]:
    return [tenths(hour) for hour in tables(row, "by_hour")]


def hours_part(rows: list[Json]) -> Table:
    head = ("Host", "Day", *(f"{hour}h" for hour in range(DAY_HOURS)))
    lines = [
        (Item(text(row, "host")), Item(name),
         *(Item(one) for one in hours_of(row)[day * DAY_HOURS : (day + 1) * DAY_HOURS]))
        for row in rows
        for day, name in enumerate(DAYS)
    ]  # fmt: skip
    note = "How likely the owner is away, in tenths: 9 is nearly always; a dot means no data."
    return Table("hours", "By hour of the week", head, lines, note=note)
