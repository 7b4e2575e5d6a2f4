"""Hosts that were revoked, and so had their jobs submitted by nobody who is trusted now. Pure.

`lbctl revoke` ends the commands of a host. So its jobs begin nowhere. After a minute they are
ended, unless the host has been heard again: the token for a reinstalled machine revokes its
earlier certificates, too. Of a host that was revoked before this dispatcher began it is not known
whether it has joined again: its jobs wait until it is heard.
"""

from collections.abc import Iterable

GRACE_S = 60.0


class RevokedOrigins:
    def __init__(self, earlier: Iterable[str] = ()) -> None:
        self._out = set(earlier)
        self._since_s: dict[str, float] = {}  # of those whose jobs are to be ended

    def revoked(self, hosts: Iterable[str], now_s: float) -> None:
        for host in hosts:
            self._out.add(host)
            self._since_s[host] = now_s

    def heard(self, host: str) -> None:
        """It has shown a valid certificate."""
        self._out.discard(host)
        self._since_s.pop(host, None)

    def due(self, now_s: float) -> list[str]:
        """Returns those whose jobs are to be ended now."""
        return [host for host, since_s in self._since_s.items() if now_s >= since_s + GRACE_S]

    def ended(self, host: str) -> None:
        """All its jobs were told to end."""
        self._since_s.pop(host, None)

    def why_not(self, origin: str) -> str:
        """Returns why a job that was submitted there does not begin; "" if it may."""
        if origin not in self._out:
            return ""
        return f"{origin}, where it was submitted, is revoked and has not joined again"
