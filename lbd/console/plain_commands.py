"""`lbctl job, logs, kill, wait` for plain `lbrun` commands, whose ids look like h1-26."""

import math
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lbd.console.daemons import Daemons, NeverRan
from lbd.console.errors import kind_of
from lbd.console.figures import Clock
from lbd.console.reply import Json, number, table, tables, text, texts
from lbd.dispatch.core.job_selection import is_selector
from lbd.errors import LbdError
from lbd.local.json_socket import Refusal
from lbd.text.job_phrases import NO_HOST
from lbd.text.placement_phrases import PHRASES

PLAIN = re.compile(r"(?=.*[^0-9-])[A-Za-z0-9][A-Za-z0-9._-]*-[0-9]+")  # not a range such as 2-5
ANSWER_S = 25.0
PATIENCE_S = 15.0
SILENT_MAX = 2  # times that a host is asked in vain
PAUSE_S = 0.5
RETRY_FOR_S = 60.0  # for an LBM that is restarting
NOT_QUEUED = "is a plain lbrun; only queued jobs can be"
QUEUED_ONLY = {
    "hold": "held",
    "release": "released",
    "requeue": "queued again",
    "update": "changed",
}


def is_plain(name: str) -> bool:
    return PLAIN.fullmatch(name) is not None and not is_selector(name)


