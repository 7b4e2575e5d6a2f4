"""The authority's records: the issued certificates and the open tokens."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lbd.errors import ConfigError, LbdError
from lbd.trust.files import read
from lbd.trust.names import ISSUES_NAMED
from lbd.trust.revocations import Revocations

# What happened between a copy and its restoration is unknown. Fewer hosts were revoked:
NUMBERS_SKIPPED = 1000
# and no host was issued more certificates, renewals aside. A certificate names all of these issues,
# so that it is valid, too, with hosts that have not heard of the revocation.
ISSUES_SKIPPED = ISSUES_NAMED - 1


@dataclass(frozen=True, slots=True)
class Known:
    """A host that was issued a certificate."""

    issue: int
    until_s: float  # UNIX time at which its newest certificate expires
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token as the authority stores it, without the secret needed to use it."""

    id: str
    anchor: str  # PEM
    until_s: float
    host: str = ""  # the only host that may join with it; "" = any
    used_by: tuple[str, ...] = ()  # the hosts that joined with it
    uses_left: int = 1


@dataclass(frozen=True, slots=True)
class Ledger:
    cluster: str
    home: str  # the authority's host
    number: int = 0  # of the list of revocations
    hosts: dict[str, Known] = field(default_factory=dict)
    tokens: tuple[TokenRecord, ...] = ()
    target: str = ""  # address of its LIM, "10.0.0.2:7901", once the authority has moved
    # Of a copy that was taken up: the hosts that were issued a certificate, or revoked, since then.
    # Others may have been so after the copy was made. None: it is no copy.
    settled: tuple[str, ...] | None = None

    def revocations(self) -> Revocations:
        lowest = {
            host: known.issue + known.revoked
            for host, known in self.hosts.items()
            if known.issue + known.revoked > 0
        }
        return Revocations(self.number, lowest, f"{self.home} {self.target}" if self.target else "")

    def others(self, own: str, now_s: float) -> list[str]:
        """Returns the hosts other than `own` with valid certificates."""
        held = (host for host, one in self.hosts.items() if not one.revoked and one.until_s > now_s)
        return sorted(host for host in held if host != own)

    def without(self, host: str) -> "Ledger":
        """Returns the ledger with the host's certificates revoked, also those that it may have been
        issued after this copy was made."""
        known = self.hosts.get(host, Known(0, 0.0))
        skipped = 0 if self.is_settled(host) else ISSUES_SKIPPED - 1
        hosts = {**self.hosts, host: replace(known, issue=known.issue + skipped, revoked=True)}
        return replace(self.with_settled(host), hosts=hosts, number=self.number + 1)

    def is_settled(self, host: str) -> bool:
        """Whether all certificates are on record that the host was issued."""
        return self.settled is None or host in self.settled

    def with_settled(self, host: str) -> "Ledger":
        is_new = not self.is_settled(host)
        return replace(self, settled=(*(self.settled or ()), host)) if is_new else self

    def begun_again(self, known: Revocations, *, is_home_new: bool) -> "Ledger":
        """Returns the ledger of a restored copy. `known`: the revocations that its host has heard
        of, which may be newer than the copy: revoked hosts stay revoked. `is_home_new`: its host
        has lost its own certificate.

        Hosts accept a list of revocations only if its number is above the one they have. Tokens of
        the copy may have been used, or revoked, since: none is valid any more."""
        hosts = dict(self.hosts)
        for name, lowest in known.lowest.items():
            was = hosts.get(name, Known(0, 0.0))
            if was.issue < lowest:
                hosts[name] = replace(was, issue=lowest - 1, revoked=True)
        number = max(self.number, known.number) + NUMBERS_SKIPPED
        begun = replace(self, hosts=hosts, tokens=(), settled=(), number=number - 1)
        out = [name for name, one in hosts.items() if one.revoked]
        for name in (*out, self.home) if is_home_new and self.home in hosts else out:
            begun = begun.without(name)
        return replace(begun, number=number)

    def moved_to(self, host: str, target: str, known: Revocations) -> "Ledger":
        """Returns the ledger of a copy with which the authority has moved to `host`. `known`: as
        for `begun_again`. Raises LbdError."""
        moved = self.begun_again(known, is_home_new=False)
        moved.check_member(host)
        return replace(moved, home=host, target=target)

    def check_member(self, host: str) -> None:
        """Checks whether a copy of the authority may continue on this host. Raises LbdError."""
        if host not in self.hosts or self.hosts[host].revoked:
            raise LbdError(f"{host} is revoked, or joined after this copy was made: use a host "
                           "that was in the cluster then")  # fmt: skip

    def tokens_of(self, host: str) -> list[TokenRecord]:
        """Returns those that are for the host, and those with which it has joined: it still has
        them."""
        return [one for one in self.tokens if one.host == host or host in one.used_by]

    def has_open_tokens(self, now_s: float) -> bool:
        return any(token.uses_left and now_s < token.until_s for token in self.tokens)

    def token(self, number: str) -> TokenRecord | None:
        return next((token for token in self.tokens if token.id == number), None)


def read_ledger(file: Path) -> Ledger:
    """Raises ConfigError."""
    try:
        found = json.loads(read(file))
        return Ledger(
            str(found["cluster"]),
            str(found["home"]),
            int(found["number"]),
            {str(host): Known(**known) for host, known in found["hosts"].items()},
            tuple(
                TokenRecord(**{"uses_left": int(not one["used_by"]), **one, "used_by": users(one)})
                for one in found["tokens"]
            ),
            str(found.get("target", "")),
            None if found.get("settled") is None else tuple(map(str, found["settled"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ConfigError(f"{file} is damaged: {problem!r}") from None


def users(token: Mapping[str, object]) -> tuple[str, ...]:
    """Raises TypeError."""
    used_by = token["used_by"]
    if isinstance(used_by, str):  # as earlier releases wrote it: the last one
        return (used_by,) if used_by else ()
    if not isinstance(used_by, list):
        raise TypeError("used_by")
    return tuple(map(str, used_by))
