"""`lbctl restart`: replaces daemons of this host by new ones without disturbing commands.

A pid file counts only for processes of the user who wrote it. The authority runs as root and has no
file there: the kernel tells which process listens on its socket.
"""

import argparse
import os
import shlex
import signal
import time
from pathlib import Path

from lbd.cli.ctl.own_config import is_labs
from lbd.cli.ctl.startable import failure, obstacles
from lbd.cli.ctl.verb import Verb, asking
from lbd.cli.program import Parser
from lbd.config.cluster import overlaid
from lbd.config.load import SYSTEM_DIRS
from lbd.console.daemons import Absent, Daemons
from lbd.console.output import print_json, put
from lbd.console.starting import is_of_unit, pid_in
from lbd.errors import ConfigError, LbdError, Unavailable
from lbd.keeper.gate import find_account
from lbd.load.process_table import task_of
from lbd.local.caller import caller_of
from lbd.local.json_socket import Json, Refusal, ask, connected
from lbd.local.starting import has_units
from lbd.process.accounts import DEFAULT
from lbd.process.units import said_by, unit_of

ALWAYS = ("lim", "lbm")
DAEMONS = ("authority", *ALWAYS, "dispatcher", "metrics", "web")
WEB_UNIT = "lbd-web.service"
NOT_HERE = "the queue is not on this host"
RETURN_S = 30.0
POLL_S = 0.05
ANSWER_S = 5.0


def add_options(parser: Parser) -> None:
    parser.add_argument(
        "daemons",
        metavar="DAEMON",
        nargs="*",
        help=f"{', '.join(DAEMONS)} (default: all that run under a supervisor)",
    )


def restart(daemons: Daemons, options: argparse.Namespace) -> int:
    """Restarts daemons one after the other; each must answer again before the next."""
    names: list[str] = options.daemons or usual(daemons)
    for name in names:
        if name not in DAEMONS:
            raise ConfigError(f"no daemon {name!r}; daemons: {', '.join(DAEMONS)}")
    refuse_in_lab(Path(daemons.config.path))
    for obstacle in obstacles(daemons.config, names):
        raise Refusal(f"nothing is restarted, as it could not start again: {obstacle}", "denied")
    done: dict[str, object] = {}
    for number, name in enumerate(names, 1):
        try:
            pid = restarted(daemons, name)
        except Unavailable as problem:
            if not (left := names[number:]):
                raise
            again = "type `lbctl restart` again once it answers"
            said = f"{problem}; not restarted: {', '.join(left)}; {again}"
            raise Unavailable(said) from None
        done[name] = pid or None
        if not options.json:
            put(f"{name} was restarted, pid {pid}" if pid else f"{name} has ended: {NOT_HERE}")
    if options.json:
        print_json(done)
    return 0


def usual(daemons: Daemons) -> list[str]:
    """Returns the LIM, the LBM and those others that run. Excludes a web page that a person
    started, since nothing would start it again, and leaves the authority to root."""
    found = list(ALWAYS)
    if os.geteuid() == 0 and answers(daemons, "authority"):
        found.insert(0, "authority")
    found += [name for name in ("dispatcher", "metrics") if answers(daemons, name)]
    pid = pid_in(pid_file(daemons, "web"))
    if pid and is_of_unit(pid, WEB_UNIT) and answers(daemons, "web"):
        found.append("web")
    return found


def ask_status(daemons: Daemons, name: str) -> None:
    """Raises LbdError."""
    question: Json = {"op": "list" if name == "authority" else "status"}
    if name == "lim":
        daemons.lim(question)
    elif name == "lbm":
        daemons.lbm(question)
    else:
        ask(daemons.socket(name), question)


def refuse_in_lab(config: Path) -> None:
    """Raises Refusal before any daemon stops, because nothing restarts a lab's daemons."""
    if not config.is_file() or not is_labs(config):
        return
    host, where = config.parent.name, shlex.quote(str(config.parent.parent))
    raise Refusal(
        f"nothing restarts daemons in a lab; to restart the LBM of {host} by hand: lbd lab kill "
        f"{host} lbm -s USR2 --dir {where} && lbd lab start {host} lbm --dir {where}",
        "denied",
    )


