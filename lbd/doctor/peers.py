"""Checks of `lbctl doctor` on other hosts, besides whether their LIM answers."""

import json
import os
import re
import shlex
import socket
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path

from lbd.config.cluster import QUEUE, overlaid
from lbd.config.resources import fault_of_name
from lbd.config.schema import Config
from lbd.console.daemons import START, Daemons
from lbd.console.decision import place_request, question
from lbd.console.hosts import STALE
from lbd.console.reply import Json, table, tables, text
from lbd.doctor.checks import (
    FAULT,
    FIRST_HOST_LOST,
    OK,
    SEE_CERTIFICATE,
    WARN,
    Check,
)
from lbd.doctor.daemon_replies import START_KEEPER, restart_keeper
from lbd.errors import LbdError
from lbd.local.json_socket import ask
from lbd.model import STOPPED, Closed
from lbd.net.details import UNPROVEN
from lbd.policy.view import NO_SLOT
from lbd.process.accounts import ROOT
from lbd.text.closed_words import NOT_HEARD_YET, WORDS
from lbd.text.units import counted
from lbd.trust.authority import Authority, is_superseded
from lbd.trust.files import authority_dir, host_files

CONNECT_TIMEOUT_S = 2.0
AT_ONCE = 32
NOLB = "NOLB"
ANSWERS = ("refused", "revoked", "certificate", UNPROVEN)  # in an error: its machine is reached
SEE_LBM = "see `LBM` below"
SEE_NETWORK = (
    "see the network's line above first. Only if this host's link is well: start that machine, "
    f"or follow {FIRST_HOST_LOST}"
)
UNSET_JOIN = "`lbctl config set cluster.join --unset`"
SIGN_ELSEWHERE = (
    "on another host, set one of them again (`lbctl config set … --cluster`), which signs all of "
    "them; `lbctl doctor` there names one"
)
EXPLAIN_TIMEOUT_S = 8.0


def algorithms(own: str, peers: Sequence[Json]) -> Iterator[Check]:
    """Checks that all hosts use one algorithm: otherwise they hear only half of each other's
    messages. A peer with other settings than this host is about to adopt the newer ones."""
    theirs = {text(item, "name"): text(item, "algorithm") for item in peers}
    used = Counter(one for one in (own, *theirs.values()) if one not in ("", NOLB))
    if own == NOLB and not used and peers:
        fix = "run `lbctl algorithm --reset`; it may also be set as lim.algorithm in lbd.toml"
        yield Check("algorithm", WARN, f"the algorithm {NOLB} never moves commands", fix)
    for item in peers:
        name = text(item, "name")
        if not own or theirs[name] in ("", own):
            continue
        says, check = f"uses {theirs[name]}, this host {own}", f"peer {name} algorithm"
        if item.get("same_settings") is False:
            fix = (
                f"run `lbctl doctor` again in a few seconds; then see the log of the LIM of {name}"
            )
            yield Check(check, WARN, f"{says}: one has not taken the newest settings yet", fix)
            continue
        fix = (
            f"run `lbctl algorithm {used.most_common(1)[0][0]}`, and set the same lim.algorithm "
            "in every lbd.toml"
        )
        yield Check(check, FAULT, says, fix)


def network(peers: Sequence[Json], rows: Mapping[str, Json]) -> Iterator[Check]:
    """Checks whether this host is cut off: then all others look dead. One that said goodbye or was
    revoked proves nothing."""
    asked = [item for item in peers if not is_away_on_purpose(rows.get(text(item, "name"), {}))]
    if asked and not any(item.get("reachable") is True or answered(item) for item in asked):
        names = ", ".join(text(item, "name") for item in asked)
        says = f"no other host answers ({names}), so this host itself may be cut off"
        fix = (
            "check its own link first: `ip link`, `ip address`, `ping` of another host. Before "
            "that, do not move the queue or the authority: the others may be well"
        )
        yield Check("network", FAULT, says, fix)


def is_away_on_purpose(row: Json) -> bool:
    return row.get("revoked") is True or text(row, "why_down").startswith(STOPPED)


