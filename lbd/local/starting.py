"""Daemons that do not listen yet: whether one is being started, how long to wait for it, and how
to start it."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress

SYSTEMD = "/run/systemd/system"  # exists where systemd runs
UNITS = tuple(f"{top}/systemd/system/lbd.target" for top in ("/usr/lib", "/lib", "/etc"))
WAIT_S, LOOK_S = 5.0, 0.05
RETURNS_S = 5.0  # since a daemon made way for another
PID_BYTES, COMMAND_BYTES = 32, 4096


class Patience:
    """Limits the total waiting time, however many questions there are."""

    def __init__(self) -> None:
        self._until_s: float | None = None

    def wait(self) -> bool:
        """Waits a moment; returns False once the time is used up."""
        now_s = time.monotonic()
        if self._until_s is None:
            self._until_s = now_s + WAIT_S
        if now_s >= self._until_s:
            return False
        time.sleep(LOOK_S)
        return True


def returning_mark(socket: str) -> str:
    """Returns the file that marks that a daemon makes way for another at this socket."""
    return f"{socket.removesuffix('.sock')}.restarting"


def returns(socket: str) -> bool:
    """Returns whether a daemon is about to listen there again."""
    try:
        return time.time() - os.stat(returning_mark(socket)).st_mtime < RETURNS_S
    except OSError:
        return False


def starter(runtime_dir: str, daemon: str) -> str:
    """Returns the process that is about to listen for a daemon, or is ending; "" if there is none.
    It does not lock pid files, not even briefly, since that could keep a daemon from starting."""
    for name, shown in ((daemon, daemon), ("up", "lbd up")):
        with suppress(OSError, ValueError):
            pid = int(start_of(f"{runtime_dir}/{name}.pid", PID_BYTES))
            if b"lbd" in start_of(f"/proc/{pid}/cmdline", COMMAND_BYTES):
                return f"{shown}, pid {pid}"
    return "a new one takes over" if returns(f"{runtime_dir}/{daemon}.sock") else ""


def has_units() -> bool:
    """Returns whether systemd runs here and has the units of lbd."""
    return os.path.isdir(SYSTEMD) and any(map(os.path.exists, UNITS))


def how_to_start(runtime_dirs: Sequence[str]) -> str:
    """Returns how the caller gets the daemons to run that were looked for in these directories."""
    # only then, since clients import this file
    from lbd.config.load import SYSTEM_DIRS
    from lbd.local.own_lab import start_in_lab

    if command := start_in_lab(runtime_dirs[0]):
        return f"start it with: {command}"
    system_dir = SYSTEM_DIRS[0]
    if has_units() and system_dir in runtime_dirs:
        command, is_roots = "systemctl start lbd.target", True
    else:
        command, is_roots = "lbd up", [*runtime_dirs] == [system_dir]
    if is_roots and os.geteuid() != 0:
        return f"ask an administrator to start it with: {command}"
    return f"start it with: {command}"


def has_left_traces(runtime_dir: str, daemon: str) -> bool:
    """Returns whether a daemon has run there and did not end as `lbd up` ends one."""
    return any(map(os.path.lexists, (f"{runtime_dir}/{daemon}.{end}" for end in ("pid", "sock"))))


def start_of(path: str, most_bytes: int) -> bytes:
    """Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(descriptor, most_bytes)
    finally:
        os.close(descriptor)