def restarted(daemons: Daemons, name: str) -> int:
    """Returns the new daemon's pid; 0 for a dispatcher that no longer runs on this host."""
    try:
        ask_status(daemons, name)
    except Absent:
        if name not in ALWAYS or not by_systemd(daemons):
            raise  # it says how to start it
        return started(daemons, name)
    old, uid = process_of(daemons, name)
    file = pid_file(daemons, name)
    if not old and file.exists() and not os.access(file, os.R_OK):
        raise Refusal(
            "permission denied: only root and the daemon's own user can do that", "denied"
        )
    if not old:  # a signal to process 0 would reach our whole process group
        raise Unavailable(f"{name} answers, but {file} does not name its process")
    try:
        # The daemons' account may write that file, so it must not name another user's process. The
        # web page writes it as root and then changes to that account.
        allowed = (uid, *daemons_account(daemons)) if uid == 0 else (uid,)
        if os.stat(f"/proc/{old}").st_uid not in allowed:
            raise Unavailable(
                f"{file} names process {old}, which belongs to another user; remove the file"
            )
        unit = unit_of(old)
        os.kill(old, signal.SIGUSR2)
    except PermissionError:
        raise Refusal(
            "permission denied: only root and the daemon's own user can do that", "denied"
        ) from None
    except (ProcessLookupError, FileNotFoundError):
        raise Unavailable(f"{name} (pid {old}) has just ended") from None
    deadline_s = time.monotonic() + RETURN_S
    while time.monotonic() < deadline_s:
        time.sleep(POLL_S)
        pid = process_of(daemons, name)[0]
        if pid not in (0, old) and answers(daemons, name):
            return pid
        if name == "dispatcher" and has_ended(old) and not has_queue(daemons):
            return 0
        if why := failure(name, unit) if has_ended(old) else "":
            raise Unavailable(f"{why}; see: journalctl -u {unit}")
    if unit:
        raise Unavailable(f"{name} does not answer yet; see: journalctl -u {unit}")
    raise Unavailable(f"{name} has stopped, and nothing starts it again; `lbd up` or systemd would")


def by_systemd(daemons: Daemons) -> bool:
    """Returns whether the caller can have systemd start the daemons of this installation."""
    is_systems = daemons.config.host.runtime_dir == SYSTEM_DIRS[0]
    return is_systems and os.geteuid() == 0 and has_units()


def started(daemons: Daemons, name: str) -> int:
    """Starts a daemon that should run and does not; returns its pid."""
    unit = f"lbd-{name}.service"
    said_by("systemctl", "start", unit)
    deadline_s = time.monotonic() + RETURN_S
    while time.monotonic() < deadline_s:
        if answers(daemons, name) and (pid := process_of(daemons, name)[0]):
            return pid
        if why := failure(name, unit):
            raise Unavailable(f"{why}; see: journalctl -u {unit}")
        time.sleep(POLL_S)
    raise Unavailable(f"{name} does not answer yet; see: journalctl -u {unit}")


def has_ended(pid: int) -> bool:
    task = task_of(pid)
    return task is None or task.is_zombie


def has_queue(daemons: Daemons) -> bool:
    """Returns whether this host should run the dispatcher."""
    config = overlaid(daemons.config, daemons.saved())[0]
    return config.host.name in config.dispatch.hosts


def pid_file(daemons: Daemons, name: str) -> Path:
    return Path(daemons.config.host.runtime_dir) / f"{name}.pid"


def process_of(daemons: Daemons, name: str) -> tuple[int, int]:
    """Returns its pid, 0 if unknown, and the uid that the process must have."""
    try:
        if name != "authority":
            file = pid_file(daemons, name)
            return pid_in(file), file.stat().st_uid
        with connected(daemons.socket(name), ANSWER_S) as sock:
            listener = caller_of(sock)
    except OSError:
        return 0, 0
    return (listener.pid if listener.uid == 0 else 0), 0


def daemons_account(daemons: Daemons) -> tuple[int, ...]:
    found = find_account(daemons.config.daemons.user or DEFAULT)
    return () if found is None else (found.uid,)


def answers(daemons: Daemons, name: str) -> bool:
    try:
        ask_status(daemons, name)
    except LbdError:
        return False
    return True


VERBS = {"restart": Verb(asking(restart), add_options)}
