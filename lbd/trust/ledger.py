"""The authority's records: the issued certificates and the open tokens."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from lbd.errors import ConfigError, LbdError
from lbd.trust.files import read
from lbd.trust.revocations import Revocations

NUMBERS_SKIPPED = 1000  # more than the hosts revoked between a copy and its restoration


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
    used_by: str = ""  # the last host that joined with it
    uses_left: int = 1


@dataclass(frozen=True, slots=True)
class Ledger:
    cluster: str
    home: str  # the authority's host
    number: int = 0  # of the list of revocations
    hosts: dict[str, Known] = field(default_factory=dict)
    tokens: tuple[TokenRecord, ...] = ()
    target: str = ""  # address of its LIM, "10.0.0.2:7901", once the authority has moved

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
        """Returns the ledger with the host's certificate revoked."""
        hosts = {**self.hosts, host: replace(self.hosts[host], revoked=True)}
        return replace(self, hosts=hosts, number=self.number + 1)

    def begun_again(self, *, is_home_new: bool) -> "Ledger":
        """Returns the ledger of a restored copy: hosts accept a list of revocations only if its
        number is above the one they have. `is_home_new`: its host has lost its own certificate."""
        hosts = dict(self.hosts)
        if is_home_new and self.home in hosts:
            hosts[self.home] = replace(hosts[self.home], revoked=True)
        return replace(self, hosts=hosts, number=self.number + NUMBERS_SKIPPED)

    def moved_to(self, host: str, target: str, known: Revocations) -> "Ledger":
        """Returns the ledger after the authority's move to `host`. `known`: that host's list of
        revocations, which may be newer than this copy: revoked hosts stay revoked. Raises
        LbdError."""
        hosts = dict(self.hosts)
        for name, lowest in known.lowest.items():
            if name in hosts and hosts[name].issue < lowest:
                hosts[name] = replace(hosts[name], issue=lowest - 1, revoked=True)
        replace(self, hosts=hosts).check_member(host)
        number = max(self.number, known.number) + NUMBERS_SKIPPED
        return replace(self, home=host, target=target, hosts=hosts, number=number)

    def check_member(self, host: str) -> None:
        """Checks whether a copy of the authority may continue on this host. Raises LbdError."""
        if host not in self.hosts or self.hosts[host].revoked:
            raise LbdError(f"{host} is revoked, or joined after this copy was made: use a host "
                           "that was in the cluster then")  # fmt: skip

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
                TokenRecord(**{"uses_left": int(not one["used_by"]), **one})
                for one in found["tokens"]
            ),
            str(found.get("target", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ConfigError(f"{file} is damaged: {problem!r}") from None
