"""A cgroup for each host of a lab, in every hierarchy that is writable.

The cgroups hold the CPU quota and identify a host's processes however they were started. The
cgroups that a host's LBM makes for its jobs lie inside them, so they are removed with the lab.
Works on v1, on v2, and on both side by side. Without a writable hierarchy (not root, read-only) a
lab has only configured cores.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from lbd.lab.processes import stat
from lbd.lab.record import Process
from lbd.text.kernel_tables import lines_of

PERIOD_US = 100_000
# The v1 controllers that an LBM may use for its jobs; `cpu` also holds the quota.
V1_WANTED = ("cpu", "cpuacct", "memory", "pids", "freezer")


def mounts() -> dict[str, tuple[Path, str]]:
    """Returns each hierarchy's mount point and root by controller; "" is the unified one."""
    found: dict[str, tuple[Path, str]] = {}
    for line in lines_of(Path("/proc/self/mountinfo").read_bytes()):
        left, _, right = line.partition(" - ")
        root, point = left.split(" ")[3:5]
        kind, _, options = right.split(" ")[:3]
        if kind == "cgroup2":
            found.setdefault("", (Path(point), root))
        elif kind == "cgroup":
            for option in options.split(","):
                found.setdefault(option, (Path(point), root))
    return found


def own_groups() -> dict[str, Path]:
    """Returns our cgroup's directory by controller, leaving out hierarchies we cannot see."""
    mounted = mounts()
    found = {}
    for line in lines_of(Path("/proc/self/cgroup").read_bytes()):
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            point, root = mounted.get(name, (None, ""))
            if point is not None:
                inside = os.path.relpath(path, root)
                found[name] = point if inside.startswith("..") else point / inside
    return found


def unified_parent(own: Path, mount_point: Path) -> Path:
    """Returns where a lab's v2 cgroup can have a CPU quota: the nearest cgroup that delegates
    `cpu`.

    A cgroup with processes of its own cannot delegate, so it is seldom our own. Defaults to the
    root.
    """
    for directory in (own, *own.parents):
        with suppress(OSError):
            if "cpu" in (directory / "cgroup.subtree_control").read_text().split():
                return directory
        if directory == mount_point:
            break
    return mount_point


def plan(name: str) -> tuple[str, ...]:
    """Returns the cgroups that a lab of this name needs, without making them."""
    own = own_groups()
    parents: list[Path] = []
    if "" in own:
        parents.append(unified_parent(own[""], mounts()[""][0]))
    parents += [own[controller] for controller in V1_WANTED if controller in own]
    usable = [parent for parent in dict.fromkeys(parents) if os.access(parent, os.W_OK)]
    return tuple(str(parent / name) for parent in usable)


def make(groups: Sequence[str], host: str, cores: float) -> tuple[tuple[str, ...], bool]:
    """Makes the host's cgroups. Returns those made, and whether a quota of `cores` holds."""
    made = []
    limited = False
    for group in groups:
        inner = Path(group, host)
        try:
            inner.parent.mkdir(exist_ok=True)
            hand_down_cpu(inner.parent)
            inner.mkdir(exist_ok=True)
            if not os.access(inner / "cgroup.procs", os.W_OK):
                continue
        except OSError:
            continue
        made.append(str(inner))
        if cores and not limited:
            limited = set_quota(inner, cores)
    return tuple(made), limited


def hand_down_cpu(group: Path) -> None:
    with suppress(OSError):
        if "cpu" in (group / "cgroup.controllers").read_text().split():
            (group / "cgroup.subtree_control").write_text("+cpu")


def set_quota(group: Path, cores: float) -> bool:
    """Returns False if this hierarchy does not limit CPU time."""
    quota_us = max(1000, round(cores * PERIOD_US))
    with suppress(OSError):
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
            return True
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
            return True
    return False


def members(groups: Sequence[str]) -> list[Process]:
    """Returns the processes in these cgroups and all below them."""
    pids: set[int] = set()
    for group in groups:
        for directory, _, _ in os.walk(group):
            with suppress(OSError, ValueError):
                text = Path(directory, "cgroup.procs").read_text()
                pids.update(int(pid) for pid in text.split())
    found = (stat(pid) for pid in pids if pid > 0)
    return [entry.process for entry in found if entry is not None and entry.state not in "ZX"]


def leave(groups: Sequence[str], pids: Iterable[int]) -> None:
    """Moves those of the processes that are in one of the cgroups to its parent."""
    inside = {process.pid for process in members(groups)} & set(pids)
    for group in groups:
        for pid in inside:
            with suppress(OSError):
                Path(group).with_name("cgroup.procs").write_text(str(pid))


def find(name: str) -> tuple[str, ...]:
    """Returns the lab's cgroups wherever they are, for a lab that has lost its record."""
    found: list[str] = []
    for point in {str(point) for point, _ in mounts().values()}:
        for directory, below, _ in os.walk(point):
            if name in below:
                found.append(os.path.join(directory, name))
                below.remove(name)
    return tuple(found)


def remove(groups: Sequence[str]) -> list[str]:
    """Removes these cgroups and all below them. Returns those that are still there."""
    for group in groups:
        for directory, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):
                os.rmdir(directory)
    return [group for group in groups if os.path.isdir(group)]
