"""All checks of `lbctl doctor`, in their order."""

import re
from collections.abc import Iterator
from dataclasses import replace

import psutil

from lbd import __version__
from lbd.config.schema import Config
from lbd.console.daemons import START, Daemons
from lbd.console.reply import Json, number, tables, text
from lbd.console.starting import start_of_metrics
from lbd.doctor.checks import (
    FAULT,
    OK,
    SEE_CERTIFICATE,
    SEE_REVOKED,
    WARN,
    Check,
    local_checks,
)
from lbd.doctor.daemon_replies import containment, descriptors, descriptors_of, limits, slots
from lbd.doctor.dispatcher import queue
from lbd.doctor.idle_rules import rules_checks
from lbd.doctor.peer import peer
from lbd.doctor.peers import (
    SEE_LBM,
    SEE_NETWORK,
    administrators_hosts,
    algorithms,
    authority,
    incoming,
    is_alone,
    is_told_revoked,
    join_address,
    join_fix,
    network,
    ports,
    settings,
    sharing,
)
from lbd.doctor.queue_settings import queue_settings
from lbd.doctor.this_host import host_checks, keeper_state, keeper_users, lbsh_checks, owner_seen
from lbd.errors import LbdError, Unavailable
from lbd.local.json_socket import ask
from lbd.local.own_lab import own_lab_advice, start_in_lab
from lbd.local.starting import how_to_start
from lbd.process import last_words
from lbd.process.own_addresses import is_elsewhere
from lbd.process.pid_lock import pid_of_holder
from lbd.trust.files import host_files

HANGS_S = 4.0  # a daemon that takes longer for the simplest question counts as hung
LIM_TIMEOUT_S = 8.0  # the LIM asks every peer before it answers
SAMPLING_COST_MAX = 0.01  # fraction of a core
SAMPLE_HZ_MIN = 1.0
# how daemons are started by the package's units, and on which host
STARTS = re.compile(
    rf"(on (\S+), )?(?:{re.escape(START)}|run `systemctl start lbd[^`]*` or `lbd up`)"
)
PORT_IN_USE = re.compile(r"cannot listen on .*:(\d+)")


def checks(config: Config) -> Iterator[Check]:
    start = start_in_lab(config.host.runtime_dir)
    for found in all_checks(config):
        yield in_lab(found, config.host.name, start) if start else found


def in_lab(found: Check, own: str, start: str) -> Check:
    """In a lab its own command starts daemons, not systemd. `start`: that for this host, `own`."""

    def of_lab(given: re.Match[str]) -> str:
        return f"{given[1] or ''}run `{start.replace(f' {own}', f' {given[2] or own}', 1)}`"

    return replace(found, fix=STARTS.sub(of_lab, found.fix))


def all_checks(config: Config) -> Iterator[Check]:
    origin = config.path or "built-in defaults: one host, loopback"
    yield Check("configuration", OK, origin)
    local = [*local_checks(config)]
    yield from local
    is_out = any((one.name, one.state) == ("certificate", FAULT) for one in local)
    yield from host_checks(config)
    yield from rules_checks(config.admission)
    daemons = Daemons(config)
    yield from check_lim(daemons, is_out=is_out)
    yield from settings(daemons, is_out=is_out)
    yield from queue_settings(daemons)
    yield from check_lbm(daemons)
    yield from check_metrics(daemons)
    yield from lbsh_checks(config)