def split(ids: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits ids into those of the queue and those of plain commands."""
    return [name for name in ids if not is_plain(name)], [name for name in ids if is_plain(name)]


WORDS = {  # for any algorithm: the job's record does not name it
    **PHRASES,
    "lowest": "the best of the hosts that accept commands",
    "no-gain": "no host that accepts commands was clearly better",
}


def ask(daemons: Daemons, verb: str, name: str, **more: object) -> Json:
    """Raises LbdError."""
    try:
        return daemons.lbm({"op": f"command.{verb}", "id": name, **more}, ANSWER_S)
    except Refusal as problem:
        if problem.code != "missing" or NO_HOST not in str(problem) or "; " in str(problem):
            raise
        how = by_name("kill" if verb == "kill" else "jobs --all", name)
        raise Refusal(f"{problem}; {how}", problem.code) from None


def by_name(command: str, name: str) -> str:
    """Says how `lbctl` finds a job whose name was given for its id."""
    return f"by name: lbctl {command} --name {shlex.quote(name)}"


def shown(daemons: Daemons, name: str) -> Json:
    """Returns the job's object. Raises LbdError."""
    return table(ask(daemons, "show", name), "job")


def denied_to(daemons: Daemons, name: str) -> str:
    """Returns why the caller may not see a plain command; "" if they may, or if it is none."""
    try:
        if is_plain(name):
            shown(daemons, name)
    except Refusal as problem:
        return str(problem) if problem.code == "denied" else ""
    return ""


def those_there(
    daemons: Daemons, names: Sequence[str], *, several: bool
) -> tuple[list[Json], list[str]]:
    """Returns the objects of those that exist, and what there is to say of the others. `several`:
    these and jobs of the queue are more than one. Raises LbdError, for one alone also if it does
    not exist."""
    found, absent = list[Json](), list[str]()
    for name in names:
        try:
            found.append(shown(daemons, name))
        except Refusal as problem:
            if problem.code != "missing" or not several:
                raise
            absent.append(str(problem))
    return found, absent


def details(job: Json, clock: Clock) -> list[str]:
    """Returns what the job's line leaves out or truncates."""
    finished = number(job, "finished")
    times = [("submitted", number(job, "submitted")), ("started", number(job, "started"))]
    times += [("ended", finished)]
    lines = [f"command    {shlex.join(texts(job, 'command'))}"]
    if pid := text(job, "pid"):
        lines.append(f"pid        {pid} on {text(job, 'host')}")
    if directory := text(job, "directory"):
        lines.append(f"from       {directory} on {text(job, 'origin')}")
    lines += [f"{name:9}  {clock.time_of_day(at)}" for name, at in times if not math.isnan(at)]
    reason, placed = reason_and_placed(job)
    lines += [f"reason     {reason}"] if reason else []
    return [*lines, f"placed     {in_words(placed)}"] if placed else lines


def attempts_of(job: Json) -> list[Json]:
    """Returns its attempts, with a reason only if that says how they ended."""
    return [{**one, "reason": reason_and_placed(one)[0]} for one in tables(job, "attempts")]


def reason_and_placed(job: Json) -> tuple[str, str]:
    """Returns why a command or its attempt ended so, or what it waits for, and why it runs where it
    does. If there is nothing to say of its end, the second is in place of the first."""
    reason, placed = text(job, "reason"), text(job, "placed")
    is_placed = not placed and reason.partition("; ")[0] in WORDS
    return ("", reason) if is_placed else (reason, placed)


def in_words(reason: str) -> str:
    """Puts a sentence in place of the word that a placement begins with; JSON has the word."""
    word, mark, rest = reason.partition("; ")
    return f"{WORDS.get(word, word)}{mark}{rest}"


def why_never_ran(job: Json) -> str:
    """Returns a sentence on why it ended without a start; "" if it did not, or if that is not
    known: one that is lost may have begun unseen."""
    if job.get("started") is not None or text(job, "state") not in ("failed", "cancelled"):
        return ""
    why = f": {reason}" if (reason := reason_and_placed(job)[0]) else ""
    return f"job {text(job, 'id')} never ran{why}"


def where_its_output_went(job: Json) -> str:
    """Returns a sentence on where the output went, because nothing stores it."""
    host = text(job, "origin")
    tense = "went" if job.get("finished") else "goes"
    return (
        f"{text(job, 'id')} is a plain lbrun: its output {tense} to that lbrun's terminal, pipe "
        f"or file on {host} and is not stored"
    )


def kill(daemons: Daemons, names: Sequence[str], signal: int) -> Iterator[Json]:
    """Sends the signal and yields the results. Hosts take turns, and one that is silent again is
    not waited for any more: it may list very many commands."""
    silent, why = Counter[str](), dict[str, str]()
    for name in hosts_in_turn(names):
        host = host_of(name)
        if silent[host] >= SILENT_MAX:
            yield acted(name, f"{name} was not signalled: {why[host]}")
            continue
        try:
            ask(daemons, "kill", name, signal=signal)
        except LbdError as problem:
            if kind_of(problem) == "unavailable":
                silent[host] += 1
                why[host] = str(problem)
            yield acted(name, str(problem))
        else:
            yield acted(name)


def host_of(name: str) -> str:
    """The host where a command was typed."""
    return name.rpartition("-")[0]


def hosts_in_turn(names: Sequence[str]) -> list[str]:
    """Returns the first command of each host, the second of each, and so on."""
    seen = Counter[str]()
    turns = list[tuple[int, str]]()
    for name in names:
        seen[host := host_of(name)] += 1
        turns.append((seen[host], name))
    return [name for _, name in sorted(turns, key=lambda turn: turn[0])]


def acted(name: str | None, error: str = "", still_open: str = "") -> Json:
    """Returns a result. `still_open` says why the action has not taken effect yet."""
    found: Json = {"id": name, "ok": not error, "error": error or None}
    return found | {"still_open": still_open} if still_open else found


def only_queued(name: str, verb: str) -> Json:
    return acted(name, f"{name} {NOT_QUEUED} {QUEUED_ONLY[verb]}")


@dataclass(slots=True)
class Waiting:
    """Waits for commands to end."""

    daemons: Daemons
    names: list[str]

    def leave_out_absent(self, give_up_s: float) -> list[str]:
        """Leaves out names that no command has. Returns what there is to say of these. Raises
        LbdError."""
        there, absent = list[str](), list[str]()
        for name in self.names:
            try:
                self._patiently(name, 0.0, give_up_s)
                there.append(name)
            except Refusal as problem:
                if problem.code != "missing":
                    raise
                absent.append(str(problem))
        self.names = there
        return absent

    def until(self, give_up_s: float) -> tuple[list[Json], int]:
        """Returns the commands that have ended, and how many have not. `give_up_s` is a monotonic
        time. Raises LbdError."""
        ended: list[Json] = []
        for at, name in enumerate(self.names):
            while (left_s := give_up_s - time.monotonic()) >= 0 or not ended:
                asked_s = time.monotonic()
                reply = self._patiently(name, max(0.0, min(PATIENCE_S, left_s)), give_up_s)
                if not reply.get("open"):
                    ended.append(table(reply, "job"))
                    break
                if time.monotonic() >= give_up_s:
                    return ended, len(self.names) - at
                # the LBM answered early: it has too many waiting requests
                if time.monotonic() - asked_s < PAUSE_S:
                    time.sleep(PAUSE_S)
            else:
                return ended, len(self.names) - at
        return ended, 0

    def _patiently(self, name: str, patience_s: float, give_up_s: float) -> Json:
        """Returns the answer, and retries while the LBM restarts. Raises LbdError."""
        until_s = min(give_up_s, time.monotonic() + RETRY_FOR_S)
        while True:
            try:
                return ask(self.daemons, "wait", name, patience_s=patience_s)
            except LbdError as problem:
                away = kind_of(problem) == "unavailable" and not isinstance(problem, NeverRan)
                if not away or time.monotonic() >= until_s:
                    raise
                time.sleep(min(PAUSE_S, max(0.0, until_s - time.monotonic())))
