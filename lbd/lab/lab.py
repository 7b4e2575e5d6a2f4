"""Starts a lab, changes it and shows its state. `removal.py` takes it down.

`up` records what it will make before it makes it. A second `lbd lab` command on the same lab waits
for the first.
"""

import contextlib
import os
import random
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lbd.config import load as config_file
from lbd.errors import ConfigError, LbdError
from lbd.lab import cgroups, hosts, loopback, namespaces, processes
from lbd.lab.plan import (
    DAEMONS,
    Plan,
    cgroup_name,
    check_algorithm,
    check_host_settings,
    check_private,
    check_root,
    choose_subnet,
    host_names,
    parse_setting,
    share_of_machine,
)
from lbd.lab.readiness import POLL_S, READY_S, Progress, wait_for_all, whats_missing
from lbd.lab.record import PATIENCE_S, Record, load, locked, record_file, save
from lbd.lab.removal import take_down
from lbd.local.json_socket import Json
from lbd.text.spelling import hint
from lbd.trust.files import authority_dir, host_files, write_private

SEEN_S = 10.0  # for the other hosts to notice that this one was restarted
DEAD_TIMEOUT_S = 5.0
SHARED = Path(config_file.SYSTEM_DIRS[0]) / "lab"  # root's, which serves all users


def make_plan(
    root: Path,
    count: int,
    cpus: float | None,
    isolate: str,
    algorithm: str,
    settings: tuple[str, ...],
    private: tuple[Path, ...] = (),
    tls: bool = False,
    host_settings: tuple[str, ...] = (),
) -> tuple[Plan, str]:
    """Returns the plan, and a remark on what was chosen ("" if none is needed). Raises ConfigError
    for bad input, LbdError if this machine cannot do it."""
    names = host_names(count)
    check_root(root, names)
    check_algorithm(algorithm)
    if cpus is not None and not 0.01 <= cpus <= 4096:
        raise ConfigError(f"--cpus {cpus:g}: from 0.01 to 4096")
    for setting in settings:
        parse_setting(setting)
    check_host_settings(host_settings, names)
    remark = ""
    if isolate != "none":
        obstacle = namespaces.why_not()
        if obstacle and isolate == "namespaces":
            raise LbdError(f"--isolate namespaces: {obstacle}")
        if obstacle and os.geteuid() == 0:
            remark = f"{obstacle}; the hosts share this machine's processes and network"
        isolate = "none" if obstacle else "namespaces"
    cores = cpus or 0.0
    if isolate == "namespaces" and not cores:
        cores = share_of_machine(len(os.sched_getaffinity(0)), count)
    rng = random.Random()
    if isolate == "none":
        subnet = loopback.free_subnet(count, list(ports_of(settings).values()), rng)
    else:
        subnet = choose_subnet(isolate, rng)
    is_root = os.geteuid() == 0
    check_private(private, isolate, must_see(root))
    own = tuple(map(str, private))
    tls = tls or isolate == "namespaces"  # plain transport is only for loopback
    plan = Plan(
        root, names, isolate, subnet, cores, algorithm, settings, is_root, own, tls, host_settings
    )
    return plan, remark


def must_see(root: Path) -> dict[str, Path]:
    """Returns the files of this machine that every host needs, by what they are for."""
    package = Path(config_file.__file__).resolve().parent
    return {"the lab": root, "lbd": package, "Python": Path(sys.prefix).resolve()}


def ports_of(settings: tuple[str, ...]) -> dict[str, int]:
    """Returns the ports by the daemon's section of the configuration."""
    ports = {"lim": 7901, "lbm": 7902, "dispatch": 7903}
    for section, key, value in map(parse_setting, settings):
        if section in ports and key == "port" and isinstance(value, int):
            ports[section] = value
    return ports


