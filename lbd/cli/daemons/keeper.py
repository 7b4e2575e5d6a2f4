"""`lbd keeper`: runs the keeper in the foreground, for an LBM that does not run as root."""

import os
from pathlib import Path
from typing import NoReturn

from lbd.cli.complaints import complain
from lbd.cli.daemons.privilege import daemons_account, make_workdir_root
from lbd.config.schema import Config
from lbd.lbm.keeper_start import keeper_command
from lbd.local.socket_file import bind_unix
from lbd.process.own_directory import RUNTIME, make_own


def run(config: Config) -> NoReturn:
    """Becomes the keeper. Raises LbdError."""
    account = daemons_account(config)
    path = Path(config.host.runtime_dir, "keeper.sock")
    if account is None:
        make_own(path.parent, RUNTIME)
    else:
        make_own(path.parent, RUNTIME, {0, account.uid})
        if said := make_workdir_root(config, account):
            complain("lbd keeper", said)
    listener = bind_unix(path, 0o600, account.uid if account else None)
    listener.setblocking(True)
    os.set_inheritable(listener.fileno(), True)
    command = keeper_command(listener, path, config, account.uid if account else os.geteuid())
    os.execv(command[0], command)
