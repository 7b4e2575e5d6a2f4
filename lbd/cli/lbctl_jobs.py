"""`lbctl jobs`: what runs now and what ended recently, on every host."""

import argparse
import math
import shlex
import sys
import time

from lbd.cli.daemons import Daemons
from lbd.cli.output import (
    DIM,
    GREEN,
    RED,
    YELLOW,
    Cell,
    Paint,
    Row,
    lay_out,
    paint_for,
    print_json,
    put,
)
from lbd.cli.program import complain
from lbd.cli.reply import Json, number, tables, text, texts
from lbd.errors import ConfigError
from lbd.one_line import one_line
from lbd.spelling import nearest
from lbd.units import show_duration

STATE_COLOURS = {
    "running": GREEN, "pending": YELLOW, "suspended": YELLOW, "failed": RED, "lost": RED,
    "done": DIM, "cancelled": DIM,
}  # fmt: skip
HEADER = ("ID", "NAME", "USER", "STATE", "FROM", "ON", ">AGE", ">RAN", ">CPU", ">EXIT", "COMMAND")
ANSWER_S = 25.0  # of very many jobs, and more than the LBM's longest patience
COMMAND_WIDTH, NAME_WIDTH = 60, 40
DISPATCHER = "the dispatcher"  # among the hosts that did not answer


def jobs(daemons: Daemons, options: argparse.Namespace) -> int:
    queued = [name for name in options.ids if is_selector(name)]
    others = [name for name in options.ids if not is_selector(name)]
    found: list[Json] = []
    missing: list[str] = []
    if others or not queued:
        reply = fetch(daemons, options.all or bool(others))
        found = tables(reply, "jobs")
        missing = texts(reply, "missing")
        if hosts := [name for name in missing if name != DISPATCHER]:
            complain("lbctl", f"these hosts did not answer: {', '.join(hosts)}")
        if DISPATCHER in missing:
            complain("lbctl", f"{DISPATCHER} did not answer: no jobs of the queue are shown")
    if others:
        found = chosen(found, others)
    if queued:
        found = [
            *found,
            *tables(daemons.lbm({"op": "queue.jobs", "ids": queued}, ANSWER_S), "jobs"),
        ]
    if options.json:
        print_json(found)
    elif found:
        put(*job_lines(found, paint_for(sys.stdout), time.time()))
    elif not missing:
        complain("lbctl", "no jobs")
    return 0


def is_selector(name: str) -> bool:
    """Of the queue's jobs: 3, 2-5, last, @me. Others are named like h1-17."""
    first, dash, last = name.partition("-")
    return name in ("last", "@me") or (first.isdecimal() and (last.isdecimal() or not dash))


def fetch(daemons: Daemons, ended_too: bool) -> Json:
    """{"jobs": those of every host, "missing": the hosts that did not answer}."""
    daemons.lbm({"op": "status"})  # who does not answer this hangs, and is not waited for so long
    return daemons.lbm({"op": "jobs", "all": ended_too, "cluster": True}, ANSWER_S)


def chosen(found: list[Json], ids: list[str]) -> list[Json]:
    """The named jobs, in the order named. Raises ConfigError for one that is not there."""
    by_id = {text(job, "id"): job for job in found}
    for name in ids:
        if name not in by_id:
            near = nearest(name, by_id)
            raise ConfigError(f"no job {name!r}" + (f'; did you mean "{near}"?' if near else ""))
    return [by_id[name] for name in ids]


def job_lines(found: list[Json], paint: Paint, unix_now_s: float) -> list[str]:
    waits = [text(job, "reason") if text(job, "state") == "pending" else "" for job in found]
    rows: list[Row] = [job_row(job, unix_now_s) for job in found]
    if not any(waits):
        return lay_out(HEADER, rows, paint)
    rows = [(*row, why) for row, why in zip(rows, waits, strict=True)]
    return lay_out((*HEADER, "WAITS"), rows, paint)


def job_row(job: Json, unix_now_s: float) -> Row:
    state = text(job, "state")
    submitted, started, finished = (
        number(job, key) for key in ("submitted", "started", "finished")
    )
    end = unix_now_s if math.isnan(finished) else finished
    return (
        text(job, "id"),
        one_line(text(job, "name"), NAME_WIDTH),
        text(job, "user"),
        Cell(state, STATE_COLOURS.get(state, "")),
        text(job, "origin"),
        text(job, "host"),
        since(unix_now_s - submitted),
        since(end - started),
        since(number(job, "cpu_s")),
        text(job, "exit_status"),
        one_line(shlex.join(texts(job, "command")), COMMAND_WIDTH),
    )


def since(seconds: float) -> str:
    return "–" if math.isnan(seconds) else show_duration(max(0.0, seconds))
