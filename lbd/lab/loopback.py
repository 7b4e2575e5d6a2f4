"""Lab hosts on loopback addresses: needs no privilege, uses the machine's own processes and
network.

Every host hK is 127.x.y.K of a random x.y. The kernel cannot cut such a connection, so the daemons
of both hosts are told to behave as if they could not reach each other.
"""

import random
import socket
from collections.abc import Sequence
from pathlib import Path

from lbd.errors import LbdError, Unavailable
from lbd.lab.plan import choose_subnet
from lbd.local.json_socket import ask

TRIES = 100
CUT_TIMEOUT_S = 2.0


def free_subnet(hosts: int, ports: Sequence[int], rng: random.Random) -> str:
    """Returns a subnet on which these ports are free for all hosts. Raises LbdError."""
    for _ in range(TRIES):
        subnet = choose_subnet("none", rng)
        if all(is_free(f"{subnet}.{n}", port) for n in range(1, hosts + 1) for port in ports):
            return subnet
    numbers = " and ".join(map(str, ports))
    raise LbdError(f"no loopback addresses with free ports {numbers} for {hosts} hosts")


def is_free(address: str, port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address, port))
        except OSError:
            return False
    return True


def send_cuts(sockets: Sequence[Path], peers: Sequence[str]) -> list[str]:
    """Tells these daemons of one host which peers they cannot reach. Returns the complaints of
    those that are running.

    A daemon that is down is told when it is started again; a stopped one reads it when it
    continues.
    """
    complaints = []
    for path in sockets:
        try:
            ask(path, {"op": "cut", "hosts": list(peers)}, CUT_TIMEOUT_S)
        except Unavailable:
            continue
        except LbdError as problem:
            complaints.append(f"{path.parent.parent.name} {path.stem}: {problem}")
    return complaints
