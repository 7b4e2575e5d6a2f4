"""The meaning of the names in a certificate.

A host's certificate has these DNS names: the host's own name, its name with the number of the
*issue* (`0.h2.lbd`), and one that all hosts of the cluster have. `lbctl revoke h2` makes 1 the
lowest valid issue of h2. So the list of revocations has one number per revoked host and does not
grow with renewals. A caller refuses a revoked host within the TLS handshake by asking for the name
`1.h2.lbd`, because Python's gRPC shows the peer's certificate to servers only. A certificate also
names lower issues, for callers that have not heard of the revocation.

TLS compares names without case, drops a trailing dot, and takes `*` for any label. Therefore a
host's name obeys `host_name`, names that differ only in case are one host, a server accepts a
certificate only with exactly the names that the authority gives (`identity_of`), and a caller
trusts the authority only for names of the host it asks for (`der.narrowed`).
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from lbd.text.host_name import LABEL_OF_OURS, NAME_RULE, is_host_name

SUFFIX = LABEL_OF_OURS
ANY_HOST = f"any{SUFFIX}"  # any host of the cluster at that address
ISSUES_NAMED = 8  # the latest issue and those before it
DIGITS_MAX = 9  # of an issue's number


@dataclass(frozen=True, slots=True)
class Identity:
    """The host that a certificate names."""

    host: str
    issue: int


def issue_name(host: str, issue: int) -> str:
    return f"{issue}.{host}{SUFFIX}"


def names_of(host: str, issue: int) -> list[str]:
    """Returns the DNS names of a certificate."""
    issues = range(max(0, issue - ISSUES_NAMED + 1), issue + 1)
    return [host, *(issue_name(host, number) for number in issues), ANY_HOST]


def identity_of(names: Sequence[str]) -> Identity | None:
    """Returns None unless these are exactly the names that the authority gives to one host."""
    host, *more = [name for name in names if is_host_name(name)] or [""]
    if more or why_not(host):
        return None
    after = f".{host}{SUFFIX}"
    numbers = [name.removesuffix(after) for name in names if name.endswith(after)]
    issue = max((int(n) for n in numbers if n.isdecimal() and len(n) <= DIGITS_MAX), default=0)
    given = names_of(host, issue)
    return Identity(host, issue) if sorted(names) == sorted(given) else None


def asked_names(host: str) -> list[str]:
    """Returns the names to which every name in the host's certificate is equal, or of which it is a
    subdomain."""
    return [host, f"{host}{SUFFIX}", ANY_HOST]


def why_not(host: str) -> str:
    """Returns why no certificate can name this host, or ""."""
    if not is_host_name(host):
        return NAME_RULE
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "" if any(mark.isalpha() for mark in host) else "has no letter in it"
    return "is an address"
