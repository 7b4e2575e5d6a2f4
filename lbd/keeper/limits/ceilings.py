"""Memory, process and CPU limits of each job and of all jobs together: by cgroup of either version,
else by rlimits.

In version 2 a group can have limits only if each group above it delegates the controllers, which a
group with processes of its own may not do. So the keeper moves into a leaf, if it is alone in the
group delegated to it. In version 1 each controller has a tree of its own; a job joins it only for a
limit, because joining costs milliseconds.
"""

import contextlib
import os
import re
import resource
import stat
from dataclasses import dataclass, field
from pathlib import Path

from lbd.keeper.limits.user_groups import UserGroups
from lbd.load import cgroup
from lbd.load.procfs import read_small

CONTROLLERS = ("memory", "pids", "cpu")
PERIOD_US = 100_000
V1_SHARES = 1024  # cpu.shares for weight 100
WEIGHT = 100
# No read permission for others: readdir holds the directory's lock for as long as a page of the
# reader's is not answered, and making or removing a group needs that lock.
GROUP_MODE = 0o711
KILLS = re.compile(rb"^oom_kill ([0-9]+)", re.MULTILINE)
NONE, BY_RLIMIT, BY_NICE = "none", "rlimit", "nice"


@dataclass(frozen=True, slots=True)
class Totals:
    """Limits of all jobs together; 0 = no limit."""

    memory_bytes: int = 0
    cpu_weight: int = WEIGHT
    cpus: float = 0.0


def pack_totals(totals: Totals) -> bytes:
    return f"{totals.memory_bytes} {totals.cpu_weight} {totals.cpus}".encode()


def read_totals(packed: bytes) -> Totals:
    """Raises ValueError."""
    memory_bytes, weight, cpus = packed.split()
    return Totals(int(memory_bytes), int(weight), float(cpus))


