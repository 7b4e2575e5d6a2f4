"""Which trust a host has, by what is there: a certificate, or else a lab's key, or else none."""

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
    """None: this host is alone, and opens no network port.

    `admits`: this server is the one that newcomers join by, if the authority is on this host.
    Raises ConfigError.
    """
    files = host_files(config)
    packed_address(config.host.address)  # a slip in it is one however few may call there
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
    """The cluster's, if it is on this host; only there what it is made of is worth its memory."""
    root = authority_dir(config)
    if not root.exists():
        return None
    from lbd.net.signer import SOCKET, AskedAuthority

    socket = Path(config.host.runtime_dir, SOCKET)
    authority = AskedAuthority(root, config.tls.certificate_s, socket)
    return authority if authority.exists() else None