def check_lim(daemons: Daemons, *, is_out: bool = False) -> Iterator[Check]:
    """`is_out`: this host's certificate is not valid."""
    try:
        daemons.lim({"op": "status"}, HANGS_S)  # whether it hangs
        reply = daemons.lim({"op": "doctor"}, LIM_TIMEOUT_S)
        status = daemons.lim({"op": "status"}, HANGS_S)  # after it, so as not to be older
    except LbdError as problem:
        yield absent("LIM", daemons, "lim", problem)
        return
    yield Check("LIM", OK, f"answers on {daemons.socket('lim')}")
    yield version("LIM", text(reply, "version"))
    yield from sampler(reply)
    yield from descriptors("LIM", reply)
    peers = tables(reply, "peers")
    rows = {text(row, "name"): row for row in tables(status, "hosts")}
    for item in peers:
        yield from peer(item, rows.get(text(item, "name"), {}))
    yield from incoming(peers, rows, daemons.config)
    yield from join_address(rows.values(), daemons.config)
    yield from administrators_hosts(rows.values(), daemons.config)
    yield from algorithms(text(reply, "algorithm"), peers)
    lims_away = {text(item, "name") for item in peers if item.get("reachable") is not True}
    yield from ports(daemons, rows, lims_away)
    yield from authority(daemons)
    own = rows.get(daemons.config.host.name, {})
    first_fix = SEE_CERTIFICATE if is_out else SEE_LBM if is_alone(own) else ""
    if not is_out and is_told_revoked(daemons.config.host.name, peers):
        first_fix = SEE_REVOKED
    elif not is_out and (cut_off := [*network(peers, rows)]):
        yield from cut_off
        first_fix = SEE_NETWORK
    yield from queue(daemons, lims_away, first_fix)
    if not peers:
        yield no_peers(daemons, first_fix)


def no_peers(daemons: Daemons, first_fix: str = "") -> Check:
    cluster, says = daemons.config.cluster, "none: every command runs here"
    if has_joined_since(daemons):
        says = "none: this host has joined a cluster, but its daemons do not use its certificate"
        return Check("peers", FAULT, says, "`lbctl restart`: they were started before")
    if not cluster.join:
        return Check("peers", WARN if cluster.hosts else OK, says)
    fix = f"if {cluster.join} no longer exists: {join_fix(daemons.config)}, then `lbctl restart`"
    return Check("peers", WARN, says, first_fix or fix)


def has_joined_since(daemons: Daemons) -> bool:
    """Returns whether this host has had its certificate only since its LIM was started."""
    try:
        found = daemons.lim({"op": "settings"}, HANGS_S)
        return found.get("signs") is False and host_files(daemons.config).exist()
    except LbdError:
        return False


def has_certificate_since(daemons: Daemons) -> bool:
    """Returns whether this host has had its certificate only since its LBM was started."""
    try:
        rows = tables(daemons.lim({"op": "status"}, HANGS_S), "hosts")
        own = [row for row in rows if text(row, "name") == daemons.config.host.name]
        return any(map(is_alone, own)) and host_files(daemons.config).exist()
    except LbdError:
        return False


def sampler(reply: Json) -> Iterator[Check]:
    rate_hz, cost = number(reply, "sampling_hz"), number(reply, "sampling_cost_core")
    scope = f"scope {text(reply, 'scope')}: {text(reply, 'scope_reason')}"
    yield Check("load", OK, scope)
    says = f"{rate_hz:.1f} readings a second, {cost:.2%} of a core"
    if cost > SAMPLING_COST_MAX:
        fix = "lower load.scan_core_share, or set load.scope = host where that is right"
        yield Check("sampling", WARN, f"{says}: costs too much", fix)
    elif rate_hz < SAMPLE_HZ_MIN:
        fix = "raise load.scan_core_share: fewer readings track the load less well"
        yield Check("sampling", WARN, f"{says}: too few", fix)
    else:
        yield Check("sampling", OK, says)
    if command := text(reply, "site_command"):
        fault = text(reply, "site_fault")
        fix = "correct it, or what it needs; until then the smoothed index is used" if fault else ""
        says = f"{command}: {fault or 'prints loads'}"
        yield Check("site's loads", WARN if fault else OK, says, fix)
    cores, speed = number(reply, "cores"), number(reply, "speed")
    yield Check("cores", OK, f"{cores:g} usable, speed {speed:.2f} of the reference machine")