@dataclass(slots=True)
class Ceiling:
    """What is left for a job's first process to do for its limits."""

    trees: set[str]
    group: str  # where it is then: it may have moved
    joined: list[str] = field(default_factory=list)  # files to which it writes its pid
    # resource and maximum; used without a cgroup
    limits: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Ceilings:
    """`groups`: where jobs get groups of their own, by controller; `version`: that of each."""

    groups: dict[str, Path] = field(default_factory=dict)
    version: dict[str, int] = field(default_factory=dict)
    # trees that every job joins for the totals
    total_trees: list[str] = field(default_factory=list)
    users: UserGroups | None = None

    @classmethod
    def find(
        cls, name: str, base: Path | None, found: list[cgroup.Hierarchy], readers: int
    ) -> "Ceilings":
        """`base`: the group whose subgroups hold jobs' processes."""
        ceilings = cls()
        for hierarchy in found:
            if hierarchy.version == 2 and base is not None and base.is_relative_to(hierarchy.own):
                for controller in handed_down(hierarchy.own, base):
                    ceilings._add(controller, base, 2)
            for controller in hierarchy.controllers & set(CONTROLLERS):
                own = base
                if base is None or not base.is_relative_to(hierarchy.own):
                    own = usable(hierarchy.own / name, readers)
                if own is not None:
                    ceilings._add(controller, own, 1)
        if "memory" in ceilings.groups:
            ceilings.users = UserGroups(ceilings.groups["memory"], ceilings.version["memory"])
        return ceilings

    @property
    def limits_all(self) -> bool:
        """Whether every job has something to do for the totals."""
        return bool(self.total_trees or (self.users is not None and self.users.limit_bytes))

    def _add(self, controller: str, group: Path, version: int) -> None:
        self.groups[controller], self.version[controller] = group, version

    def described(self) -> str:
        """Says how each resource is limited: "memory=cgroup1 pids=rlimit cpu=nice"."""
        without = {"memory": BY_RLIMIT, "pids": BY_RLIMIT, "cpu": BY_NICE}
        ways = (
            f"{name}=" + (f"cgroup{self.version[name]}" if name in self.groups else without[name])
            for name in CONTROLLERS
        )
        return " ".join(ways)

    def directories(self, base: Path | None) -> list[Path]:
        """Returns our own directories other than `base`."""
        return sorted({group for group in self.groups.values() if group != base})

    def set_totals(self, totals: Totals) -> None:
        """Sets the totals. Those that cannot be set are ignored silently: `described` says which
        can."""
        self.total_trees = self._trees_of(totals)
        if "memory" in self.groups:
            self._write("memory", "memory.max", "memory.limit_in_bytes", totals.memory_bytes or -1)
        if self.users is not None:
            self.users.set_total(totals.memory_bytes)
        if "cpu" in self.groups:
            shares = max(2, totals.cpu_weight * V1_SHARES // WEIGHT)
            quota = int(totals.cpus * PERIOD_US) or -1
            if self.version["cpu"] == 2:
                put(self.groups["cpu"] / "cpu.weight", str(totals.cpu_weight))
                limit = "max" if quota < 0 else str(quota)
                put(self.groups["cpu"] / "cpu.max", f"{limit} {PERIOD_US}")
            else:
                put(self.groups["cpu"] / "cpu.shares", str(shares))
                put(self.groups["cpu"] / "cpu.cfs_quota_us", str(quota))

    def _write(self, controller: str, second: str, first: str, value: int) -> None:
        if self.version[controller] == 2:
            put(self.groups[controller] / second, "max" if value < 0 else str(value))
        else:
            put(self.groups[controller] / first, str(value))

    def _trees_of(self, totals: Totals) -> list[str]:
        wanted = {
            "memory": totals.memory_bytes != 0,
            "cpu": totals.cpu_weight != WEIGHT or totals.cpus != 0,
        }
        return [name for name, asked in wanted.items() if asked and self.version.get(name) == 1]

    def prepare(self, group: str, uid: int, memory_bytes: int, processes: int) -> "Ceiling":
        """Sets up the limits of a job of that user before it has a process. Raises OSError."""
        name = os.path.basename(group)
        ceiling = Ceiling(set(self.total_trees), group)
        if name and self.users is not None and self.users.limit_bytes:
            own = self.users.place(name, uid, GROUP_MODE)
            if self.version["memory"] == 2:
                ceiling.group = str(own)
                ceiling.joined.append(str(own / "cgroup.procs"))
        if memory_bytes:
            self._limit_memory(name, memory_bytes, ceiling)
        if processes:
            self._limit_processes(name, processes, ceiling)
        for tree in ceiling.trees:
            own = self._own(tree, name)
            own.mkdir(GROUP_MODE, exist_ok=True)
            ceiling.joined.append(str(own / "cgroup.procs"))
        return ceiling

    def forget(self, group: str) -> None:
        """Removes what a job has had within its user's group."""
        if self.users is not None:
            self.users.forget(os.path.basename(group))

    def _own(self, controller: str, name: str) -> Path:
        """Returns the directory with a job's limits."""
        base = self.groups[controller]
        own = self.users.of(name) if self.users is not None and base == self.users.base else None
        return own or (base / name if name else base)

    def _limit_memory(self, name: str, limit_bytes: int, ceiling: "Ceiling") -> None:
        if "memory" not in self.groups or not name:
            ceiling.limits.append((resource.RLIMIT_DATA, limit_bytes))
            return
        own = self._own("memory", name)
        own.mkdir(GROUP_MODE, exist_ok=True)
        if self.version["memory"] == 2:
            (own / "memory.max").write_text(str(limit_bytes))
            put(own / "memory.swap.max", "0")
            put(own / "memory.oom.group", "1")
        else:
            (own / "memory.limit_in_bytes").write_text(str(limit_bytes))
            put(own / "memory.memsw.limit_in_bytes", str(limit_bytes))
            ceiling.trees.add("memory")

    def _limit_processes(self, name: str, count: int, ceiling: "Ceiling") -> None:
        if "pids" not in self.groups or not name:
            ceiling.limits.append((resource.RLIMIT_NPROC, count))
            return
        own = self._own("pids", name)
        own.mkdir(GROUP_MODE, exist_ok=True)
        (own / "pids.max").write_text(str(count))
        if self.version["pids"] == 1:
            ceiling.trees.add("pids")

    def was_over(self, group: str) -> bool:
        """Returns whether the kernel has killed a process of the job for its memory."""
        if "memory" not in self.groups or not group:
            return False
        own = self._own("memory", os.path.basename(group))
        file = "memory.events" if self.version["memory"] == 2 else "memory.oom_control"
        with contextlib.suppress(OSError):
            found = KILLS.search(read_small(str(own / file)))
            return found is not None and int(found[1]) > 0
        return False


def handed_down(own: Path, base: Path) -> list[str]:
    """Returns the controllers of groups in `base`, after trying to delegate those of `own`."""
    asked = "".join(f"+{name} " for name in controllers_of(own / "cgroup.controllers"))
    if not asked:
        return []
    leaf = own / f"{base.name}-keeper"
    is_root = not (own / "cgroup.type").exists()
    with contextlib.suppress(OSError):
        if not is_root:
            leaf.mkdir(GROUP_MODE, exist_ok=True)
            put(leaf / "cgroup.procs", str(os.getpid()))
        put(own / "cgroup.subtree_control", asked.strip())
        put(base / "cgroup.subtree_control", asked.strip())
    found = controllers_of(base / "cgroup.subtree_control")
    if not found and not is_root:
        put(own / "cgroup.procs", str(os.getpid()))
        with contextlib.suppress(OSError):
            leaf.rmdir()
    return found


def controllers_of(file: Path) -> list[str]:
    try:
        found = file.read_text().split()
    except OSError:
        return []
    return [name for name in CONTROLLERS if name in found]


def usable(directory: Path, readers: int) -> Path | None:
    """Creates a directory and returns it if processes can be moved into it, else None; see
    GROUP_MODE. `readers`: the group that may count what runs there; -1: only the keeper."""
    try:
        directory.mkdir(exist_ok=True)
        os.chown(directory, -1, readers)
        directory.chmod(GROUP_MODE if readers < 0 else GROUP_MODE | stat.S_IRGRP)
        if os.access(directory / "cgroup.procs", os.W_OK):
            return directory
        directory.rmdir()
    except OSError:
        pass
    return None


def put(file: Path, text: str) -> bool:
    try:
        file.write_text(text)
    except OSError:
        return False
    return True


def join(group: Path) -> None:
    descriptor = os.open(group / "cgroup.procs", os.O_WRONLY)
    try:
        os.write(descriptor, b"0")
    finally:
        os.close(descriptor)


def nice_of(cpu_weight: int, nice: int) -> int:
    """Returns the nice value nearest to a CPU weight: each step is worth a quarter of CPU time."""
    steps, weight = 0, float(WEIGHT)
    while weight > cpu_weight and steps < 19:
        weight /= 1.25
        steps += 1
    return min(19, nice + steps)
