"""What `lbctl doctor` looks at of the other hosts, beside whether their LIM answers."""

import os
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
from lbd.doctor.checks import FAULT, OK, WARN, Check, counted
from lbd.errors import LbdError, Unavailable
from lbd.local.json_socket import ask
from lbd.model import Closed
from lbd.process import last_words
from lbd.process.accounts import ROOT
from lbd.text.closed_words import WORDS
from lbd.trust.authority import Authority
from lbd.trust.files import authority_dir, host_files

START_DISPATCHER = "start it: systemctl start lbd-dispatcher, or lbd up"
CONNECT_TIMEOUT_S = 2.0
AT_ONCE = 32
EXPLAIN_TIMEOUT_S = 8.0


def algorithms(own: str, peers: Sequence[Json]) -> Iterator[Check]:
    """Hosts that exchange load in different ways hear each other by halves."""
    used = Counter((own, *(text(item, "algorithm") for item in peers if text(item, "algorithm"))))
    fix = (
        f"lbctl algorithm {used.most_common(1)[0][0]}, and the same lim.algorithm in every lbd.toml"
    )
    for item in peers:
        theirs = text(item, "algorithm")
        if own and theirs and theirs != own:
            says = f"uses {theirs}, this host {own}"
            yield Check(f"peer {text(item, 'name')} algorithm", FAULT, says, fix)


def incoming(peers: Sequence[Json], rows: Mapping[str, Json], config: Config) -> Iterator[Check]:
    """Whether the others can call this host: if none can, each answers, and falls silent here."""
    reached = [text(item, "name") for item in peers if item.get("reachable") is True]
    seen = [rows.get(name, {}) for name in reached]
    if seen and all(text(row, "state") in STALE and row.get("age_s") is not None for row in seen):
        says = f"nothing is heard of {', '.join(reached)}, and this host reaches them"
        fix = f"open TCP ports {config.lim.port} and {config.lbm.port} of this host in its firewall"
        yield Check("incoming", FAULT, says, fix)


def join_address(rows: Iterable[Json], config: Config) -> Iterator[Check]:
    """Whether `cluster.join` is still some host's address: as this host starts, it asks there.
    Names are not looked up."""
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
        fix = "`lbctl config set cluster.join` with another host's address and port"
        yield Check("cluster.join", WARN, says, fix)


def host_of(target: str) -> str:
    """Of an address with or without its port."""
    host, mark, port = target.rpartition(":")
    return (host if mark and port.isdigit() and not is_ip_address(target) else target).strip("[]")


def is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def ports(daemons: Daemons, lims_away: Collection[str]) -> Iterator[Check]:
    """Whether a connection to the LBM of each host that lives can be made at all. `lims_away`:
    whose LIM is not reached, which is a fault of its own."""
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
            if why == "refused":
                says = f"{target} is closed: no LBM listens there, so it takes no commands"
                yield Check(f"peer {name} LBM", FAULT, says, f"on {name}, {START}")
            elif why:
                fix = f"open TCP port {target.rpartition(':')[2]} of {name} in the firewall"
                yield Check(f"peer {name} LBM", FAULT, f"{target} is closed: {why}", fix)


def authority(daemons: Daemons) -> Iterator[Check]:
    """Where its key is root's, a process of its own signs. Only root can see that."""
    config = daemons.config
    home = host_files(config).read_home()[0]
    key = Authority(authority_dir(config), config.tls.certificate_s).key_file
    try:
        is_here = home in ("", config.host.name) and key.stat().st_uid == 0 == os.geteuid()
    except OSError:
        return
    if is_here and config.daemons.user != ROOT and not answers(daemons.socket("authority"), "list"):
        says = "not running: nobody can join, and no certificate is renewed"
        yield Check("authority", FAULT, says, "systemctl start lbd-authority, or lbd up as root")


