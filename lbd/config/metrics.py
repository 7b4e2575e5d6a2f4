"""The section of lbd.toml about metrics."""

import ipaddress
from dataclasses import dataclass

from lbd.config.fields import Section, one_of, shown
from lbd.errors import ConfigError

CLIENTS = ("joined", "any")


@dataclass(frozen=True, slots=True)
class MetricsConfig(Section):
    # where `lbd metrics` serves this host's metrics for Prometheus: "127.0.0.1:9470"; ":9470" is
    # host.address. Off loopback it uses TLS with this host's certificate. "" = off
    listen: str = ""
    # who may read metrics over TLS: hosts that have joined, or any client
    clients: str = one_of(CLIENTS)


def listen_address(text: str, host_address: str) -> tuple[str, int]:
    """Returns (IP address, port). Raises ConfigError."""
    address, colon, port = text.rpartition(":")
    address = address.removeprefix("[").removesuffix("]") or host_address
    try:
        ipaddress.ip_address(address)
        number = int(port) if colon and port.isascii() and port.isdecimal() else 0
    except ValueError:
        number = 0
    if not 0 < number < 65536:
        raise ConfigError(
            f'metrics.listen: {shown(text)} must be address:port, like "127.0.0.1:9470"'
        )
    return address, number


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback
