"""What `lbctl doctor` looks at on this host itself, without asking a daemon."""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import lbd
from lbd.cli.doctor_checks import FAULT, OK, WARN, Check, directory
from lbd.cli.privilege import ROOT, USERADD
from lbd.config import Config

LISTENING = "00010000"  # of /proc/net/unix
STOPPED = {"T": "stopped", "t": "held by a debugger", "Z": "dead"}


def host_checks(config: Config) -> Iterator[Check]:
    yield from rights(config)
    yield from privilege(config)
    yield from address(config)
    yield from second_daemons(config)
    if os.path.exists(config.stage.root):  # it is made when the first command needs it
        yield directory("stage directory", config.stage.root)
    yield from compiled_parts()


def rights(config: Config) -> Iterator[Check]:
    """Who else may write what the daemons go by."""
    places = {"configuration": config.path, "runtime directory": config.host.runtime_dir,
              "state directory": config.host.state_dir}  # fmt: skip
    for name, path in places.items():
        if not path or not os.path.exists(path):
            continue
        found = os.stat(path)
        if found.st_mode & stat.S_IWOTH:
            says = f"everybody may write {path}, and so decide what the daemons do"
            yield Check(f"{name} rights", FAULT, says, f"chmod o-w {path}")
        elif found.st_uid not in (0, *daemon_owner(config)) and name == "configuration":
            says = f"{path} belongs to user {found.st_uid}, the daemons to another"
            yield Check(f"{name} rights", FAULT, says, f"chown root {path}")


def privilege(config: Config) -> Iterator[Check]:
    """Whose processes the daemons that speak to the network are: their sockets' owner's."""
    sockets = {d: Path(config.host.runtime_dir, f"{d}.sock") for d in ("lim", "lbm", "dispatcher")}
    found = [d for d, path in sockets.items() if path.exists() and path.lstat().st_uid == 0]
    if not found:
        return
    says = f"{' and '.join(found)} run as root: a fault in what they read is root's"
    if config.daemons.user == ROOT:
        yield Check("privilege", OK, f"{says}; daemons.user says so")
    else:
        mend = f"stop them, {' '.join(USERADD)} where there is none, and start them by `lbd up`"
        yield Check("privilege", WARN, says, mend)


def daemon_owner(config: Config) -> tuple[int, ...]:
    """The users whose daemons these may be: who asks, and who made the runtime directory."""
    directory_owner = Path(config.host.runtime_dir)
    owner = (directory_owner.stat().st_uid,) if directory_owner.exists() else ()
    return (os.geteuid(), *owner)


def address(config: Config) -> Iterator[Check]:
    """Whether host.address is one of this machine's, so that a daemon may listen there."""
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            config.host.address, 0, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(target)
    except OSError as problem:
        if problem.errno == errno.EADDRNOTAVAIL:
            says = f"{config.host.address} is no address of this machine"
            mend = f"correct the address of {config.host.name} in cluster.hosts, or host.name"
            yield Check("address", FAULT, says, mend)


def second_daemons(config: Config) -> Iterator[Check]:
    """Two daemons that listen on one socket: the older one's clients will never come to it.

    Locks prevent that, unless somebody removes the locked files. The kernel lists a socket's name
    also when the file was removed or replaced.
    """
    try:
        rows = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    listening = [row.split()[7] for row in rows[1:] if row.split()[3:4] == [LISTENING]
                 and len(row.split()) > 7]  # fmt: skip
    for daemon in ("lim", "lbm"):
        path = str(Path(config.host.runtime_dir, f"{daemon}.sock"))
        if listening.count(path) > 1:
            says = f"{listening.count(path)} of them listen on {path}; only the newest is asked"
            mend = f"end the older: ss -xlp | grep {daemon}.sock shows their processes"
            yield Check(f"second {daemon.upper()}", FAULT, says, mend)


def compiled_parts() -> Iterator[Check]:
    """What is compiled where a compiler was; all else works without, only slower."""
    spare = Path(lbd.__path__[0], "lbm/spare")
    if not os.access(spare, os.X_OK):
        mend = "install a C compiler (Debian: gcc libc6-dev), then deploy/setup; restart the LBM"
        says = f"no {spare}: commands from other hosts start later"
        yield Check("compiled keeper", WARN, says, mend)


def keeper_state(pid: int) -> Iterator[Check]:
    """A keeper that does not run starts nothing, and the LBM waits for it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # of another PID namespace, or gone meanwhile
        return
    state = text.rpartition(")")[2].split()[0]
    if state in STOPPED:
        mend = f"kill -CONT {pid}" if state == "T" else "restart lbd lbm"
        yield Check("keeper", FAULT, f"process {pid} is {STOPPED[state]}: no job starts", mend)
