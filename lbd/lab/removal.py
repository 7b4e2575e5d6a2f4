"""Takes a lab down, whole or half-built, with or without its record.

Processes are found by their mark and their cgroups, cgroups by their name; only the list of files
comes from the record. So a lab that was killed at any point while starting leaves nothing behind.
"""

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

from lbd.errors import LbdError
from lbd.lab import cgroups, processes
from lbd.lab.plan import cgroup_name
from lbd.lab.record import PATIENCE_S, Process, Record, load, locked, record_file
from lbd.local.own_lab import MADE_BY
from lbd.process.whole_file import UNFINISHED

CGROUP_TIMEOUT_S = 5.0
POLL_S = 0.1


def down(root: Path) -> bool:
    """Takes the lab down, whole or half-built. Returns False if there was none."""
    with contextlib.ExitStack() as stack:
        if root.is_dir() and (record_file(root).exists() or (root / "lock").exists()):
            stack.enter_context(locked(root, PATIENCE_S))
        try:
            record = load(root)
        except LbdError:
            record = None
        return take_down(root, record)


def take_down(root: Path, record: Record | None) -> bool:
    groups = tuple(cgroups.find(cgroup_name(root)))  # a user may have written the record
    cgroups.leave(groups, processes.own_line())  # `down` may run inside a host

    def left() -> list[Process]:
        found = [entry.process for entry in processes.find(root)]
        return list(dict.fromkeys((*found, *cgroups.members(groups))))

    was_there = bool(left()) or any(map(os.path.isdir, groups)) or record_file(root).exists()
    end_commands(root)
    processes.end_all(left)
    deadline_s = time.monotonic() + CGROUP_TIMEOUT_S
    while stuck := cgroups.remove(groups):
        if time.monotonic() > deadline_s:
            raise LbdError(f"cannot remove cgroup {stuck[0]}: a process is in it")
        time.sleep(POLL_S)
    remove_files(root, record)
    return was_there


def end_commands(root: Path) -> None:
    """Lets the commands clean up. Stopped daemons start no others meanwhile."""
    for entry in processes.find(root):
        if entry.part in ("lbm", "dispatcher"):
            processes.send(entry.process, signal.SIGSTOP)

    def commands() -> list[Process]:
        return [entry.process for entry in processes.find(root) if entry.part == "job"]

    processes.ask_to_end(commands)


def remove_files(root: Path, record: Record | None) -> None:
    """Removes what the lab made below its directory, and the directory if the lab made that too."""
    names = record.plan.hosts if record else [path.parent.name for path in left_over(root)]
    is_first_moment = is_only_locked(root)
    if not (names or record_file(root).exists() or is_first_moment):
        return  # not a lab of ours: touch nothing
    for name in names:
        shutil.rmtree(root / name, ignore_errors=True)
    names = ("key", "lock", "lab.json")
    unfinished = [path for name in names for path in root.glob(f"{name}.*{UNFINISHED}")]
    for path in (*unfinished, *(root / name for name in names)):
        with contextlib.suppress(OSError):
            path.unlink()
    if is_first_moment or (record is not None and record.made_root):
        with contextlib.suppress(OSError):
            root.rmdir()
            if record is not None and record.made_above:
                root.parent.rmdir()  # unless something else is in it


def is_only_locked(root: Path) -> bool:
    """Returns whether `up` was killed there before it had a record, so that the directory holds
    nobody's files. As a rule `up` made the directory; if not, its user loses only an empty one."""
    try:
        names = {path.name for path in root.iterdir()}
    except OSError:
        return False
    unfinished = {name for name in names if name.startswith("lab.json.")}
    return names - unfinished == {"lock"}


def left_over(root: Path) -> list[Path]:
    """Returns the configurations of the hosts of a lab that has lost its record."""
    found = []
    for path in root.glob("h*/lbd.toml"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if path.read_text(encoding="utf-8").startswith(MADE_BY):
                found.append(path)
    return found
