"""What `lbctl doctor` advises about certificates."""

import time

JOIN_FIX = (
    "run `lbctl token create {}` on the authority's host, then here the `lbctl join` line that it "
    "prints, and `lbctl restart`"
)
REJOIN_FIX = (
    "run `lbctl token create {}` on the authority's host, then on that host the `lbctl join` line "
    "that it prints, and `lbctl restart`"
)
REVOKED_SAYS = "revoked: no host of the cluster talks to this one"
REVOKED_FIX = (
    "is another machine {host} now (`lbctl status` on another host)? A new token for {host} would "
    "revoke that one, so {ended}. Otherwise {joined}"
)
# only the certificates: the rest of the state directory may be the one copy of a queue's ledger
REPLACED_FIX = (
    "save what only this machine has (`lbctl stats --csv`), then end this one: `systemctl disable "
    "--now lbd.target; rm -r {paths}`; it can join again under another name"
)
ENDED_FIX = (
    "it should have been renewed: is lbd-authority running on the authority's host? Then join "
    "again: "
)


def clock_here(now_s: float) -> str:
    """A certificate is judged by this host's clock, so the line says what that shows."""
    return f"by this host's clock: {time.strftime('%Y-%m-%d %H:%M %Z', time.localtime(now_s))}"


def check_clock(otherwise: str, where: str = "here") -> str:
    """To join again is of no use while the clock is wrong. The restart: a daemon waits until the
    time at which the wrong clock has it renew the certificate next."""
    return (
        f"first check the clock {where} with `date`: if it is wrong, set it (chrony or ntpd), then "
        f"`lbctl restart`. If it is right, {otherwise}"
    )
