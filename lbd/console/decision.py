"""Asks where a command would go and why, without running it, and shows the answer."""

import math
import os
import shlex
import sys
from collections.abc import Callable, Sequence

from lbd.console.figures import decimal, duration
from lbd.console.output import (
    BOLD,
    DIM,
    GREEN,
    Cell,
    Row,
    fitted_lines,
    paint_for,
    print_json,
    put,
    terminal_columns,
)
from lbd.console.reply import Json, answer_in, number, tables, text
from lbd.errors import LbdError, Unavailable
from lbd.launch.directory_look import find_program
from lbd.launch.exec import exit_status_of
from lbd.policy.ranking import as_low_as
from lbd.policy.view import NO_SLOT
from lbd.text.missing_program import why_not_run
from lbd.text.placement_phrases import (
    TIMED,
    LoadsSeen,
    why_not_here,
    why_placed,
)

LOAD_WITH = (
    "LOAD WITH COMMAND is the load now plus what the command adds: 1 on one core, 0.25 on four, 2 "
    "on half a core (at usual speed)"
)


def ask_eligible(ask: Callable[[Json], Json], command: Sequence[str]) -> Json | None:
    """Returns None if this LBM cannot say."""
    question: Json = {
        "op": "eligible", "command": list(command), "directory": working_directory()
    }  # fmt: skip
    try:
        return answer_in(ask(question))
    except LbdError:
        return None


def working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"


def verdict_line(eligible: Json, stays: str = "stays here") -> str:
    """Returns one line on whether the LBM considers the command eligible. What a list keeps here,
    `lbrun` keeps here, too."""
    word, why = text(eligible, "reason"), text(eligible, "why")
    if eligible.get("eligible") is True:
        verdict = "under lbsh it may leave"
    elif word == "never" and text(eligible, "list") in ("host", "user"):
        verdict = f"it {stays}, under lbsh and lbrun"
    else:
        verdict = f"under lbsh it {stays}"
    return f"{verdict}: {why} ({word})" if why else f"{verdict}: {word}"


def place_request(
    wanted: str | None,
    excluded: Sequence[str],
    must_leave: bool,
    must_stay: bool,
    needs: str = "",
) -> Json:
    return {
        "op": "place", "job": "explain", "wanted": wanted, "excluded": list(excluded),
        "must_leave": must_leave, "must_stay": must_stay, "may_wait": True, "dry": True,
        "needs": needs,
    }  # fmt: skip


def question(request: Json, command: Sequence[str], directory: bytes, given_directory: str) -> Json:
    """Returns the question for the LBM, which also asks whether hosts could start the command."""
    flags = ("C/" if given_directory.startswith("/") else "C") if given_directory else ""
    return {
        **request, "op": "explain", "program": command[0], "flags": flags, "command": list(command),
        "directory": os.fsdecode(directory), "path": os.environ.get("PATH", os.defpath),
    }  # fmt: skip


def ask_both(
    lbm: Callable[[Json], Json], lim: Callable[[Json], Json], request: Json, asked: Json
) -> Json:
    """Asks the LBM, or without one the LIM, which knows loads but not files. Raises LbdError."""
    try:
        return lbm(asked)
    except Unavailable:
        return lim(request)


def trouble_here(reply: Json, asked: Json) -> OSError | None:
    """Returns why the command could not start here, if it would stay. The LBM asks the others."""
    if text(reply, "verdict") != "here" or asked.get("staged") is True:
        return None
    return trouble_of(*(os.fsencode(str(asked[key])) for key in ("program", "directory", "path")))


def trouble_of(program: bytes, directory: bytes, path: bytes) -> OSError | None:
    """Returns why a program could not be started on this host."""
    if b"/" in program:
        program = os.path.join(directory, program)
    number = find_program(program, path)
    return OSError(number, os.strerror(number)) if number else None


