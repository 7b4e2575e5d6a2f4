"""`lbctl leave` takes this host out of the cluster. `lbctl forget HOST`, run on another host,
removes a host that will not come back."""

import argparse
import os
import signal
import time
from pathlib import Path

from lbd.cli.ctl.cluster import units
from lbd.cli.ctl.cluster.authority import is_here
from lbd.cli.ctl.own_config import put_config, text_of, with_settings
from lbd.cli.ctl.restart import refuse_in_lab
from lbd.cli.ctl.steer import FORWARD_TIMEOUT_S, add_host
from lbd.cli.ctl.verb import Verb, asking, say
from lbd.cli.program import Parser
from lbd.cli.quantities import duration
from lbd.config.schema import Config
from lbd.console.daemons import Daemons
from lbd.console.hosts import host_named
from lbd.console.output import print_json, put
from lbd.console.reply import Json, number, tables, texts, whole
from lbd.doctor.peers import is_told_revoked
from lbd.errors import LbdError, Unavailable
from lbd.local.json_socket import HEARD, Refusal
from lbd.process.pid_lock import pid_of_holder
from lbd.trust.files import authority_dir, host_files

STOP_S = 60.0  # for `lbd up` to end what runs
POLL_S = 0.1
DAEMONS = ("up", "lim", "lbm", "dispatcher", "keeper", "metrics")
LISTEN_S = 0.5
AGREED_S = 1.0  # how much later the other hosts notice the silence
QUIET_S = 1.0  # without a command: by then, commands placed here before the drain have arrived
# State that a later cluster must not start with.
KEPT = ("settings.json", "drained", "hosts.json")


def add_leave_options(parser: Parser) -> None:
    parser.add_argument("--timeout", metavar="DUR", type=duration, default=float("inf"),
                        help="how long to wait for commands to end; then exit 1")  # fmt: skip


def leave(daemons: Daemons, options: argparse.Namespace) -> int:
    """Drains this host, stops its daemons, then removes what makes it a member of the cluster.
    Skips the steps that an earlier attempt completed."""
    config = daemons.config
    refuse_in_lab(Path(config.path))
    is_running = bool(running(config))
    if is_running and os.geteuid() not in (0, os.stat(config.host.state_dir).st_uid):
        raise Refusal(
            "permission denied: only root and the daemons' own user can do that", "denied"
        )
    refuse_if_needed(daemons)
    if is_running:
        drain = {"op": "drain", "host": config.host.name}
        daemons.lim({**drain, "drained": True, "reason": "it is leaving the cluster"},
                    FORWARD_TIMEOUT_S)  # fmt: skip
        wait_for_all(daemons, config.host.name, options.timeout)
        daemons.lim({**drain, "drained": False, "leaves": True}, FORWARD_TIMEOUT_S)
        stop_daemons(config)
    removed = forget_cluster(config)
    if options.json:
        print_json({"host": config.host.name, "removed": removed})
    else:
        put(f"{config.host.name} has left cluster {config.cluster.name}")
        say(f"to make copies of its key useless, run `lbctl revoke {config.host.name}` on the "
            "authority's host")  # fmt: skip
    return 0


def wait_for_all(daemons: Daemons, host: str, timeout_s: float) -> None:
    """Waits until the LBM has had no command for QUIET_S. Raises Unavailable."""
    began_s = quiet_since_s = time.monotonic()
    waits = False
    while True:
        left, now_s = commands_left(daemons), time.monotonic()
        if left:
            quiet_since_s = now_s
        elif now_s > quiet_since_s + QUIET_S:
            return
        if left and now_s > began_s + timeout_s:
            ended = (
                "1 command is still running" if left == 1 else f"{left} commands are still running"
            )
            raise Unavailable(f"{ended}; {host} stays drained")
        if left and not waits:
            waits = True
            commands = "1 command" if left == 1 else f"{left} commands"
            say(f"{host} is drained; waiting for {commands} of other hosts here or of its own "
                "users (lbctl jobs); ^C leaves it drained")  # fmt: skip
        time.sleep(POLL_S)


def commands_left(daemons: Daemons) -> int:
    """Returns how many commands would end with this host's LBM. Asks the LBM: the LIM's number is
    older."""
    if "lbm" not in running(daemons.config):
        return 0
    return whole(daemons.lbm({"op": "status"}), "jobs")


def refuse_if_needed(daemons: Daemons) -> None:
    """Raises Refusal."""
    config = daemons.config
    if is_here(config):
        raise Refusal("the cluster's authority is on this host: first move it with `lbctl "
                      "authority give FILE` here and `lbctl authority take FILE` on another "
                      "host; if another host has it already: `systemctl stop 'lbd*'; rm -r "
                      f"{authority_dir(config)}`", "unavailable")  # fmt: skip
    own, (hosts, _) = config.host.name, daemons.queue()
    if own in hosts and not (len(hosts) > 1 and is_revoked(daemons)):
        how = "enable it on another host (`lbctl queue enable HOST`) or disable it"
        if len(hosts) > 1:
            how = f"`lbctl queue disable {own}` leaves it on the others"
        raise Refusal(f"the queue is on this host: {how}", "unavailable")


