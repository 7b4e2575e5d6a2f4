"""Lab hosts as namespaces of their own, joined by a bridge. Root on Linux; util-linux and iproute2.

    switch (a network namespace)          bridge "lan", no address, no way out
      ├─ veth h1 ── eth0 10.x.y.1  h1 (PID, mount, UTS and network namespace; its own /proc)
      └─ veth h2 ── eth0 10.x.y.2  h2 …

Only a `sleep` holds each namespace: kill it and the kernel removes the namespace, the veth and, for
a host, every process inside. Nothing is made in the machine's own network namespace.

A cut is a permanent neighbour entry with a link address that nobody has, on both sides: the bridge
silently drops all packets, also those of existing connections, like a pulled cable. (A blackhole
route makes connect() fail at once, and not every machine has packet filters.)
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from lbd.errors import LbdError
from lbd.lab.processes import stat
from lbd.lab.record import Process
from lbd.load.process_table import pids

TOOLS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2"}
NOBODY = "02:00:00:00:00:ff"
START_TIMEOUT_S = 10.0
POLL_S = 0.01
# A host's PID 1, with directories of its own. It ignores CHLD, so the kernel reaps orphans.
INIT = (
    'echo "$0" > /proc/sys/kernel/hostname; '
    'for place; do mount -t tmpfs -o "$(stat -c mode=%a,uid=%u,gid=%g "$place")" '
    'lbd-lab "$place" || exit; done; '
    "exec env --ignore-signal=CHLD sleep infinity"
)


def search_path() -> str:
    """Returns PATH with the administrator's directories, which a plain shell may lack."""
    return os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"


def why_not() -> str:
    """Returns why this machine cannot make namespaces, "" if it can."""
    if os.geteuid() != 0:
        return "namespaces need root"
    missing = [tool for tool in TOOLS if shutil.which(tool, path=search_path()) is None]
    if missing:
        packages = " ".join(sorted({TOOLS[tool] for tool in missing}))
        return f"{', '.join(missing)} not found; install {packages}"
    trial = run(["unshare", "--mount", "--uts", "--net", "--pid", "--fork", "true"])
    return f"this machine does not let us make namespaces: {trial}" if trial else ""


def run(command: Sequence[str], text: str = "") -> str:
    """Runs a tool. Returns "" or the first line of its complaint."""
    result = subprocess.run(
        command, input=text, text=True, capture_output=True, check=False,
        env={**os.environ, "PATH": search_path()},
    )  # fmt: skip
    if result.returncode == 0:
        return ""
    return (result.stderr.strip().splitlines() or [f"{command[0]} failed"])[0]


def ip_inside(pid: int, lines: Sequence[str], force: bool = False) -> str:
    """Runs `ip` commands in the network namespace of `pid`. Returns "" or the first complaint."""
    words = ["nsenter", "-t", str(pid), "-n", "ip", *(["-force"] if force else []), "-batch", "-"]
    return run(words, "\n".join(lines) + "\n")


def make_switch(environment: Mapping[str, str]) -> Process:
    """Returns the process that holds the switch, its bridge up. Raises LbdError."""
    holder = start(["unshare", "--net", "sleep", "infinity"], environment, Path(os.devnull))
    process = wait_for(holder, holder.pid)
    problem = ip_inside(process.pid, ["link add lan type bridge", "link set lan up"])
    if problem:
        raise LbdError(f"cannot make the lab's bridge: {problem}")
    return process


def make_host(
    name: str, address: str, switch: Process, environment: Mapping[str, str],
    join: Sequence[str], private: Sequence[str], log: Path,
) -> Process:  # fmt: skip
    """Returns PID 1 of a new host with its network up. Raises LbdError.

    The host joins the cgroups `join`. Each directory of `private` becomes an empty one of its own.
    """
    joining = "".join(f"echo 0 > '{group}/cgroup.procs'; " for group in join)
    unshare = [
        "unshare", "--mount", "--uts", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
        "--propagation", "slave", "sh", "-c", INIT, name, *private,
    ]  # fmt: skip
    holder = start(["sh", "-c", f'{joining}exec "$@"', "sh", *unshare], environment, log)
    process = wait_for(holder, None)
    connect(name, address, switch, process)
    return process


def connect(name: str, address: str, switch: Process, host: Process) -> None:
    """Connects the host to the switch. Raises LbdError."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    lines = [
        f"link add {name} type veth peer name eth0 netns {host.pid}",
        f"link set {name} master lan up",
    ]
    # The veth of this host's previous life disappears a moment after its last process.
    while problem := ip_inside(switch.pid, lines):
        if "exists" not in problem or time.monotonic() > deadline_s:
            raise LbdError(f"cannot connect {name} to the lab's bridge: {problem}")
        time.sleep(POLL_S)
    inner = ["link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up"]
    if problem := ip_inside(host.pid, inner):
        raise LbdError(f"cannot set up the network of {name}: {problem}")


def start(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> "subprocess.Popen[bytes]":
    with log.open("ab") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True, env={**environment, "PATH": search_path()},
        )  # fmt: skip


def wait_for(holder: "subprocess.Popen[bytes]", pid: int | None) -> Process:
    """Returns the `sleep` process once it has started: `pid`, or else the child of the holder.
    Raises LbdError."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        for candidate in [pid] if pid else children(holder.pid):
            entry = stat(candidate)
            if entry and command_name(candidate) == "sleep":
                return entry.process
        if holder.poll() is not None:
            break
        time.sleep(POLL_S)
    raise LbdError(f"cannot make namespaces ({holder.args!r} ended with {holder.poll()})")


def children(parent: int) -> list[int]:
    return [pid for pid in pids() if (entry := stat(pid)) and entry.parent == parent]


def command_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def set_cuts(host: Process, was: Sequence[str], now: Sequence[str]) -> None:
    """Makes exactly the addresses `now` unreachable from this host. Raises LbdError."""
    freed = [f"neigh del {address} dev eth0" for address in was if address not in now]
    lost = [f"neigh replace {a} lladdr {NOBODY} nud permanent dev eth0" for a in now]
    if freed:
        ip_inside(host.pid, freed, force=True)  # an entry that is missing counts as removed
    if lost and (problem := ip_inside(host.pid, lost)):
        raise LbdError(f"cannot cut: {problem}")
