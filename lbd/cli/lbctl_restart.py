"""`lbctl restart`: daemons of this host make way for new ones; no command notices it."""

import argparse
import os
import shlex
import signal
import time
from pathlib import Path

from lbd.cli.daemons import Daemons
from lbd.cli.output import print_json, put
from lbd.errors import ConfigError, LbdError, Unavailable
from lbd.lab.plan import MADE_BY
from lbd.rpc.local import Refusal

DAEMONS = ("lim", "lbm")
RETURN_S = 30.0
POLL_S = 0.05


def restart(daemons: Daemons, options: argparse.Namespace) -> int:
    """One after the other; each answers again before the next."""
    names: list[str] = options.daemons or list(DAEMONS)
    for name in names:
        if name not in DAEMONS:
            raise ConfigError(f"{name!r} is no daemon of this host; there are {', '.join(DAEMONS)}")
    refuse_in_lab(Path(daemons.config.path))
    done: dict[str, object] = {}
    for name in names:
        pid = restarted(daemons, name)
        done[name] = pid
        if not options.json:
            put(f"{name} was restarted, pid {pid}")
    if options.json:
        print_json(done)
    return 0


def refuse_in_lab(config: Path) -> None:
    """Raises Refusal before anything makes way: nobody watches over a lab's daemons."""
    if not config.is_file() or not config.read_text("utf-8").startswith(MADE_BY):
        return
    host, lab = config.parent.name, config.parent.parent
    raise Refusal(
        f"in a lab nobody starts daemons again; by hand: lbd lab kill {host} lbm -s USR2"
        f" --dir {shlex.quote(str(lab))}, then lbd lab start {host} lbm, too",
        "denied",
    )


def restarted(daemons: Daemons, name: str) -> int:
    """The pid of the new one."""
    file = Path(daemons.config.host.runtime_dir) / f"{name}.pid"
    ask = daemons.lim if name == "lim" else daemons.lbm
    ask({"op": "status"})  # that it runs
    old = pid_in(file)
    if not old:  # a signal to process 0 would reach our own caller's whole group
        raise Unavailable(f"{name} answers, but {file} does not say which process it is")
    try:
        # The daemons' account writes that file: it says nothing of others' processes.
        if os.stat(f"/proc/{old}").st_uid != file.stat().st_uid:
            raise Unavailable(f"{file} says process {old}, which is another user's; remove it")
        os.kill(old, signal.SIGUSR2)
    except PermissionError:
        raise Refusal("only root or the daemon's own user may do that", "denied") from None
    except (ProcessLookupError, FileNotFoundError):
        raise Unavailable(f"{name} (pid {old}) has just ended") from None
    deadline_s = time.monotonic() + RETURN_S
    while time.monotonic() < deadline_s:
        time.sleep(POLL_S)
        if pid_in(file) != old and answers(daemons, name):
            return pid_in(file)
    raise Unavailable(f"{name} has made way and nobody starts another; `lbd up` or systemd would")


def pid_in(file: Path) -> int:
    """0 if it is missing or holds no pid."""
    try:
        return max(0, int(file.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return 0


def answers(daemons: Daemons, name: str) -> bool:
    try:
        (daemons.lim if name == "lim" else daemons.lbm)({"op": "status"})
    except LbdError:
        return False
    return True
