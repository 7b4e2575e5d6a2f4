"""`lbd authority`: the process that holds the authority's key if the daemons do not run as root."""

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lbd.cli.daemons.privilege import daemons_account
from lbd.cli.daemons.wiring import Ready, run_daemon
from lbd.config.schema import Config
from lbd.errors import ConfigError
from lbd.local import json_socket as local
from lbd.local.caller import Caller
from lbd.model import target_of
from lbd.net.signer import SOCKET, Signer
from lbd.process.stop import Stop
from lbd.trust.authority import Authority
from lbd.trust.enrol import follow_address
from lbd.trust.files import authority_dir, host_files
from lbd.trust.root_directory import check_root_directory

if TYPE_CHECKING:
    from lbd.keeper.local_account import LocalUser

log = logging.getLogger(__name__)


def run(config: Config) -> int:
    """Runs until TERM or INT. Raises LbdError."""
    account = daemons_account(config)
    if account is None:
        raise ConfigError(
            "lbd authority must run as root, and only where LIM and LBM run as another user"
        )
    return run_daemon(
        "lbd authority", config, lambda stop, ready: serve(config, account, stop, ready)
    )


async def serve(config: Config, account: "LocalUser", stop: Stop, ready: Ready) -> None:
    authority = Authority(authority_dir(config), config.tls.certificate_s)
    if not authority.exists():
        raise ConfigError(f"there is no authority in {authority.root}; `lbctl init` creates one")
    check_root_directory(authority.root)
    authority.keep_from(account.gid)
    follow_address(
        authority,
        host_files(config),
        config.host.name,
        target_of(config.host.address, config.lim.port),
    )
    signer = Signer(authority, account.uid)

    async def answer(asked: local.Json, caller: Caller) -> local.Json:
        return await asyncio.to_thread(signer.answer, asked, caller, time.time())

    path = Path(config.host.runtime_dir, SOCKET)
    server = await local.serve_json(path, answer, 0o600)
    os.chown(path, account.uid, -1, follow_symlinks=False)
    ready(f"the key in {authority.root}")
    try:
        await stop.wait()
    finally:
        server.close()
        path.unlink(missing_ok=True)
