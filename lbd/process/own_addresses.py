"""Whether an address is one of this machine's, so that a daemon may listen there."""

import errno
import socket


def is_elsewhere(address: str) -> bool:
    """Whether it surely is of another machine: the kernel lets nobody listen there."""
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[
            0
        ]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(target)
    except OSError as problem:
        return problem.errno == errno.EADDRNOTAVAIL
    return False