def up(plan: Plan, say: hosts.Say, progress: Progress, *, made_above: bool = False) -> Record:
    """Starts the lab; returns once every host sees every other. Undoes everything on an error.

    `made_above`: the directory above the lab's was made for it.
    """
    root = plan.root
    made_above = made_above or not root.parent.exists()
    made_root = not root.exists()
    try:
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as problem:
        raise ConfigError(f"--dir {root}: cannot make it: {problem.strerror}") from problem
    with locked(root, PATIENCE_S):
        if record_file(root).exists():
            raise LbdError(f"there is already a lab in {root}; `lbd lab down` removes it")
        in_the_way = [name for name in (*plan.hosts, "key") if (root / name).exists()]
        if in_the_way:
            raise LbdError(f"--dir {root}: {in_the_way[0]} is in the way")
        record = Record(plan, made_root, made_above, cgroups=cgroups.plan(cgroup_name(root)))
        try:
            record = build(record, say, progress)
        except BaseException:
            take_down(root, record)
            raise
    return record


def build(record: Record, say: hosts.Say, progress: Progress) -> Record:
    plan = record.plan
    try:
        save(record)
        for host in plan.hosts:
            hosts.write_files(record, host)
        if plan.tls:
            make_certificates(plan)
        else:
            write_private(plan.key_file, secrets.token_hex(32).encode() + b"\n")
    except OSError as problem:
        raise LbdError(f"--dir {plan.root}: {problem.strerror}: {problem.filename}") from problem
    config_file.load(str(plan.paths(plan.hosts[0]).config), plan.settings)
    if plan.isolate == "namespaces":
        environment = processes.environment(plan.root, "", "switch")
        record = record.with_process("switch", namespaces.make_switch(environment))
        save(record)
    for host in plan.hosts:
        record = hosts.power_on(record, host, say)
        progress()
    for daemon in DAEMONS:
        for host in plan.hosts:
            if daemon in plan.daemons(host):
                record = hosts.start_daemon(record, host, daemon)
                progress()
    wait_for_all(record, say, progress)
    record = replace(record, ready=True)
    save(record)
    return record


def make_certificates(plan: Plan) -> None:
    """Makes an authority on the first host, and the certificates that joining would give."""
    from lbd.trust.authority import Authority
    from lbd.trust.enrol import enrol

    configs = [config_file.load(str(plan.paths(host).config)) for host in plan.hosts]
    first, now_s = configs[0], time.time()
    authority = Authority(authority_dir(first), first.tls.certificate_s)
    authority.create(first.cluster.name, first.host.name, now_s)
    target = f"{first.host.address}:{first.lim.port}"
    for config in configs:
        enrol(authority, host_files(config), config.host.name, target, now_s)


@contextlib.contextmanager
def changing(root: Path) -> Iterator[Record]:
    """Yields the record of the lab in `root`, locked for a change. Raises LbdError if none."""
    existing(root)
    with locked(root, PATIENCE_S):
        yield existing(root)


def existing(root: Path) -> Record:
    record = load(root)
    if record is None:
        why = f"there is no lab in {root}; `lbd lab up` creates one"
        raise LbdError("; ".join(filter(None, (why, of_root(root, SHARED)))))
    if not record.ready:
        raise LbdError(
            f"the lab in {root} is not up; unless it is just starting, run `lbd lab down`"
        )
    return record


def of_root(root: Path, shared: Path) -> str:
    """Returns how to act in root's lab, for a user who looks for it elsewhere; "" if there is
    none."""
    if root == shared or not os.path.exists(record_file(shared)):
        return ""
    enter = "lbd lab exec HOST -- runuser -u USER -- COMMAND"
    return f"root's lab is in {shared}, where users act by `{enter}`, typed by root"


def check_host(record: Record, host: str) -> None:
    if host not in record.plan.hosts:
        raise ConfigError(f"there is no host {host!r} in this lab; {hint(host, record.plan.hosts)}")


def kill(root: Path, host: str, what: str, number: int) -> str:
    """Sends signal `number` to a daemon, the keeper, or all of a host (KILL: power-off)."""
    with changing(root) as record:
        check_host(record, host)
        if what == "host":
            if not hosts.is_on(record, host):
                raise LbdError(f"{host} is already powered off")
            if number == signal.SIGKILL:
                hosts.power_off(record, host)
                return f"{host} powered off"
            for member in hosts.members(record, host):
                processes.send(member, number)
            return f"{host}: {signal.Signals(number).name} sent to all its processes"
        known = record.processes.get(f"{host}/{what}")
        process = hosts.keepers(record).get(host) if what == "keeper" else known
        if process is None or not processes.send(process, number):
            raise LbdError(f"{what} is not running on {host}")
        if number == signal.SIGKILL and not processes.wait_until_dead(process, DEAD_TIMEOUT_S):
            raise LbdError(f"{host} {what} (pid {process.pid}) was killed but does not end")
    return f"{host} {what}: {signal.Signals(number).name} sent to pid {process.pid}"