def is_told_revoked(own: str, peers: Iterable[Json]) -> bool:
    """Whether another host says that this one is revoked, which it may not know: no host that knows
    sends it anything."""
    return any(text(item, "error").endswith(f" {own} is revoked") for item in peers)


def answered(item: Json) -> bool:
    """Returns whether its machine answered, even if it refused to talk to this host."""
    error = text(item, "error")
    return item.get("skewed") is True or any(one in error for one in ANSWERS)


def incoming(peers: Sequence[Json], rows: Mapping[str, Json], config: Config) -> Iterator[Check]:
    """Checks whether others can reach this host: if none can, each answers its questions, but sends
    nothing."""
    reached = [text(item, "name") for item in peers if item.get("reachable") is True]
    seen = [rows.get(name, {}) for name in reached]
    if seen and all(text(row, "state") in STALE and row.get("age_s") is not None for row in seen):
        says = f"this host can reach {', '.join(reached)} but hears nothing from them"
        fix = f"open TCP ports {config.lim.port} and {config.lbm.port} of this host in its firewall"
        yield Check("incoming", FAULT, says, fix)


def join_address(rows: Iterable[Json], config: Config) -> Iterator[Check]:
    """Checks whether `cluster.join`, which this host asks when it starts, is still a host's
    address. Names are not resolved."""
    join = config.cluster.join
    others = [text(row, "address") for row in rows if text(row, "name") != config.host.name]
    known = {host_of(one) for one in others} | {config.host.address}
    if (
        join
        and others
        and host_of(join) not in known
        and all(map(is_ip_address, (host_of(join), *known)))
    ):
        says = f"no host of this cluster is at {join}, where this host asks for others"
        yield Check("cluster.join", WARN, says, join_fix(config))


def join_fix(config: Config) -> str:
    """Returns what to do about a `cluster.join` that is no host's address."""
    if host_files(config).read_home()[0] == config.host.name:
        return f"the authority is on this host, so it needs none: {UNSET_JOIN}"
    return "`lbctl config set cluster.join` with another host's address and port"


def administrators_hosts(rows: Iterable[Json], config: Config) -> Iterator[Check]:
    """Checks whether the hosts whose administrators may do more here are still in the cluster."""
    known = {text(row, "name") for row in rows}
    for key in ("hosts", "settings_hosts"):
        given: tuple[str, ...] = getattr(config.admin, key)
        gone = [name for name in given if name not in known and not set(name) & set("*?[")]
        if known and gone:
            says = f"names {', '.join(gone)}, not in this cluster now"
            left = json.dumps([name for name in given if name not in gone])
            fix = (
                f"if that is for good, `lbctl config set admin.{key} '{left}'`, with the name of "
                "the host that took its place, if one did, in it; then `lbctl restart`"
            )
            yield Check(f"admin.{key}", WARN, says, fix)


def host_of(target: str) -> str:
    """Returns the host of an address with or without a port."""
    host, mark, port = target.rpartition(":")
    return (host if mark and port.isdigit() and not is_ip_address(target) else target).strip("[]")


def is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_alone(row: Json) -> bool:
    """Returns whether the LBM of that host runs without a certificate. `row`: of `lbctl status`."""
    return text(row, "why_closed") == WORDS[Closed.ALONE]


