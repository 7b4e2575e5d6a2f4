"""Checks one other host, as this host's LIM reaches it."""

from collections.abc import Iterator

from lbd import __version__
from lbd.console.daemons import START
from lbd.console.reply import Json, number, text
from lbd.doctor.checks import (
    ENDED_FIX,
    FAULT,
    FIRST_HOST_LOST,
    OK,
    REJOIN_FIX,
    WARN,
    Check,
    check_clock,
)
from lbd.model import STOPPED
from lbd.net.details import NOT_REACHED, UNPROVEN
from lbd.text.units import duration_text

CLOCK_SKEW_MAX_S = 2.0
REVOKED_FIX = "if it is to stay out, run `lbctl forget {0}`; to readmit it, " + REJOIN_FIX


def not_reached_fix(host: str, error: str, address: str) -> str:
    if UNPROVEN in error:
        return (
            f"if {host} was revoked: {REVOKED_FIX.format(host)}. If it was not, another machine "
            "answers at its address"
        )
    if error.endswith(" is revoked"):
        whose = error.removesuffix(" is revoked").rpartition(" ")[2]
        return f"if no other machine is {whose} now, {REJOIN_FIX.format(whose)}"
    if error.endswith(" has expired"):
        whose = error.rpartition(" has ")[0].rpartition(" ")[2]  # of the certificate
        # If it is ours, the other host says so: by its clock.
        return check_clock(ENDED_FIX + REJOIN_FIX.format(whose), f"here and on {host}")
    if "refused" in error:  # the machine answers, and no firewall is in the way
        return f"no LIM is listening there: on {host}, run `systemctl start lbd.target` or `lbd up`"
    return (
        f"if {host} is up, check its address{f', here {address}' if address else ''}, that its TCP "
        "ports 7901 and 7902 are open, and run `lbctl doctor` on it"
    )


def not_reached(host: str, error: str) -> str:
    """Says it once, however its own words begin."""
    why = error.removeprefix(f"{host}: ")
    return (
        why.removeprefix("it ")
        if why.startswith(NOT_REACHED)
        else f"cannot be reached: {error or 'no answer'}"
    )


def peer(item: Json, row: Json) -> Iterator[Check]:
    """Checks one other host, as this host's LIM reaches it. `row`: its row of `lbctl status`."""
    name = f"peer {text(item, 'name')}"
    if item.get("skewed") is True:
        says, _, fix = text(item, "error").rpartition(": ")
        yield Check(name, FAULT, says, fix)
        return
    if item.get("reachable") is not True and row.get("revoked") is True:
        fix = REVOKED_FIX.format(text(item, "name"))
        yield Check(name, WARN, "was revoked with `lbctl revoke`: no host talks to it", fix)
        return
    if item.get("reachable") is not True and text(row, "why_down").startswith(STOPPED):
        host = text(item, "name")
        fix = (
            f"on {host}, {START}; if they run, `lbctl doctor` there says more. If it will not come "
            f"back, `lbctl forget {host}`; but if it had the authority or the queue, "
            f"follow {FIRST_HOST_LOST}"
        )
        yield Check(name, WARN, STOPPED, fix)
        return
    if item.get("reachable") is not True:
        fix = not_reached_fix(text(item, "name"), text(item, "error"), text(row, "address"))
        yield Check(name, FAULT, not_reached(text(item, "name"), text(item, "error")), fix)
        return
    reached = f"reached in {number(item, 'rtt_s') * 1000:.1f} ms"
    if text(row, "state") == "down":
        says = f"{reached}, but it is down for this host: {text(row, 'why_down')}"
        fix = f"run `lbctl doctor` on {text(item, 'name')}, and see the log of its LIM and of ours"
        is_new = row.get("age_s") is None  # since this host's LIM started
        yield Check(name, WARN if is_new else FAULT, says, fix)
    else:
        yield Check(name, OK, reached)
    version, skew_s = text(item, "version"), number(item, "clock_skew_s")
    if version and version != __version__:
        fix = "install the same version on every host; adjacent versions work together meanwhile"
        yield Check(name, WARN, f"runs lbd {version}, this host {__version__}", fix)
    if abs(skew_s) > CLOCK_SKEW_MAX_S:
        fix = (
            "compare `date` on both, and run chrony or ntpd where it is wrong: make on shared "
            "files, and certificates, depend on the clock"
        )
        way = "ahead of" if skew_s > 0 else "behind"
        yield Check(name, FAULT, f"its clock is {duration_text(abs(skew_s))} {way} ours", fix)
