"""One lab host: powering it on and off, starting its daemons, cutting its connections.

Both kinds of isolation look the same from here: `Entrance` says how a process gets inside.
"""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

from lbd.errors import LbdError, Unavailable
from lbd.lab import cgroups, loopback, namespaces, processes
from lbd.lab.plan import (
    DAEMONS,
    Entrance,
    HostPaths,
    enter_script,
    exports,
    host_sections,
    keeping,
    owner_only,
    powered_off_script,
    program_script,
    toml,
)
from lbd.lab.record import Process, Record, record_file, save
from lbd.local.json_socket import Refusal, ask
from lbd.local.own_lab import belongs_to_another
from lbd.process import self_start
from lbd.process.whole_file import write_whole

PROGRAMS = ("lbrun", "lbsh", "lbctl")
KEEPER = b"lbd.keeper.loop"
ENTER = Path(__file__).with_name("enter.py")
ASK_TIMEOUT_S = 2.0
POLL_S = 0.05
CRASH_LINES, CRASH_SHOWN = 200, 12

Say = Callable[[str], None]


def write_files(record: Record, host: str) -> None:
    """Writes the host's directories and configuration."""
    paths = record.plan.paths(host)
    for directory in (paths.root, paths.run, paths.state, paths.bin):
        directory.mkdir(mode=0o755, exist_ok=True)
    paths.config.write_text(toml(host_sections(record.plan, host)), encoding="utf-8")


def power_on(record: Record, host: str, say: Say) -> Record:
    """Makes the host's cgroups, namespaces, network and scripts, but starts no daemon."""
    plan = record.plan
    paths = plan.paths(host)
    groups, limited = cgroups.make(record.cgroups, host, plan.cores)
    if plan.cores and not limited and host == plan.hosts[0]:
        say(f"cannot set CPU quotas here: hosts only claim to have {plan.cores:g} cores")
    pid = None
    if plan.isolate == "namespaces":
        switch = record.processes["switch"]
        environment = processes.environment(plan.root, host, "host")
        process = namespaces.make_host(
            host, plan.address(host), switch, environment, groups, plan.private, paths.log("host")
        )
        record = record.with_process(host, process)
        save(record)
        pid = process.pid
    write_scripts(paths, host, Entrance(groups, pid), isolated=pid is not None)
    return record


def write_scripts(paths: HostPaths, host: str, entrance: Entrance, isolated: bool) -> None:
    root = paths.root.parent
    denied = owner_only(root, host)
    steps = entrance.steps(sys.executable, ENTER, denied=denied)
    kept = keeping(sys.executable, ENTER)
    write_script(paths.enter, enter_script(host, root, steps, kept))
    spawn = entrance.steps(sys.executable, ENTER, ("--spawn",), denied)
    write_script(paths.root / "spawn", f"#!/bin/sh\n{spawn}\n")
    if isolated:
        for program in PROGRAMS:
            installed = shutil.which(program, path=search_path(root))
            if installed:
                script = program_script(host, root, steps, kept, installed)
                write_script(paths.bin / program, script)


def write_script(path: Path, text: str) -> None:
    """Replaces the script atomically, because it may be about to run."""
    write_whole(path, text.encode(), 0o755)


def programs() -> list[str]:
    """Returns the directory where `lbrun` and `lbctl` were installed with us, to come first in
    PATH.

    Empty if we run from a source tree and the caller already has them in PATH.
    """
    if self_start.from_source() and shutil.which("lbctl"):
        return []
    return [sysconfig.get_path("scripts")]


def search_path(root: Path) -> str:
    """Returns our PATH with those programs first, and without any host's wrappers for them."""
    entries = [*programs(), *os.environ.get("PATH", os.defpath).split(":")]
    return ":".join(entry for entry in entries if Path(entry).parent.parent != root)


def is_on(record: Record, host: str) -> bool:
    if record.plan.isolate == "namespaces":
        return processes.state_of(record.processes.get(host)) != "dead"
    return (record.plan.paths(host).root / "spawn").exists()


def members(record: Record, host: str) -> list[Process]:
    """Returns every process of the host, however it was started."""
    found = [f.process for f in processes.find(record.plan.root) if f.host == host]
    spared = processes.own_line()
    inside = cgroups.members([f"{group}/{host}" for group in record.cgroups])
    found += [process for process in inside if process.pid not in spared]
    return list(dict.fromkeys(found))


def power_off(record: Record, host: str) -> None:
    """Kills everything on the host at once; its files stay, as on a real disk.

    The daemons die first, so that they report nothing that happens afterwards, like on a real host.
    """
    holder = [record.processes[host]] if host in record.processes else []
    for process in holder:
        processes.send(process, signal.SIGKILL)  # the whole PID namespace ends with its PID 1
    for found in processes.find(record.plan.root):
        if found.host == host and found.part in DAEMONS:
            processes.send(found.process, signal.SIGKILL)
    processes.end_all(lambda: [*holder, *members(record, host)])
    cgroups.remove([f"{group}/{host}" for group in record.cgroups])
    paths = record.plan.paths(host)
    (paths.root / "spawn").unlink(missing_ok=True)
    off = powered_off_script(host, record.plan.root)
    for script in (paths.enter, *paths.bin.iterdir()):
        write_script(script, off)


