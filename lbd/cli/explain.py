"""Where a command would go and why, with nothing run: `lbctl explain` and `lbrun --explain`."""

import math
import os
import sys
from collections.abc import Callable, Sequence

from lbd.cli.lbctl_eligible import seconds, verdict_line
from lbd.cli.output import (
    BOLD,
    DIM,
    GREEN,
    Cell,
    Row,
    figure,
    lay_out,
    paint_for,
    print_json,
    put,
)
from lbd.cli.reply import Json, number, tables, text
from lbd.errors import Unavailable
from lbd.lbm.launch import exit_status_of
from lbd.lbm.look import find_program

REASONS = {
    "below-threshold": "the load here is at or below T_l, lim.local_threshold",
    "lowest": "the lowest load of all willing hosts",
    "no-gain": "no willing host is better by more than Δ, lim.min_gain",
    "no-free-slot": "willing hosts are out of slots, and this one is above lim.hold_above",
    "no-peer": "no other host is up",
    "no-willing-host": "no other host takes commands now",
    "wanted": "asked for by name",
    "must-stay": "asked to stay",
}
# P2C and PREDICT compare times.
TIMED = {
    "lowest": "the least time for it and those already there",
    "no-gain": "nowhere else would it, and those already there, gain by its going",
}


def place_request(
    wanted: str | None, excluded: Sequence[str], must_leave: bool, must_stay: bool
) -> Json:
    return {
        "op": "place", "job": "explain", "wanted": wanted, "excluded": list(excluded),
        "must_leave": must_leave, "must_stay": must_stay, "may_wait": True, "dry": True,
    }  # fmt: skip


def question(request: Json, command: Sequence[str], directory: bytes, given_directory: str) -> Json:
    """For the LBM, which also asks the hosts whether the command could begin there."""
    flags = ("C/" if given_directory.startswith("/") else "C") if given_directory else ""
    return {
        **request, "op": "explain", "program": command[0], "flags": flags, "command": list(command),
        "directory": os.fsdecode(directory), "path": os.environ.get("PATH", os.defpath),
    }  # fmt: skip


def ask_both(
    lbm: Callable[[Json], Json], lim: Callable[[Json], Json], request: Json, asked: Json
) -> Json:
    """Without an LBM the LIM alone answers: it knows loads, not files. Raises LbdError."""
    try:
        return lbm(asked)
    except Unavailable:
        return lim(request)


def trouble_here(reply: Json, asked: Json) -> OSError | None:
    """Why the command could not begin, if it would stay; other hosts are asked by the LBM."""
    if text(reply, "verdict") != "here" or asked.get("staged") is True:
        return None
    program = os.fsencode(str(asked["program"]))
    if b"/" in program:
        program = os.path.join(os.fsencode(str(asked["directory"])), program)
    number = find_program(program, os.fsencode(str(asked["path"])))
    return OSError(number, os.strerror(number)) if number else None


def show(
    reply: Json,
    command: Sequence[str],
    as_json: bool,
    eligible: Json | None = None,
    trouble: OSError | None = None,
) -> None:
    """Print the decision as the LIM gave it, and whether a shell would have asked for it."""
    if as_json:
        answer = {key: value for key, value in reply.items() if key not in ("ok", "id")}
        missing = trouble.strerror if trouble is not None else None
        print_json(
            {"command": list(command), **answer, "trouble": missing, "eligibility": eligible}
        )
        return
    reason = text(reply, "reason")
    verdicts = {"here": "runs here, on", "there": "goes to", "wait": "waits for room; best is"}
    verdict = verdicts.get(text(reply, "verdict"), text(reply, "verdict"))
    why = why_of(reply)
    paint = paint_for(sys.stdout)
    put(
        f"{' '.join(command)}: {verdict} {paint(text(reply, 'host'), BOLD)}: {reason}"
        f"{f' ({why})' if why else ''}, algorithm {text(reply, 'algorithm')}"
    )
    if trouble is not None:
        put(f"{command[0]}: {trouble.strerror}; it would end with {exit_status_of(trouble)}")
    chosen = text(reply, "host")
    candidates = enumerate(tables(reply, "candidates"), 1)
    rows = [candidate_row(rank, item, chosen) for rank, item in candidates]
    if rows:
        header = (">RANK", "HOST", ">LOAD WITH IT", ">AGE", "WILLING")
        put("", *lay_out(header, rows, paint))
    if eligible is not None:
        put("", f"through lbsh: {verdict_line(eligible)}")


def why_of(reply: Json) -> str:
    """The reason, for people; where PREDICT compared hosts, with the CPU time it reckoned with."""
    reason, algorithm = text(reply, "reason"), text(reply, "algorithm")
    if algorithm not in ("P2C", "PREDICT") or reason not in TIMED:
        return REASONS.get(reason, "")
    why = TIMED[reason]
    if algorithm == "P2C":
        return why
    cpu_s = number(reply, "cpu_s")
    if math.isnan(cpu_s):
        return f"{why}; of its CPU time nothing is learnt yet"
    return f"{why}; its CPU time is {seconds(cpu_s)}, as learnt"


def candidate_row(rank: int, item: Json, chosen: str) -> Row:
    """One host; an arrow marks the chosen one, which among equals chance decides."""
    willing = item.get("willing") is True
    age_s = number(item, "age_s")
    return (
        f"→ {rank}" if text(item, "name") == chosen else str(rank),
        text(item, "name"),
        figure(number(item, "load")),
        "–" if math.isnan(age_s) else f"{age_s:.1f}s",
        Cell("yes", GREEN) if willing else Cell(f"no: {text(item, 'why')}", DIM),
    )
