"""The systemd units of the daemons: which one runs a process, and what they let it write."""

import errno
import subprocess
from collections.abc import Sequence
from pathlib import Path

ANSWER_S = 5.0


def unit_of(pid: int | str) -> str:
    """Returns the systemd unit that runs a process as its own; "" if none of ours does."""
    try:
        group = Path(f"/proc/{pid}/cgroup").read_text("utf-8").strip().rpartition("/")[2]
    except OSError:
        return ""
    return group if group.startswith("lbd-") and group.endswith(".service") else ""


def said_by(*words: str) -> str:
    try:
        found = subprocess.run(words, capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip()


def opening(units: Sequence[str], directory: Path | str) -> str:
    """Returns how an administrator lets these units write there."""
    names = " ".join(unit.removesuffix(".service") for unit in units)
    return (
        f"`systemctl edit {names}`, [Service] ReadWritePaths={directory} (an existing directory "
        "of lbd's own)"
    )


def why_not_written(problem: OSError, directory: Path) -> str:
    """Returns the system's words, and the fix where the unit of this process forbids it."""
    said = problem.strerror or str(problem)
    unit = unit_of("self") if problem.errno == errno.EROFS else ""
    return f"{said} for {unit}: {opening([unit], directory)}" if unit else said
