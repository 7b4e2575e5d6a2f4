"""Whether an address belongs to this machine, so that a daemon can listen there."""

import errno
import socket


def is_elsewhere(address: str) -> bool:
    """Returns whether the address certainly belongs to another machine, so that binding fails."""
    try:
        # As bytes: a str needs a codec, which a process that cannot read our files cannot import.
        found = socket.getaddrinfo(address.encode(), 0, type=socket.SOCK_STREAM)
        family, kind, protocol, _, target = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(target)
    except OSError as problem:
        return problem.errno == errno.EADDRNOTAVAIL
    return False
