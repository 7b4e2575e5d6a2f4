"""Chooses a host's trust by what it has: a certificate, else a lab's key, else none."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from lbd.config.schema import Config
from lbd.net.tls import Tls
from lbd.net.transport import Plain, check_listen_address, packed_address, read_key
from lbd.trust.files import authority_dir, host_files

if TYPE_CHECKING:
    from lbd.trust.authority import Authority

log = logging.getLogger("lbd.tls")


def trust_of(config: Config, admits: bool = False) -> Tls | Plain | None:
    """Returns None if this host is alone; it then opens no network port.

    `admits`: newcomers join through this server, if the authority is on this host.

    Raises ConfigError.
    """
    files = host_files(config)
    packed_address(config.host.address)  # checked even if no one calls there
    if files.exist():
        return Tls(config.host.name, files, (lambda: authority_of(config)) if admits else None)
    if not config.security.key_file:
        log.info(
            "no certificate in %s (`lbctl init`, `lbctl join`): running without other hosts",
            files.root,
        )
        return None
    check_listen_address(config.host.address)
    return Plain(config.host.name, read_key(config.security.key_file))


def authority_of(config: Config) -> "Authority | None":
    """Returns the cluster's authority if it is on this host. Imports it only there, to save memory
    elsewhere."""
    root = authority_dir(config)
    if not root.exists():
        return None
    from lbd.net.signer import SOCKET, AskedAuthority

    socket = Path(config.host.runtime_dir, SOCKET)
    authority = AskedAuthority(root, config.tls.certificate_s, socket)
    return authority if authority.exists() else None