def is_revoked(daemons: Daemons) -> bool:
    """Whether the others say so. Then this host is not told any more where the queue is."""
    try:
        peers = tables(daemons.lim({"op": "doctor"}, FORWARD_TIMEOUT_S), "peers")
    except LbdError:
        return False
    return is_told_revoked(daemons.config.host.name, peers)


def running(config: Config) -> list[str]:
    directories = (config.host.runtime_dir, config.host.state_dir)
    return [
        name
        for name in DAEMONS
        if any(pid_of_holder(Path(one, f"{name}.pid")) is not None for one in directories)
    ]


def stop_daemons(config: Config) -> None:
    """Raises Unavailable if they do not stop."""
    file = Path(config.host.runtime_dir, "up.pid")
    if (up := pid_of_holder(file)) and is_whose_file(up, file):
        os.kill(up, signal.SIGTERM)
    elif units.are_used(Path(config.path)):
        units.stop_for_good()
    else:
        raise Unavailable("this host is drained; stop its daemons, then run `lbctl leave` again")
    give_up_s = time.monotonic() + STOP_S
    while names := running(config):
        if time.monotonic() > give_up_s:
            raise Unavailable(f"{', '.join(names)} did not stop; run `lbctl leave` again")
        time.sleep(POLL_S)


def is_whose_file(pid: int, file: Path) -> bool:
    """Checks the pid's owner: the daemons' account may write these files, but only for its own."""
    try:
        return os.stat(f"/proc/{pid}").st_uid == file.lstat().st_uid
    except OSError:
        return False


def forget_cluster(config: Config) -> list[str]:
    """Removes the cluster's files and returns their names. Raises LbdError."""
    files, state = host_files(config), Path(config.host.state_dir)
    revoked = files.revoked, files.revoked_before
    paths = [files.credentials, files.authority, *revoked, files.home]
    removed = []
    try:
        for path in (*paths, *(state / name for name in KEPT)):
            if path.exists():
                path.unlink()
                removed.append(str(path))
    except OSError as problem:
        raise LbdError(f"{problem.filename}: {problem.strerror}") from None
    if config.cluster.join and config.path:
        file = Path(config.path)
        put_config(file, with_settings(text_of(file), {("cluster", "join"): None}, str(file)))
    return removed


def forget(daemons: Daemons, options: argparse.Namespace) -> int:
    question: Json = {"op": "forget", "host": options.host}
    try:
        reply = daemons.lim(question, FORWARD_TIMEOUT_S)
    except Refusal as refusal:
        if refusal.code != HEARD:
            raise
        wait_until_silent(daemons, options.host)
        reply = daemons.lim(question, FORWARD_TIMEOUT_S)
    if options.json:
        print_json({"host": options.host, "missing": texts(reply, "missing")})
        return 0
    put(f"{options.host} is removed from the cluster")
    if missing := texts(reply, "missing"):
        say(f"{', '.join(missing)} did not confirm, or had just heard from it: run `lbctl forget "
            f"{options.host}` there, too")  # fmt: skip
    if reply.get("listed"):
        say(f"{options.host} is listed in [[cluster.hosts]] of lbd.toml: remove it there, on every "
            "host")  # fmt: skip
    else:  # else it is named as missing
        say(f"jobs that only {options.host} had on record are in `lbctl stats` and `lbctl history` "
            "no longer")  # fmt: skip
    if reply.get("revoked") is not True:
        say(f"to make copies of its key useless, run `lbctl revoke {options.host}` on the "
            "authority's host, unless you have done so")  # fmt: skip
    return 0


def wait_until_silent(daemons: Daemons, host: str) -> None:
    """Waits until all hosts agree that the host is silent, or until it is heard again."""
    limit_s = number(daemons.lim({"op": "param", "name": "lim.stale_after_s"}), "value")
    age_s = age_of(daemons, host)
    say(f"{host} was up {age_s:.0f} s ago; it will be removed once it has been silent for "
        f"{limit_s:g} s")  # fmt: skip
    while age_s < limit_s + AGREED_S:
        time.sleep(LISTEN_S)
        before_s, age_s = age_s, age_of(daemons, host)
        if age_s < before_s:
            return  # the LIM reports that


def age_of(daemons: Daemons, host: str) -> float:
    """Returns the age of its latest report; NaN once the host has left."""
    return number(host_named(daemons.lim({"op": "status"}), host), "age_s")


VERBS = {
    "leave": Verb(asking(leave), add_leave_options,
                  ("lbctl leave                 on the host that is leaving, as root",)),
    "forget": Verb(asking(forget), add_host,
                   ("lbctl forget h4             h4 is dead and will not come back",)),
}  # fmt: skip
