"""What the names in a certificate mean.

A host's certificate carries, as DNS names: the host's own name, its name with the number of the
*issue* (`0.h2.lbd`), and one that all hosts of the cluster have. `lbctl revoke h2` makes 1 the
lowest valid issue of h2. So the list of revoked hosts is a number for each of them and does not
grow with renewals, and a caller refuses a revoked host within the TLS handshake, by asking for the
name `1.h2.lbd`: Python's gRPC lets a server see its caller's certificate, but no caller that of its
server. A certificate names lower issues, too, for callers that have not heard of the revocation.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

SUFFIX = ".lbd"
ANY_HOST = f"any{SUFFIX}"  # whoever of the cluster answers there
ISSUES_NAMED = 8  # the latest and those before it
NAME_CHARS_MAX = 200  # of 253 that a DNS name may have


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a certificate names."""

    host: str
    issue: int


def issue_name(host: str, issue: int) -> str:
    return f"{issue}.{host}{SUFFIX}"


def names_of(host: str, issue: int) -> list[str]:
    """The DNS names of a certificate."""
    issues = range(max(0, issue - ISSUES_NAMED + 1), issue + 1)
    return [host, *(issue_name(host, number) for number in issues), ANY_HOST]


def identity_of(names: Iterable[str]) -> Identity | None:
    """None if they are not the names of one host."""
    given = set(names)
    found: dict[str, int] = {}
    for name in given:
        number, dot, rest = name.partition(".")
        if dot and number.isdecimal() and rest.endswith(SUFFIX):
            host = rest.removesuffix(SUFFIX)
            found[host] = max(int(number), found.get(host, 0))
    if len(found) != 1:
        return None
    ((host, issue),) = found.items()
    return Identity(host, issue) if host in given else None


def why_not(host: str) -> str:
    """Why no certificate can name this host, or ""."""
    if len(host) > NAME_CHARS_MAX:
        return f"is longer than {NAME_CHARS_MAX} characters"
    if host.lower().endswith(SUFFIX):
        return f"ends in {SUFFIX}, as only names of certificates do"
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "" if any(mark.isalpha() for mark in host) else "has no letter in it"
    return "is an address"
