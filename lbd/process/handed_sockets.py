"""The listening sockets that systemd hands over (sd_listen_fds(3)): a service that is started by
the first who asks, or again, refuses nobody meanwhile."""

import os
import socket
from collections.abc import MutableMapping

FIRST = 3
VARIABLES = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")


def handed_sockets(environment: MutableMapping[str, str]) -> list[socket.socket]:
    """Takes their variables out of `environment`: what we start gets none of them."""
    count, pid, _ = (environment.pop(name, "") for name in VARIABLES)
    if pid != str(os.getpid()) or not count.isdecimal():
        return []
    found = [socket.socket(fileno=FIRST + number) for number in range(int(count))]
    for sock in found:
        sock.set_inheritable(False)
    return found