def ports(
    daemons: Daemons, rows: Mapping[str, Json], lims_away: Collection[str]
) -> Iterator[Check]:
    """Checks whether a connection to the LBM of each live host can be made. `rows`: of `lbctl
    status`; `lims_away`: hosts whose LIM is not reached, which is reported separately."""
    try:
        known = tables(daemons.lim({"op": "peers"}), "peers")
    except LbdError:
        return
    alive = [
        (text(row, "name"), text(row, "lbm"))
        for row in known
        if row.get("state") != "down" and text(row, "name") not in lims_away
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(closed, [target for _, target in alive])
        for (name, target), why in zip(alive, found, strict=True):
            if why == "refused" and is_alone(rows.get(name, {})):
                says = f"{target} is closed: its LBM runs without a certificate"
                yield Check(f"peer {name} LBM", FAULT, says, f"on {name}, run `lbctl restart`")
            elif why == "refused":
                says = f"{target} is closed: no LBM is listening there, so it accepts no commands"
                yield Check(f"peer {name} LBM", FAULT, says, f"on {name}, {START}")
            elif why:
                fix = f"open TCP port {target.rpartition(':')[2]} of {name} in the firewall"
                yield Check(f"peer {name} LBM", FAULT, f"{target} is closed: {why}", fix)
            elif text(rows.get(name, {}), "why_closed") == WORDS[Closed.NO_KEEPER]:
                fix = fix_of(WORDS[Closed.NO_KEEPER], name)
                yield Check(f"peer {name} keeper", FAULT, WORDS[Closed.NO_KEEPER], fix)


def authority(daemons: Daemons) -> Iterator[Check]:
    """Checks the process that signs for the authority where the key is root's. Only root can see
    that."""
    config = daemons.config
    files = host_files(config)
    home, here = files.read_home()[0], Authority(authority_dir(config), config.tls.certificate_s)
    try:
        is_here = home in ("", config.host.name) and (
            here.key_file.stat().st_uid == 0 == os.geteuid()
        )
        if is_here and is_superseded(here, files.read_signed()):
            return  # the certificate's line says so
    except (OSError, LbdError):
        return
    if is_here and config.daemons.user != ROOT and not answers(daemons.socket("authority"), "list"):
        says = "not running: no host can join, and no certificate is renewed"
        yield Check(
            "authority", FAULT, says, "run `systemctl start lbd-authority`, or `lbd up` as root"
        )


def answers(path: Path, op: str = "status") -> bool:
    try:
        ask(path, {"op": op}, CONNECT_TIMEOUT_S)
    except LbdError:
        return False
    return True


def settings(daemons: Daemons, *, is_out: bool = False) -> Iterator[Check]:
    """Checks whether the settings for all hosts are signed, where hosts have certificates, and
    whether this host's lbd.toml conflicts with them. `is_out`: this host's certificate is not
    valid, so that it may sign nothing."""
    try:
        found = daemons.lim({"op": "settings"})
    except LbdError:
        return
    saved = {name: str(value) for name, value in table(found, "saved").items()}
    names = overlaid(daemons.config, saved)[0].cluster.resources
    for name, _ in daemons.config.resources.amounts:
        if fault := fault_of_name(name, names):
            fix = f"lbctl config set resources.{name} --unset, or add it to cluster.resources"
            yield Check("resources", WARN, fault, fix)
    signer, doubt = text(found, "signed_by"), text(found, "doubt")
    if doubt and not signer:
        says = f"this host rejects the settings for all hosts, so it may not change them: {doubt}"
        yield Check("settings", WARN, says, SEE_CERTIFICATE if is_out else SIGN_ELSEWHERE)
        return
    if not saved or found.get("signs") is not True or is_out:
        return
    if doubt:
        says = f"{counted(len(saved), 'setting')} for all hosts, but hosts that join reject them"
        yield Check("settings", WARN, f"{says}: {doubt}", sign_again(daemons, saved))
        return
    if signer:
        yield Check(
            "settings", OK, f"{counted(len(saved), 'setting')} for all hosts, signed by {signer}"
        )
        return
    of_some = daemons.config.admin.settings_hosts
    says = f"{counted(len(saved), 'setting')} for all hosts, not signed by any host"
    means = "hosts do not accept them from each other (admin.settings_hosts)" if of_some else (
        "any compromised host can change them")  # fmt: skip
    fix = sign_again(daemons, saved)
    yield Check("settings", FAULT if of_some else WARN, f"{says}: {means}", fix)


def sign_again(daemons: Daemons, saved: Mapping[str, str]) -> str:
    """Returns the advice that makes a host that may do so sign all saved settings."""
    of_some, (hosts, _) = daemons.config.admin.settings_hosts, daemons.queue()
    again = next(
        (f"lbctl config set {name} {shlex.quote(saved[name])} --cluster"
         for name in sorted(saved) if name not in QUEUE),
        f"lbctl queue enable {','.join(hosts)}" if hosts else "lbctl queue disable",
    )  # fmt: skip
    where = f"on {' or '.join(of_some)}" if of_some else "here"
    return f"set one of them again {where}, which signs all of them: {again}"


def closed(target: str) -> str:
    """Returns why no connection can be made; "" if one can."""
    address, _, port = target.rpartition(":")
    try:
        socket.create_connection((address.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
    except ConnectionRefusedError:
        return "refused"
    except TimeoutError:
        return "no answer"
    except OSError as problem:
        return problem.strerror or str(problem)
    return ""


def sharing(daemons: Daemons) -> Iterator[Check]:
    """Checks whether a command of the caller, from the current directory, could start on the
    others. Those that are not reached are reported elsewhere."""
    try:
        directory = os.getcwdb()
    except OSError:
        return
    asked = question(place_request(None, (), False, False), ["true"], directory, "")
    try:
        reply = daemons.lbm(asked, EXPLAIN_TIMEOUT_S)
    except LbdError:
        return  # faults of the LBM or the LIM are reported elsewhere
    others = [
        row
        for row in tables(reply, "candidates")
        if text(row, "name") != own_name(daemons) and text(row, "why") not in STALE
    ]
    for row in others:
        if (why := text(row, "why")) and (rule := OF_PROGRAMS.search(why)):
            says = f"accepts only some programs from here ({rule[1]}); `true` is none of them"
            yield Check(f"peer {text(row, 'name')} commands", OK, says)
        elif why == NO_SLOT:  # a busy cluster has no fault
            yield Check(f"peer {text(row, 'name')} commands", OK, "all its slots are taken now")
        elif why:
            name = text(row, "name")
            yield Check(
                f"peer {name} commands", WARN, f"accepts none from here: {why}", fix_of(why, name)
            )
    if others and all(not text(row, "why") for row in others):
        says = f"{counted(len(others), 'other host')} could run one in {os.fsdecode(directory)}"
        yield Check("commands from here", OK, says)


def own_name(daemons: Daemons) -> str:
    return daemons.config.host.name


OF_PROGRAMS = re.compile(r"\((admission\.(?:deny_)?programs)\)")
RULE = re.compile(r"\((admission\.[a-z_]+)\)")  # ends a refusal
ACCOUNT = re.compile(r"the account that (.+?) has ")
UNLOCK = {
    "is locked": "unlock it (usermod -U {user})",
    "has expired": "let it last (chage -E -1 {user})",
    "no login shell": "give it a shell (usermod -s /bin/bash {user})",
    "may not log in": "wait until logins are allowed again",
}


def fix_of(why: str, host: str) -> str:
    """`why`: that host's answer."""
    if rule := RULE.search(why):
        return f"the owner of {host} decides: {rule[1]} in its lbd.toml"
    if whose := ACCOUNT.match(why):
        user = shlex.quote(whose[1])
        do = next((how for words, how in UNLOCK.items() if words in why), "let it log in")
        return f"on {host}, {do.format(user=user)}, or list it in users.allow"
    if "drained" in why:
        return f"run `lbctl undrain {host}` once the reason for the drain no longer applies"
    if "director" in why:
        return (
            "go to a directory that the hosts share, mount the same file system there at the same "
            f"path, or use `lbrun --send` or `lbrun -H {shlex.quote(host)} -C /`"
        )
    if "users.allow_root" in why:
        return "run it as an ordinary user: runuser -u USER -- lbctl doctor"
    if "users.min_uid" in why:
        return f"list it in users.allow of the lbd.toml of {host}, if it is to run commands"
    if "keeper does not become" in why:
        return f"on {host}, {restart_keeper(host)}"
    if "keeper is not root" in why:
        return f"on {host}, start the daemons as root: `lbd up`, or the package's services"
    if "user" in why:
        return "create an account with the same name there"
    if why in (WORDS[Closed.NO_LBM], WORDS[Closed.STARTING]):
        return f"on {host}, {START}"
    if why in (WORDS[Closed.NO_KEEPER], "the keeper is not connected"):
        return f"on {host}, {START_KEEPER}"
    if why == NOT_HEARD_YET:
        return "wait some seconds and try again: the LIM here or there has just started"
    return "see `lbctl explain COMMAND`"
