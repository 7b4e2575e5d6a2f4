"""What a lab costs, read from outside it: CPU time from /proc and the cgroups, bytes from `ss`.

The kernel counts the payload of each TCP connection; its port tells which daemon it belongs to.
Connections last far longer than a run; the bytes of one that closed meanwhile are missing.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lbd.errors import LbdError
from lbd.lab import hosts
from lbd.lab.lab import ports_of
from lbd.lab.namespaces import search_path
from lbd.lab.record import Record
from lbd.load import cgroup, process_table, procfs
from lbd.local.json_socket import Json, ask

ASK_S = 5.0
PATIENCE_S = 10.0
SENT = re.compile(r"bytes_sent:(\d+)")
RECEIVED = re.compile(r"bytes_received:(\d+)")


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of one host since its start."""

    cpu_s: float
    lim_cpu_s: float
    lbm_cpu_s: float
    messages: int
    connections: dict[str, tuple[str, int]] = field(default_factory=dict)  # name -> daemon, bytes
    knows_bytes: bool = False


def read_host(record: Record, host: str, keeper: int) -> Reading:
    """Reads the host's counters. `keeper` is the keeper's pid."""
    lim, lbm = (record.processes[f"{host}/{daemon}"].pid for daemon in ("lim", "lbm"))
    counters = ask(record.plan.paths(host).socket("lim"), {"op": "counters"}, ASK_S)
    ports = ports_of(record.plan.settings)
    connections = host_connections(record.processes[host].pid, ports)
    return Reading(
        cpu_s=group_cpu_s(record.cgroups, host),
        lim_cpu_s=process_cpu_s(lim),
        lbm_cpu_s=process_cpu_s(lbm) + process_cpu_s(keeper),
        messages=summed(counters, "messages_in") + summed(counters, "messages_out"),
        connections=connections or {},
        knows_bytes=connections is not None,
    )


def read_all(record: Record) -> dict[str, Reading]:
    keepers = hosts.keepers(record)
    missing = [host for host in record.plan.hosts if host not in keepers]
    if missing:
        raise LbdError(f"the keeper of {missing[0]} is gone; its log is in {record.plan.root}")
    return {host: read_host(record, host, keepers[host].pid) for host in record.plan.hosts}


def bytes_between(before: Reading, after: Reading, daemon: str) -> int:
    """Returns -1 if the number is not known."""
    if not (before.knows_bytes and after.knows_bytes):
        return -1
    return sum(
        count - before.connections.get(name, ("", 0))[1]
        for name, (whose, count) in after.connections.items()
        if whose == daemon
    )


def summed(counters: Json, name: str) -> int:
    found = counters.get(name)
    return sum(int(value) for value in found.values()) if isinstance(found, dict) else 0


def process_cpu_s(pid: int) -> float:
    """Returns the CPU time of the process without its children; 0 if it is gone."""
    task = process_table.task_of(pid)
    return task.cpu_ticks / procfs.TICKS_PER_S if task is not None else 0.0


def group_cpu_s(groups: tuple[str, ...], host: str) -> float:
    """Returns the CPU time of all that ever ran in the host's cgroup; 0 if not counted."""
    counted = (cgroup.cpu_used_s(Path(group, host)) for group in groups)
    return next((used_s for used_s in counted if used_s is not None), 0.0)


def host_connections(pid: int, ports: Mapping[str, int]) -> dict[str, tuple[str, int]] | None:
    """Returns the connections of this process's network namespace; None if `ss` cannot say."""
    path = search_path()
    tool = shutil.which("ss", path=path)
    if tool is None:
        return None
    words = ["nsenter", "-t", str(pid), "-n", tool, "-tinHO", "state", "established"]
    try:
        result = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
            env={**os.environ, "PATH": path},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    return connections_of(result.stdout, ports) if result.returncode == 0 else None


def connections_of(text: str, ports: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """Parses lines of `ss`: queues, our address, the peer's, then the kernel's counters. `ports` is
    by daemon."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 4:
            continue
        ours, theirs = words[2], words[3]
        for end in (ours, theirs):
            daemon = next((name for name, port in ports.items() if end.endswith(f":{port}")), "")
            if daemon:
                count = sum(int(m[1]) for m in (SENT.search(line), RECEIVED.search(line)) if m)
                found[f"{ours} {theirs}"] = (daemon, count)
                break
    return found
