"""Whether an address is one of this machine's, so that a daemon may listen there."""

import errno
import socket


def is_elsewhere(address: str) -> bool:
    """Whether it surely is of another machine: the kernel lets nobody listen there."""
    try:
        # As bytes: of text it would want a codec, which who may not read our files cannot import.
        found = socket.getaddrinfo(address.encode(), 0, type=socket.SOCK_STREAM)
        family, kind, protocol, _, target = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(target)
    except OSError as problem:
        return problem.errno == errno.EADDRNOTAVAIL
    return False