def start_daemon(record: Record, host: str, daemon: str) -> Record:
    """Starts the daemon inside the host, in the background; its output goes to run/DAEMON.log."""
    plan = record.plan
    paths = plan.paths(host)
    command = self_start.command(daemon, "--config", str(paths.config))
    environment = self_start.environment(processes.environment(plan.root, host, daemon))
    result = subprocess.run(
        [paths.root / "spawn", paths.log(daemon), paths.root, *command],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env={**environment, "PATH": namespaces.search_path()},
    )  # fmt: skip
    if result.returncode != 0 or not result.stdout.strip().isdigit():
        raise LbdError(f"cannot start {daemon} on {host}: {result.stderr.strip()}")
    entry = processes.stat(int(result.stdout))
    # A daemon that has ended already says why in its log; its pid records that it was started.
    process = entry.process if entry else Process(int(result.stdout), 0)
    record = record.with_process(f"{host}/{daemon}", process)
    save(record)
    return record


def daemon_state(record: Record, host: str, daemon: str) -> str:
    return processes.state_of(record.processes.get(f"{host}/{daemon}"))


def keepers(record: Record) -> dict[str, Process]:
    """Returns each host's keeper, with or without a live LBM, found by its mark and program."""
    found = {
        f.process.pid: f
        for f in processes.find(record.plan.root)
        if f.part == "lbm" and KEEPER in processes.command_line(f.process.pid)
    }
    # Until they exec, a keeper's children are copies of it.
    return {f.host: f.process for f in found.values() if f.parent not in found}


def wait_ready(record: Record, host: str, daemon: str, timeout_s: float) -> None:
    """Waits until the daemon's socket accepts. Raises LbdError if it dies or takes too long."""
    deadline_s = time.monotonic() + timeout_s
    path = record.plan.paths(host).socket(daemon)
    while True:
        try:
            ask(path, {"op": "status"}, ASK_TIMEOUT_S)
        except Refusal:
            return
        except Unavailable as problem:
            said = str(problem)
        else:
            return
        if daemon_state(record, host, daemon) == "dead":
            raise LbdError(f"{host} {daemon} ended at once{log_tail(record, host, daemon)}")
        if time.monotonic() > deadline_s:
            raise LbdError(f"{host} {daemon}: {said}{log_tail(record, host, daemon)}")
        time.sleep(POLL_S)


def log_tail(record: Record, host: str, daemon: str) -> str:
    """Returns " (its log ends: …)", "" without a log. After a crash it quotes the error, not the
    last lines of the stack."""
    lines = processes.tail(record.plan.paths(host).log(daemon), CRASH_LINES)
    crash = [n for n, line in enumerate(lines) if line.startswith("Fatal Python error")]
    lines = lines[crash[-1] :][:CRASH_SHOWN] if crash else lines[-2:]
    return f" (its log ends: {' / '.join(lines)})" if lines else ""


def set_cuts(record: Record, host: str, was: list[str]) -> list[str]:
    """Applies the record's cuts to the host; `was` are the present ones. Returns complaints."""
    plan = record.plan
    peers = record.peers_cut_from(host)
    if plan.isolate == "none":
        return loopback.send_cuts([plan.paths(host).socket(d) for d in plan.daemons(host)], peers)
    if is_on(record, host):
        addresses = [plan.address(peer) for peer in peers]
        namespaces.set_cuts(record.processes[host], [plan.address(p) for p in was], addresses)
    return []


def client_path(record: Record, host: str) -> list[str]:
    """Returns the directories for a client's PATH."""
    own = [str(record.plan.paths(host).bin)] if record.plan.isolate == "namespaces" else []
    return [*own, *programs()]


def check_may_enter(record: Record, host: str) -> None:
    """Raises LbdError for a user who could not: each command would fail, and only then say why."""
    if whose := belongs_to_another(str(record_file(record.plan.root))):
        raise LbdError(whose)
    lists = [Path(group, host, "cgroup.procs") for group in record.cgroups]
    found = [one for one in lists if one.exists()]
    if found and not any(os.access(one, os.W_OK) for one in found):
        raise LbdError(owner_only(record.plan.root, host))


def env_text(record: Record, host: str) -> str:
    """Returns what `lbd lab env` prints. It sets no LBD_LAB, because `down` must not end the
    caller's own shell."""
    variables = {"LBD_CONFIG": str(record.plan.paths(host).config)}
    return exports(variables, client_path(record, host))


def inside_environment(record: Record, host: str) -> dict[str, str]:
    """Returns our environment with the host's marks, configuration and PATH."""
    marks = {processes.MARK: str(record.plan.root), processes.MARK_HOST: host}
    config = str(record.plan.paths(host).config)
    return {**os.environ, **marks, "LBD_CONFIG": config, "PATH": search_path(record.plan.root)}