def start(root: Path, host: str, daemon: str | None, say: hosts.Say) -> str:
    """Starts the daemons of a host that are not running: all of them, or one."""
    with changing(root) as record:
        check_host(record, host)
        was_off = not hosts.is_on(record, host)
        if was_off:
            record = hosts.power_on(record, host, say)
        started = []
        for name in [daemon] if daemon else record.plan.daemons(host):
            state = hosts.daemon_state(record, host, name)
            if state == "stopped":
                raise LbdError(f"{name} of {host} is stopped; `lbd lab kill {host} {name} -s CONT`")
            if state == "dead":
                record = hosts.start_daemon(record, host, name)
                started.append(name)
        for name in started:
            hosts.wait_ready(record, host, name, READY_S)
        for complaint in hosts.set_cuts(record, host, []):
            say(complaint)
        wait_seen(record, host, say)
    if not started:
        return f"{host}: {daemon or 'all'} already running"
    return f"{host}: {' and '.join(started)} started"


def wait_seen(record: Record, host: str, say: hosts.Say) -> None:
    """Waits until the hosts that can reach this one see it again, but no longer than `SEEN_S`."""
    deadline_s = time.monotonic() + SEEN_S
    has_lbm = hosts.daemon_state(record, host, "lbm") == "running"
    cut_off = record.peers_cut_from(host)
    peers = [
        peer
        for peer in record.plan.hosts
        if peer not in cut_off and hosts.daemon_state(record, peer, "lim") == "running"
    ]
    for peer in peers:
        while missing := whats_missing(record, peer, [host], has_lbm):
            if time.monotonic() > deadline_s:
                say(f"{peer} {missing}")
                break
            time.sleep(POLL_S)


def cut(root: Path, a: str, b: str, say: hosts.Say) -> None:
    """Blocks all traffic between these two hosts until `heal`."""
    with changing(root) as record:
        for host in (a, b):
            check_host(record, host)
        if a == b:
            raise ConfigError(f"cut {a} {b}: two different hosts")
        pair = (a, b) if a < b else (b, a)
        change_cuts(record, (*(c for c in record.cuts if c != pair), pair), say)


def heal(root: Path, say: hosts.Say) -> int:
    """Undoes every cut. Returns how many there were."""
    with changing(root) as record:
        change_cuts(record, (), say)
        return len(record.cuts)


def change_cuts(record: Record, cuts: tuple[tuple[str, str], ...], say: hosts.Say) -> None:
    changed = replace(record, cuts=cuts)
    save(changed)
    for host in record.plan.hosts:
        was = record.peers_cut_from(host)
        if was != changed.peers_cut_from(host):
            for complaint in hosts.set_cuts(changed, host, was):
                say(complaint)


def status(root: Path) -> Json:
    """Returns the lab as it is now: `lbd lab status --json`."""
    record = existing(root)
    plan = record.plan
    rows = []
    keepers = hosts.keepers(record)
    for host in plan.hosts:
        keeper = keepers.get(host)
        daemons = {
            daemon: {
                "pid": process.pid
                if (process := record.processes.get(f"{host}/{daemon}"))
                else None,
                "state": hosts.daemon_state(record, host, daemon),
            }
            for daemon in plan.daemons(host)
        }
        daemons["keeper"] = {
            "pid": keeper.pid if keeper else None, "state": processes.state_of(keeper)
        }  # fmt: skip
        rows.append(
            {
                "name": host,
                "address": plan.address(host),
                "power": "on" if hosts.is_on(record, host) else "off",
                "daemons": daemons,
                "cut_from": record.peers_cut_from(host),
            }
        )
    return {
        "schema": 1,
        "dir": str(root),
        "isolate": plan.isolate,
        "cores": plan.cores,
        "hosts": rows,
        "cuts": [list(pair) for pair in record.cuts],
    }