def show(
    reply: Json,
    request: Json,
    command: Sequence[str],
    as_json: bool,
    eligible: Json | None = None,
    trouble: OSError | None = None,
) -> None:
    """Prints the decision as the LIM gave it, and what `lbsh` would do with the command."""
    if as_json:
        missing = why_not_run(command, trouble) if trouble is not None else None
        print_json({"command": list(command), **answer_in(reply), "trouble": missing,
                    "eligibility": eligible})  # fmt: skip
        return
    reason = text(reply, "reason")
    verdicts = {"here": "runs here, on", "there": "goes to", "wait": "waits for room; best is"}
    verdict = verdicts.get(text(reply, "verdict"), text(reply, "verdict"))
    if is_full(reply):
        verdict = "would wait for a slot on"
    why = why_of(reply, request)
    paint = paint_for(sys.stdout)
    put(
        f"{shlex.join(command)}: {verdict} {paint(text(reply, 'host'), BOLD)}: {reason}"
        f"{f' ({why})' if why else ''}, algorithm {text(reply, 'algorithm')}"
    )
    unable = ""
    if trouble is not None:
        unable = f"{command[0]}: {why_not_run(command, trouble)}"
        put(f"{unable}; the exit status would be {exit_status_of(trouble)}")
    if unknown := text(reply, "unknown"):
        put(unknown)
    chosen = text(reply, "host")
    candidates = tables(reply, "candidates")
    if unable:  # of this host, which is the chosen one; the LBM has asked the others
        candidates = [
            {**item, "willing": False, "why": unable} if text(item, "name") == chosen else item
            for item in candidates
        ]
    rows = [candidate_row(rank, item, chosen) for rank, item in enumerate(candidates, 1)]
    if rows and reason != "never":  # nothing was compared
        header = (">RANK", "HOST", ">LOAD WITH COMMAND", ">AGE", "WILLING")
        columns = terminal_columns(sys.stdout)
        put("", *fitted_lines(header, rows, paint, columns, (">AGE",), ("WILLING",)), "", LOAD_WITH)
    if eligible is not None:
        verdict = verdict_line(eligible, "would stay here")
        put("", verdict[:1].upper() + verdict[1:])


def why_of(reply: Json, request: Json) -> str:
    """Returns the reason in words. Where PREDICT compared hosts, adds the CPU time it assumed."""
    reason, algorithm = text(reply, "reason"), text(reply, "algorithm")
    figures = (number(reply, name) for name in ("load_here", "local_threshold", "min_gain"))
    loads = {text(row, "name"): number(row, "load") for row in tables(reply, "candidates")}
    now, threshold, gain, chosen = (
        None if math.isnan(figure) else figure
        for figure in (*figures, loads.get(text(reply, "host"), math.nan))
    )
    own, excluded = text(reply, "asked_on"), request.get("excluded")
    is_excluded = isinstance(excluded, list) and own in excluded
    not_here = why_not_here(
        remote=request.get("must_leave") is True, excluded=own if is_excluded else ""
    )
    as_low: tuple[str, ...] = ()
    if not not_here:  # else this host, which is none of those, is one of the rows
        rows = [row for row in tables(reply, "candidates") if row.get("willing") is True]
        willing = {name: loads[name] for name in (text(row, "name") for row in rows)}
        as_low = as_low_as(text(reply, "host"), willing)
    seen = LoadsSeen(now, threshold, gain, chosen, as_low=as_low)
    why = why_placed(reason, algorithm, seen, not_here)
    if algorithm != "PREDICT" or reason not in TIMED:
        return why
    cpu_s = number(reply, "cpu_s")
    if math.isnan(cpu_s):
        return f"{why}; its CPU time is not known yet"
    return f"{why}; its learnt CPU time is {duration(cpu_s)}"


def is_full(reply: Json) -> bool:
    """Returns whether the chosen host has no free slot, which happens if the user named it."""
    chosen = text(reply, "host") if text(reply, "verdict") == "there" else ""
    full = {text(row, "name") for row in tables(reply, "candidates") if text(row, "why") == NO_SLOT}
    return chosen in full


def candidate_row(rank: int, item: Json, chosen: str) -> Row:
    """Returns the row of one host, with an arrow at the chosen one. Ties are broken at random."""
    willing = item.get("willing") is True
    return (
        f"→ {rank}" if text(item, "name") == chosen else str(rank),
        text(item, "name"),
        decimal(number(item, "load")),
        duration(number(item, "age_s")),
        Cell("yes", GREEN) if willing else Cell(f"no: {text(item, 'why')}", DIM),
    )
