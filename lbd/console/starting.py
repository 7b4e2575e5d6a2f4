"""How to start one more daemon on this host, in the same way as those that run."""

import contextlib
import os
import pwd
import socket
import struct
from pathlib import Path

from lbd.console.daemons import Daemons

LIM_UNIT = "lbd-lim.service"
UNIT = "systemctl enable --now lbd-metrics"
UNITS = ("lbd.target", "lbd-metrics.service", "lbd-web.socket")  # the units that people enable
ENABLED = Path("/etc/systemd/system")
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
ANSWER_S = 1.0


def enabled_units() -> tuple[str, ...]:
    """Returns the units of lbd that systemd starts by itself on this host."""
    links = {link.name for link in ENABLED.glob("*.wants/lbd*")}
    return tuple(unit for unit in UNITS if unit in links)


def start_of_metrics(daemons: Daemons) -> str:
    """Returns the command that starts `lbd metrics` beside the daemons that run on this host."""
    lim = daemons.socket("lim")
    try:
        uid = lim.stat().st_uid
    except OSError:
        return f"lbd up, or {UNIT}"
    if is_of_unit(pid_behind(lim), LIM_UNIT):
        return UNIT
    command = "lbd metrics" if uid == os.geteuid() else f"runuser -u {name_of(uid)} -- lbd metrics"
    return f"{command}; the next start of `lbd up` starts it, too"


def name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"'#{uid}'"


def is_of_unit(pid: int, unit: str) -> bool:
    """Returns whether systemd started the process as this unit."""
    try:
        return Path(f"/proc/{pid}/cgroup").read_text("utf-8").strip().endswith(f"/{unit}")
    except OSError:
        return False


def pid_behind(path: Path) -> int:
    """Returns the pid of the process that listens there; 0 if none does. The kernel is asked
    because we may not be allowed to read the pid file."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(ANSWER_S)
        asking.connect(str(path))
        credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        pid: int = CREDENTIALS.unpack(credentials)[0]
        return pid
    return 0


def pid_in(file: Path) -> int:
    """Returns 0 if the file is missing or holds no pid."""
    try:
        return max(0, int(file.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return 0
