"""The web page's address, its host names and its certificate."""

import ipaddress
import os
import socket
from dataclasses import dataclass

from lbd.config.schema import Config
from lbd.errors import ConfigError
from lbd.trust.files import host_files

USUAL = "127.0.0.1:9480"
BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback


def read_address(text: str) -> Address:
    """Parses `127.0.0.1:9480` or `[::1]:9480`. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or not 0 <= int(port) < 1 << 16:
        raise ValueError(f"{text!r} is no address with a port, such as {USUAL}")
    ipaddress.ip_address(host)
    return Address(host, int(port))


def bind(address: Address) -> socket.socket:
    """Raises ConfigError."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((address.host, address.port))
        sock.listen(BACKLOG)
    except OSError as problem:
        sock.close()
        where = f"{address.host}:{address.port}"
        raise ConfigError(f"--listen {where}: {problem.strerror}; choose another address") from None
    return sock


def names_of(address: Address, config: Config) -> list[str]:
    """Returns the host names by which a browser may address this page. `localhost` is none: another
    user may listen at the other address that it means, and would be the same origin."""
    found = [f"[{address.host}]" if ":" in address.host else address.host]
    if not address.is_loopback:
        found += [config.host.name, config.host.address, socket.gethostname()]
    with_port = [f"{name}:{address.port}" for name in found if name]
    return with_port + (found if address.port in (80, 443) else [])


def certificate_for(address: Address, config: Config) -> str | None:
    """Returns the file with the key and its certificates; None on loopback. Raises ConfigError."""
    if address.is_loopback:
        return None
    path = host_files(config).credentials
    if not os.access(path, os.R_OK):
        raise ConfigError(
            f"--listen {address.host}: reachable by others, so it needs the cluster's certificate, "
            f"but {path} cannot be read; listen on {USUAL}, or run this as root or the daemons' "
            "user on a host that has joined"
        )
    return str(path)
