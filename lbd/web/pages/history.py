"""Ended jobs, from the accounting of every host, as far as the viewer may see them."""

import math

from lbd.console.figures import Clock
from lbd.console.jobs import not_shown
from lbd.console.record_gaps import gap_lines, gaps_within
from lbd.console.reply import Json, number
from lbd.console.usage_hosts import gather, of_host
from lbd.web.asked import Asked
from lbd.web.pages.jobs import (
    SHOWN_MAX,
    Rows,
    filter_form,
    filters_of,
    job_row,
    jobs_table,
    notes_of,
)
from lbd.web.view import Page, Part


def make_history(asked: Asked) -> Page:
    asked.need_viewer()
    filters = filters_of(asked)
    question: dict[str, object] = {
        "user": filters.user or "",
        "name": filters.name or "",
        "states": sorted(filters.states or ()),
        "ran_on": filters.host or "",
        "since": 0.0,
    }
    gathered = gather(asked.daemons, lambda host: of_host(asked.daemons, host, question, SHOWN_MAX))
    found = [job for one in gathered.answers.values() for job in one.jobs if filters.keeps(job)]
    withheld = {host: one.withheld for host, one in gathered.answers.items() if one.withheld}
    only_of = next((one.only_of for one in gathered.answers.values()), "")
    found = latest(found)
    clock = Clock(asked.unix_now_s)
    rows = Rows(job_row, clock)
    for job in found:
        rows.add(job)
    parts: list[Part] = [
        filter_form(asked, "/history"),
        jobs_table("ended", f"The latest {rows.count}", rows),
    ]
    begin_s = min((number(job, "finished") for job in found), default=0.0)
    gaps = {h: gaps_within(one.gaps, begin_s, math.inf) for h, one in gathered.answers.items()}
    parts += notes_of(
        gathered.missing, withheld, not_shown(only_of, filters.user), gap_lines(gaps, clock)
    )
    return Page("History", parts, found, "/history")


def latest(found: list[Json]) -> list[Json]:
    return sorted(found, key=lambda job: -number(job, "finished"))[:SHOWN_MAX]
