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
from lbd.process.written_disks import unmounted
from lbd.trust.files import HostFiles, authority_dir
from lbd.trust.names import Identity, identity_of


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


def refuse_unmounted(config: Config, *others: Path) -> None:
    """Raises ConfigError: a certificate that is only on a disk that is not mounted would be revoked
    by a new one, and the cluster's settings, as where its queue is, are there, too."""
    for path in (config.host.state_dir, authority_dir(config), *others):
        if place := unmounted(str(path)):
            raise ConfigError(
                f"{place} is in /etc/fstab, but nothing is mounted there: `mount {place}`, then "
                "`lbctl doctor`; if that disk is lost, remove its line from /etc/fstab"
            )


def refuse_if_joined(files: HostFiles, authority: Path) -> None:
    if host := name_it_has(files):
        raise ConfigError(joined_already(host, files, authority))


def refuse_another_name(files: HostFiles, name: str) -> None:
    if (host := name_it_has(files)) not in ("", name):
        raise ConfigError(
            f"this host has joined as {host}; to give it another name: `lbctl leave`, "
            f"`lbctl config set host.name {name}`, and join again"
        )


def name_it_has(files: HostFiles) -> str:
    """Returns the name under which this host has joined. A certificate that has expired, was
    revoked or is damaged does not count."""
    try:
        identity = certified(files)
        if identity is None or files.read_credentials().valid_s[1] < time.time():
            return ""
    except (ConfigError, ValueError):
        return ""
    is_valid = identity.issue >= files.read_revocations().lowest_issue(identity.host)
    return identity.host if is_valid else ""


def certified(files: HostFiles) -> Identity | None:
    """Returns whom this host's certificate names, even one that is no longer valid; None if there
    is none, or none that we can read."""
    from lbd.net.tls import names_in

    try:
        return identity_of(names_in(files.read_credentials().certificate))
    except (ConfigError, ValueError):
        return None


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
