"""What our own cgroups report: quota, members, CPU time, memory pressure. Versions 1 and 2.

A controller's directory is its mount point plus our path below the mount's root. Inside a container
the mount's root is often our own cgroup, or the path lies outside of it; then only the mount point
itself is visible.
"""

import contextlib
import math
import os
from dataclasses import dataclass
from pathlib import Path

from lbd.text.kernel_tables import lines_of

MOUNTS_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted cgroup hierarchy and where we are in it."""

    controllers: frozenset[str]  # empty for version 2
    mount: Path
    own: Path  # our directory: `mount` itself or below it

    @property
    def version(self) -> int:
        return 1 if self.controllers else 2

    def upwards(self) -> list[Path]:
        """Returns our directory and each one above it, as far as they are mounted here."""
        return [self.own, *(up for up in self.own.parents if up.is_relative_to(self.mount))]


def hierarchies(mountinfo: bytes, own_cgroups: bytes) -> list[Hierarchy]:
    """Parses /proc/self/mountinfo and /proc/self/cgroup."""
    paths = dict(line.split(":", 2)[1:] for line in lines_of(own_cgroups) if line.count(":") >= 2)
    found = []
    for line in lines_of(mountinfo):
        before, _, after = line.partition(" - ")
        mount, kind = before.split(" "), after.split(" ")
        if kind[0] == "cgroup2":
            controllers = ""
        elif kind[0] == "cgroup":
            options = set(kind[2].split(","))
            controllers = next((c for c in paths if c and set(c.split(",")) <= options), "")
            if not controllers:
                continue
        else:
            continue
        path = paths.get(controllers)
        if path is None:
            continue
        names = frozenset(controllers.split(",")) if controllers else frozenset[str]()
        found.append(Hierarchy(names, Path(mount[4]), own_directory(mount[4], mount[3], path)))
    return found


def own_directory(mount: str, root: str, path: str) -> Path:
    """Returns where the cgroup `path` appears in a mount of `root`; the mount point if it does
    not."""
    inside = path.removeprefix(root.rstrip("/")) if path.startswith(root) else ""
    if ".." in path:
        inside = ""
    found = Path(mount + "/" + inside.strip("/"))
    return found if found.is_dir() else Path(mount)


def mounted() -> list[Hierarchy]:
    """Returns the hierarchies of this process; none where /proc or cgroups are missing."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:  # to which users may add very many
            mountinfo = file.read(MOUNTS_BYTES).rpartition(b"\n")[0]
        own = Path("/proc/self/cgroup").read_bytes()
    except OSError:
        return []
    return hierarchies(mountinfo, own)


def with_controller(found: list[Hierarchy], name: str) -> Hierarchy | None:
    """Returns the version 1 hierarchy of this controller, else the version 2 one, else None."""
    for hierarchy in found:
        if name in hierarchy.controllers:
            return hierarchy
    return next((h for h in found if h.version == 2), None)


def read(path: Path) -> str:
    """Returns a cgroup file's text; "" if the file does not exist."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def quota_cores(directory: Path, version: int) -> float:
    """Returns the CPU quota set at this directory, in cores; infinite if there is none."""
    if version == 2:
        quota, _, period = read(directory / "cpu.max").partition(" ")
    else:
        quota = read(directory / "cpu.cfs_quota_us")
        period = read(directory / "cpu.cfs_period_us")
    try:
        cores = float(quota) / float(period)
    except (ValueError, ZeroDivisionError):  # "max", or no such file
        return math.inf
    return cores if cores > 0 else math.inf


def usable_cores() -> float:
    """Returns how many processors we may run on, limited by the tightest CPU quota up the
    hierarchy."""
    cores = float(len(os.sched_getaffinity(0)))
    hierarchy = with_controller(mounted(), "cpu")
    if hierarchy is not None:
        for directory in hierarchy.upwards():
            cores = min(cores, quota_cores(directory, hierarchy.version))
    return cores


def is_root(hierarchy: Hierarchy) -> bool:
    """Whether we are in the machine's root cgroup, which says nothing about our own.

    The path cannot tell, since a cgroup namespace shows "/" too; these files can.
    """
    if hierarchy.version == 2:
        return not (hierarchy.own / "cgroup.type").exists()
    return (hierarchy.own / "release_agent").exists()


def own_group(controller: str) -> Hierarchy | None:
    """Returns the hierarchy in which we have our own cgroup for this controller, if any."""
    found = mounted()
    first = with_controller(found, controller)
    candidates = [first] if first is not None else []
    candidates += [h for h in found if h.version == 2 and h is not first]
    return next((h for h in candidates if not is_root(h)), None)


def cpu_used_s(directory: Path) -> float | None:
    """Returns the CPU seconds used by everything that has run in this cgroup, of either version,
    since it was created; None if they are not counted."""
    words = read(directory / "cpu.stat").split()
    if words[:1] == ["usage_usec"]:  # version 1 has a file of that name for its quota
        return int(words[1]) / 1e6
    usage = read(directory / "cpuacct.usage")
    return int(usage) / 1e9 if usage.isdigit() else None


def members(directory: Path) -> list[int]:
    """Returns every process in a cgroup and in those below it that we may read; none once it is
    gone.

    Processes outside our PID namespace appear as 0, which kill() takes as our own process group.
    """
    found: list[int] = []
    left = [directory]
    while left:
        group = left.pop()
        found.extend(int(pid) for pid in read(group / "cgroup.procs").split())
        with contextlib.suppress(OSError):
            left += [Path(entry) for entry in os.scandir(group) if entry.is_dir()]
    return [pid for pid in found if pid > 0]
