"""An authority in a directory of the test, and hosts that have joined its cluster."""

import time
from pathlib import Path

from lbd.net.tls import Tls
from lbd.trust.authority import Authority, sign
from lbd.trust.enrol import enrol
from lbd.trust.files import EMPTY, HostFiles

DAY_S = 86400.0


def made_authority(directory: Path, cluster: str = "c", host: str = "h1") -> Authority:
    made = Authority(directory, DAY_S)
    made.create(cluster, host, time.time())
    return made


def enrolled(authority: Authority, host: str) -> HostFiles:
    """Returns the files of a host that has joined, beside the authority's."""
    files = HostFiles(authority.root.with_name(f"{authority.root.name}-{host}"))
    enrol(authority, files, host, "127.0.0.1:7901", time.time())
    return files


def joined(authority: Authority, host: str) -> Tls:
    return Tls(host, enrolled(authority, host))


def restored(authority: Authority) -> bytes:
    """The list of a copy of the authority that was restored on another machine."""
    ledger = authority.ledger().begun_again(EMPTY, is_home_new=True)
    return sign(authority.credentials(), ledger.revocations())