def check_lbm(daemons: Daemons) -> Iterator[Check]:
    try:
        reply = daemons.lbm({"op": "status"})
    except LbdError as problem:
        yield absent("LBM", daemons, "lbm", problem)
        return
    if has_certificate_since(daemons):
        says = "runs without this host's certificate, so other hosts cannot reach it"
        yield Check("LBM", FAULT, says, "`lbctl restart`: it was started before that came")
    else:
        yield Check("LBM", OK, f"answers on {daemons.socket('lbm')}")
    yield version("LBM", text(reply, "version"))
    yield from containment(reply, daemons.config.host.name)
    yield from limits(reply, daemons.config)
    yield from slots(reply, daemons.config)
    yield from owner_seen(reply, daemons.config)
    if number(reply, "keeper") > 0:
        pid = int(number(reply, "keeper"))
        yield from keeper_state(pid)
        yield from keeper_users(pid, daemons.config)
    yield from descriptors("LBM", descriptors_of(daemons.socket("lbm").with_suffix(".pid")))
    yield from sharing(daemons)


def check_metrics(daemons: Daemons) -> Iterator[Check]:
    """Checks whether the metrics are served: a port in use ends no daemon."""
    listen = daemons.config.metrics.listen
    if not listen:
        return
    try:
        reply = ask(daemons.socket("metrics"), {"op": "status"}, HANGS_S)
    except LbdError:
        fix = f"start it: {start_of_metrics(daemons)}"
        yield Check("metrics", FAULT, f"nothing is listening on {listen} (metrics.listen)", fix)
        return
    if trouble := text(reply, "trouble"):
        fix = "stop what is listening there (ss -ltnp), or set metrics.listen to another port"
        yield Check("metrics", FAULT, trouble, fix)
        return
    secure = "TLS" if reply.get("tls") is True else "no TLS"
    yield Check("metrics", OK, f"served on {listen}, {secure}")


def version(daemon: str, found: str) -> Check:
    if found == __version__:
        return Check(f"{daemon} version", OK, found)
    says = f"runs {found}, installed is {__version__}"
    return Check(f"{daemon} version", FAULT, says, "restart the daemons of this host")


def absent(name: str, daemons: Daemons, daemon: str, problem: LbdError) -> Check:
    """Distinguishes a daemon that does not run from one that does not answer, since the fixes
    differ."""
    path = daemons.socket(daemon)
    if not isinstance(problem, Unavailable):
        return Check(name, FAULT, str(problem), f"see the log of `lbd {daemon}`")
    start = how_to_start([daemons.config.host.runtime_dir])
    if path.exists() and "did not answer" in str(problem):
        says = str(problem).partition(";")[0]
        pid = pid_of_holder(path.with_suffix(".pid"))
        kill = f"`kill -9 {pid}`" if pid else "kill it"
        return Check(name, FAULT, says, f"it hangs or is stopped: {kill}, and it will be restarted")
    if why := last_words.read(daemons.config.host.runtime_dir, daemon):
        fix = fix_before_start(daemon, why, daemons.config.host.address, start)
        return Check(name, FAULT, f"not running: {why}", fix)
    says, lab = f"{path} is stale", ""
    if not path.exists():
        says, lab = f"no {path}", own_lab_advice(daemons.config.host.runtime_dir)
    return Check(name, FAULT, f"not running: {says}", lab or start)


def fix_before_start(daemon: str, why: str, address: str, start: str) -> str:
    """`why`: the last words of a daemon that could not start; `address`: this host's; `start`: how
    its daemons are started."""
    if (in_use := PORT_IN_USE.search(why)) and not is_elsewhere(address):
        holder = holder_of(int(in_use[1])) or "what is listening there (ss -ltnp)"
        return f"stop {holder}, or set {daemon}.port to another port; then {start}"
    return f"correct that first; then {start}"


def holder_of(port: int) -> str:
    """Returns the process that listens on a TCP port; "" if none does or we may not see it."""
    try:
        found = psutil.net_connections("tcp")
        pid = next(
            (o.pid for o in found if o.status == psutil.CONN_LISTEN and o.laddr[1:] == (port,)),
            None,
        )
        return f"{psutil.Process(pid).name()} (process {pid})" if pid else ""
    except (psutil.Error, OSError):
        return ""
