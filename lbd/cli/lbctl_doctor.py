"""`lbctl doctor`: checks this host and its view of the others; names each fault and its mend."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict

from lbd import __version__
from lbd.cli.daemons import Daemons
from lbd.cli.doctor_checks import (
    FAULT,
    OK,
    WARN,
    Check,
    containment,
    descriptors,
    descriptors_of,
    limits,
    local_checks,
    peer,
)
from lbd.cli.doctor_host import host_checks, keeper_state
from lbd.cli.doctor_peers import algorithms, ports, queue, sharing
from lbd.cli.lbsh_doctor import check_lbsh
from lbd.cli.output import GREEN, RED, YELLOW, Cell, lay_out, paint_for, print_json, put
from lbd.cli.reply import Json, number, tables, text
from lbd.config import Config
from lbd.config_file import load
from lbd.errors import ConfigError, LbdError, Unavailable

COLOURS = {OK: GREEN, WARN: YELLOW, FAULT: RED}
SHOWN = {OK: "ok", WARN: "warn", FAULT: "FAULT"}
HANGS_S = 4.0  # a daemon that does not answer the simplest question for so long
LIM_TIMEOUT_S = 8.0  # it asks every peer before it answers
SAMPLING_COST_MAX = 0.01  # of a core
SAMPLE_HZ_MIN = 1.0


def doctor(path: str | None, options: argparse.Namespace) -> int:
    """Exit 1 if anything is a fault; a warning alone is exit 0."""
    try:
        config = load(path)
    except ConfigError as problem:
        fault = Check("configuration", FAULT, str(problem), "correct that line")
        return report([fault], "", options.json)
    return report([*checks(config)], config.host.name, options.json)


def checks(config: Config) -> Iterator[Check]:
    origin = config.path or "built-in defaults: one host, loopback"
    yield Check("configuration", OK, origin)
    yield from local_checks(config)
    yield from host_checks(config)
    daemons = Daemons(config)
    yield from check_lim(daemons)
    yield from check_lbm(daemons)
    yield from check_lbsh(config)


def check_lim(daemons: Daemons) -> Iterator[Check]:
    try:
        daemons.lim({"op": "status"}, HANGS_S)
        reply = daemons.lim({"op": "doctor"}, LIM_TIMEOUT_S)
    except LbdError as problem:
        yield absent("LIM", daemons, "lim", problem)
        return
    yield Check("LIM", OK, f"answers on {daemons.socket('lim')}")
    yield version("LIM", text(reply, "version"))
    yield from sampler(reply)
    yield from descriptors("LIM", reply)
    peers = tables(reply, "peers")
    for item in peers:
        yield from peer(item)
    yield from algorithms(text(reply, "algorithm"), peers)
    yield from ports(daemons)
    yield from queue(daemons)
    if not peers:
        listed = bool(daemons.config.cluster.hosts or daemons.config.cluster.join)
        yield Check("peers", WARN if listed else OK, "none: every command runs here")


def sampler(reply: Json) -> Iterator[Check]:
    rate_hz, cost = number(reply, "sampling_hz"), number(reply, "sampling_cost_core")
    scope = f"scope {text(reply, 'scope')}: {text(reply, 'scope_reason')}"
    yield Check("load", OK, scope)
    says = f"{rate_hz:.1f} readings a second, {cost:.2%} of a core"
    if cost > SAMPLING_COST_MAX:
        mend = "lower load.scan_core_share, or choose load.scope = host where that is right"
        yield Check("sampling", WARN, f"{says}: costs too much", mend)
    elif rate_hz < SAMPLE_HZ_MIN:
        mend = "raise load.scan_core_share: fewer readings follow the load less well"
        yield Check("sampling", WARN, f"{says}: too few", mend)
    else:
        yield Check("sampling", OK, says)
    if command := text(reply, "site_command"):
        fault = text(reply, "site_fault")
        mend = "correct load.site_command; until then the smoothed index stands in" if fault else ""
        says = f"{command}: {fault or 'prints loads'}"
        yield Check("site's loads", WARN if fault else OK, says, mend)
    cores, speed = number(reply, "cores"), number(reply, "speed")
    yield Check("cores", OK, f"{cores:g} usable, speed {speed:.2f} of the reference machine")


def check_lbm(daemons: Daemons) -> Iterator[Check]:
    try:
        reply = daemons.lbm({"op": "status"})
    except LbdError as problem:
        yield absent("LBM", daemons, "lbm", problem)
        return
    yield Check("LBM", OK, f"answers on {daemons.socket('lbm')}")
    yield version("LBM", text(reply, "version"))
    yield from containment(reply)
    yield from limits(reply, daemons.config)
    if number(reply, "keeper") > 0:
        yield from keeper_state(int(number(reply, "keeper")))
    yield from descriptors("LBM", descriptors_of(daemons.socket("lbm").with_suffix(".pid")))
    yield from sharing(daemons)


def version(daemon: str, found: str) -> Check:
    if found == __version__:
        return Check(f"{daemon} version", OK, found)
    says = f"runs {found}, installed is {__version__}"
    return Check(f"{daemon} version", FAULT, says, "restart the daemons of this host")


def absent(name: str, daemons: Daemons, daemon: str, problem: LbdError) -> Check:
    """Not there, or there and not answering: different mends."""
    path = daemons.socket(daemon)
    if not isinstance(problem, Unavailable):
        return Check(name, FAULT, str(problem), f"see the log of `lbd {daemon}`")
    if not path.exists():
        return Check(name, FAULT, f"not running: no {path}", "start it: lbd up")
    if "did not answer" in str(problem):
        says = str(problem).partition(";")[0]
        return Check(name, FAULT, says, "it hangs or is stopped: kill it, lbd up restarts it")
    return Check(name, FAULT, f"not running: {path} is stale", "start it: lbd up (it clears that)")


def report(found: list[Check], host: str, as_json: bool) -> int:
    faults = sum(check.state == FAULT for check in found)
    warnings = sum(check.state == WARN for check in found)
    if as_json:
        items = [asdict(check) for check in found]
        print_json({"host": host, "faults": faults, "warnings": warnings, "checks": items})
        return 1 if faults else 0
    paint = paint_for(sys.stdout)
    rows = []
    for check in found:
        rows.append((Cell(SHOWN[check.state], COLOURS[check.state]), check.name, check.says))
        if check.mend:
            rows.append((Cell(""), "", f"mend: {check.mend}"))
    put(*lay_out(("", "CHECK", "FOUND"), rows, paint))
    put("", f"{faults} faults, {warnings} warnings")
    return 1 if faults else 0
