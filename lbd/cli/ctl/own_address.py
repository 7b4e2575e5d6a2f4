"""Checks and remarks about the address, lbd.toml, membership and LIM of a host of a cluster."""

import os
import time
from pathlib import Path

from lbd.cli.ctl.own_config import OwnConfig
from lbd.cli.ctl.verb import say
from lbd.config.load import SYSTEM_FILE
from lbd.config.schema import Config
from lbd.errors import ConfigError, LbdError
from lbd.local.json_socket import ask
from lbd.process.own_addresses import is_elsewhere
from lbd.trust.files import HostFiles
from lbd.trust.names import identity_of


def check_address(own: OwnConfig) -> None:
    """Raises ConfigError if the daemons cannot listen on this host's address."""
    address = own.config.host.address
    if not is_elsewhere(address):
        return
    says = f"{address} is not an address of this machine; see `ip address`"
    if ("host", "address") in own.lacking:
        raise ConfigError(f"--address: {says}")
    how = "`lbctl config set host.address ADDRESS` changes it"
    raise ConfigError(f"{own.file}: host.address {says}, and {how}")


def refuse_if_joined(files: HostFiles, authority: Path) -> None:
    """Ignores a certificate that has expired, was revoked or is damaged."""
    if not files.exist():
        return
    from lbd.net.tls import names_in

    try:
        own = files.read_credentials()
        identity, until_s = identity_of(names_in(own.certificate)), own.valid_s[1]
    except (ConfigError, ValueError):
        return
    if identity is None or until_s < time.time():
        return
    if identity.issue >= files.read_revocations().lowest_issue(identity.host):
        raise ConfigError(joined_already(identity.host, files, authority))


def joined_already(host: str, files: HostFiles, authority: Path) -> str:
    """`authority`: the directory of the authority, if it is on this host."""
    home = files.read_home()[0]
    says = f"this host has already joined, as {host}, with the authority on {home}"
    if home != host:
        return f"{says}; to leave that cluster, remove {files.root}"
    how = "to change its address, run `lbctl config set host.address ADDRESS` and restart"
    over = f"to start over: `systemctl stop 'lbd*'; rm -r {files.root}"
    if not os.path.lexists(authority):
        return f"{says}; {how}; {over}`"
    key = f"{authority} holds the cluster's key: only if another host has it"
    return f"{says}; {how}; {over} {authority}` ({key})"


def remarks(own: OwnConfig, path: str | None) -> None:
    """Warns about settings that may not be intended."""
    if own.config.host.address.startswith("127."):
        address = own.config.host.address
        say(f"no other machine can reach this one at {address} (host.address)")
    private = os.geteuid() != 0 and own.file != SYSTEM_FILE
    if private and path is None and "LBD_CONFIG" not in os.environ:
        say(f"not running as root: the cluster serves only your own processes (see {own.file}; "
            "remove that file to undo)")  # fmt: skip


def say_if_unheard(config: Config) -> None:
    try:
        ask(Path(config.host.runtime_dir) / "lim.sock", {"op": "status"}, 2.0)
    except LbdError:
        say("this host's LIM does not answer: other hosts learn of it only once `lbd up` runs here")