def queue(daemons: Daemons) -> Iterator[Check]:
    """Checks that the dispatcher is running, in a cluster that has one."""
    hosts, _ = daemons.queue()
    if not hosts:
        return
    try:
        cluster = table(daemons.lim({"op": "status"}), "cluster")
    except LbdError:
        return
    found = table(cluster, "dispatcher")
    try:  # it is asked for once a second only
        found = found or daemons.lbm({"op": "queue.status"}, CONNECT_TIMEOUT_S)
    except Unavailable:
        return  # what is wrong with the LBM, by which the dispatcher is asked, is said elsewhere
    except LbdError:
        pass
    if leader := text(found, "leader"):
        yield Check("dispatcher", OK, f"on {leader}, {text(found, 'queued')} queued")
        if daemons.config.host.name in hosts and not answers(daemons.socket("dispatcher")):
            why = last_words.read(daemons.config.host.runtime_dir, "dispatcher")
            does_not = f"does not run ({why})" if why else "does not run"
            says = f"the one here {does_not}: if {leader} is lost, this host does not take over"
            fix = f"{START_DISPATCHER}; its log says more"
            if "dispatch.store" in why:
                fix = f"set dispatch.store as on {leader}; then {START_DISPATCHER}"
            yield Check("standby", FAULT, says, fix)
    else:
        host = " or ".join(hosts)
        own = daemons.config.host
        why = last_words.read(own.runtime_dir, "dispatcher") if own.name in hosts else ""
        because = f"; the one here cannot begin: {why}" if why else ""
        says = f"the one on {host} is not reached: lbrun -q and -d are refused{because}"
        fix = f"on {host}, {START_DISPATCHER}; its log says more"
        yield Check("dispatcher", FAULT, says, fix)


def answers(path: Path, op: str = "status") -> bool:
    try:
        ask(path, {"op": op}, CONNECT_TIMEOUT_S)
    except LbdError:
        return False
    return True


def settings(daemons: Daemons) -> Iterator[Check]:
    """Whether somebody has signed the settings for all hosts, where hosts have certificates; and
    whether this host's lbd.toml has what they rule out."""
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
    signer = text(found, "signed_by")
    if not saved or found.get("signs") is not True:
        return
    if doubt := text(found, "doubt"):
        says = f"{counted(len(saved), 'setting')} for all, and hosts that join do not take them"
        fix = "set one of them again (lbctl config set … --cluster), or make a token: both sign all"
        yield Check("settings", WARN, f"{says}: {doubt}", fix)
        return
    if signer:
        yield Check("settings", OK, f"{counted(len(saved), 'setting')} for all, signed by {signer}")
        return
    of_some = daemons.config.admin.settings_hosts
    says = f"{counted(len(saved), 'setting')} for all hosts, and no host has signed them"
    means = "no host takes them of another (admin.settings_hosts)" if of_some else (
        "any host that was taken over can change them")  # fmt: skip
    hosts, _ = daemons.queue()
    again = next(
        (f"lbctl config set {name} {shlex.quote(saved[name])} --cluster"
         for name in sorted(saved) if name not in QUEUE),
        f"lbctl queue enable {','.join(hosts)}" if hosts else "lbctl queue disable",
    )  # fmt: skip
    where = f"on {' or '.join(of_some)}" if of_some else "on any host"
    fix = f"set one of them again {where}, which signs all: {again}"
    yield Check("settings", FAULT if of_some else WARN, f"{says}: {means}", fix)


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
    """Whether a command of the caller, from this very directory, could begin on the others."""
    try:
        directory = os.getcwdb()
    except OSError:
        return
    asked = question(place_request(None, (), False, False), ["true"], directory, "")
    try:
        reply = daemons.lbm(asked, EXPLAIN_TIMEOUT_S)
    except LbdError:
        return  # what is wrong with the LBM or the LIM is said elsewhere
    others = [row for row in tables(reply, "candidates") if text(row, "name") != own_name(daemons)]
    for row in others:
        if why := text(row, "why"):
            name = text(row, "name")
            yield Check(f"peer {name} commands", WARN, f"takes none from here: {why}", fix_of(why))
    if others and all(not text(row, "why") for row in others):
        says = f"{counted(len(others), 'other host')} could run one in {os.fsdecode(directory)}"
        yield Check("commands from here", OK, says)


def own_name(daemons: Daemons) -> str:
    return daemons.config.host.name


def fix_of(why: str) -> str:
    if "drained" in why:
        return "`lbctl undrain` it when what it was drained for is done"
    if "director" in why:
        return "mount the same file system there, at the same path; or lbrun --send"
    if "users.allow_root" in why:
        return "as an ordinary user: runuser -u USER -- lbctl doctor"
    if "user" in why:
        return "make the same account there, with the same name"
    if why in (WORDS[Closed.NO_LBM], WORDS[Closed.STARTING]):
        return f"there, {START}"
    return "lbctl explain COMMAND says more"
