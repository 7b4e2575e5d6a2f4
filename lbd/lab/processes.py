"""Finds, starts and ends the processes of a lab.

Everything the lab starts carries LBD_LAB=DIR (and LBD_LAB_HOST, LBD_LAB_PART) in its environment,
and so do keepers. A job is recognised by its LBD_JOB_ID and an LBD_CONFIG below DIR. So every
process is found without a record, whatever its parent is now and whenever it was started.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from lbd.errors import LbdError
from lbd.lab.record import Process
from lbd.load.process_table import pids, task_of

MARK = "LBD_LAB"
MARK_HOST = "LBD_LAB_HOST"
MARK_PART = "LBD_LAB_PART"
END_TIMEOUT_S = 15.0
POLL_S = 0.02
GRACE_S = 2.0  # for commands to clean up, as compilers do with their temporary files
GRACE_POLL_S = 0.05

# The variables that our processes need; the caller's other variables are not passed on.
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LOGNAME", "TZ")


@dataclass(frozen=True, slots=True)
class Found:
    """A process of the lab, as /proc shows it."""

    process: Process
    parent: int
    state: str  # a letter of proc(5): R S D T Z …
    host: str  # "" if it belongs to no host
    part: str  # lim | lbm | host | switch | job | ""


@dataclass(frozen=True, slots=True)
class Stat:
    process: Process
    parent: int
    state: str


def stat(pid: int) -> Stat | None:
    """Returns None if there is no such process."""
    if (task := task_of(pid)) is None:
        return None
    return Stat(Process(pid, task.started_ticks), task.parent, task.state.decode())


def state_of(process: Process | None) -> str:
    """Returns running, stopped or dead for this very process, not for a later one with its pid."""
    now = stat(process.pid) if process else None
    if now is None or now.process != process:
        return "dead"
    if now.state in "ZX":
        return "running" if has_more_threads(process.pid) else "dead"
    return "stopped" if now.state in "Tt" else "running"


def has_more_threads(pid: int) -> bool:
    """Returns whether threads outlive the first one. Until the last thread is gone, the process's
    sockets still accept connections."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def environment_of(pid: int) -> dict[str, str]:
    """Returns the environment at the start of the process; empty if we may not read it."""
    try:
        block = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (os.fsdecode(entry).partition("=") for entry in block.split(b"\0"))
    return {name: value for name, equals, value in pairs if equals}


def command_line(pid: int) -> bytes:
    """Returns its words, a NUL after each; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def belongs(environment: dict[str, str], root: Path) -> tuple[str, str] | None:
    """Returns (host, part) of a process with this environment, None if it is not of the lab."""
    is_job = "LBD_JOB_ID" in environment
    marked = environment.get(MARK) == str(root)
    if not marked and not (is_job and environment.get("LBD_CONFIG", "").startswith(f"{root}/")):
        return None
    if is_job:
        return environment.get("LBD_HOST", ""), "job"
    return environment.get(MARK_HOST, ""), environment.get(MARK_PART, "")


def find(root: Path) -> list[Found]:
    """Returns every process of the lab except zombies, ourselves and our ancestors.

    A descendant of a lab process belongs to the lab too, because a job may have cleared its
    environment.
    """
    stats = {pid: entry for pid in pids() if (entry := stat(pid)) and entry.state not in "ZX"}
    spared = own_line()
    known: dict[int, tuple[str, str]] = {}
    for pid in stats:
        owner = belongs(environment_of(pid), root)
        if owner is not None:
            known[pid] = owner
    for pid in stats:
        if pid not in known:
            above = next((up for up in ancestors(pid, stats.get) if up in known), None)
            if above is not None and above not in spared:
                known[pid] = known[above]
    return [
        Found(stats[pid].process, stats[pid].parent, stats[pid].state, *known[pid])
        for pid in sorted(known)
        if pid not in spared
    ]


def ancestors(pid: int, look: Callable[[int], Stat | None]) -> list[int]:
    """Returns the parent, the grandparent and so on, as far as known."""
    found: list[int] = []
    entry = look(pid)
    while entry and entry.parent and entry.parent not in found:
        found.append(entry.parent)
        entry = look(entry.parent)
    return found


def own_line() -> set[int]:
    """Returns this process and its ancestors, which we must never end."""
    return {os.getpid(), *ancestors(os.getpid(), stat)}


def send(process: Process, number: int) -> bool:
    """Returns False if the process is gone. Raises LbdError if we may not signal it."""
    if state_of(process) == "dead":
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        raise LbdError(
            f"process {process.pid} belongs to another user; run this as that user"
        ) from None
    return True


def ask_to_end(look: Callable[[], Iterable[Process]]) -> None:
    """Sends TERM to whatever `look` finds, once each, until it finds nothing, at most for a while.
    Raises LbdError."""
    deadline_s = time.monotonic() + GRACE_S
    asked: set[Process] = set()
    while found := set(look()):
        for process in found - asked:
            send(process, signal.SIGTERM)
        asked |= found
        if time.monotonic() > deadline_s:
            return
        time.sleep(GRACE_POLL_S)


def end_all(look: Callable[[], Iterable[Process]]) -> None:
    """Kills whatever `look` finds until it finds nothing. Raises LbdError if that takes too long.

    A process that is exiting has no environment and no cgroup any more, so every process seen once
    is waited for.
    """
    deadline_s = time.monotonic() + END_TIMEOUT_S
    seen: set[Process] = set()
    while True:
        seen.update(look())
        left = [process for process in seen if send(process, signal.SIGKILL)]
        if not left:
            return
        if time.monotonic() > deadline_s:
            pids = " ".join(str(process.pid) for process in left)
            raise LbdError(f"processes that do not end, even when killed: {pids}")
        time.sleep(POLL_S)


def wait_until_dead(process: Process, timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while state_of(process) != "dead":
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True


def environment(root: Path, host: str, part: str) -> dict[str, str]:
    """Returns a clean environment, marked as the lab's."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    marks = {MARK: str(root), MARK_HOST: host, MARK_PART: part}
    return {**kept, **marks}


def tail(log: Path, lines: int = 5) -> list[str]:
    """Returns the log's last lines, without empty ones."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-lines:]
