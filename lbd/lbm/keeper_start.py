"""Starting a keeper, a process that knows nothing of asyncio or gRPC."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import lbd
from lbd.config.schema import Config
from lbd.keeper.gate import pack_gate
from lbd.keeper.kept_ports import pack_places
from lbd.local.socket_file import bind_unix
from lbd.process.written_disks import spool_root
from lbd.trust.files import host_files

STARTER = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from lbd.process.late_imports import OF_KEEPER, put_off; put_off(OF_KEEPER); "
    "from lbd.keeper.loop import main; main(sys.argv[1:])"
)


def start_keeper(path: Path, config: Config) -> None:
    """Starts a keeper that listens at `path`, in a session of its own so that it outlives us."""
    listener = bind_unix(path, 0o600)
    listener.setblocking(True)
    try:
        subprocess.Popen(
            keeper_command(listener, path, config, os.geteuid()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(listener.fileno(),),
            start_new_session=True,
        )
    finally:
        listener.close()


def keeper_command(listener: socket.socket, path: Path, config: Config, lbm_uid: int) -> list[str]:
    """The command line of a keeper for an LBM that runs as `lbm_uid`."""
    package_root = str(Path(lbd.__file__).parent.parent)
    return [
        sys.executable,
        "-I",
        "-S",
        "-c",
        STARTER,
        package_root,
        str(listener.fileno()),
        str(path.parent),
        config.lbm.cgroup,
        str(config.lbm.orphan_after_s),
        str(config.lbm.kill_grace_s),
        str(config.up.watchdog_s),
        pack_gate(config.users, lbm_uid),
        places_of(config),
        spool_root(config.host.state_dir),
    ]


def places_of(config: Config) -> str:
    """Where the daemons listen for other hosts. Any host may be told to run the dispatcher."""
    ports: tuple[int, ...] = config.lim.port, config.lbm.port, config.dispatch.port
    if not (config.security.key_file or host_files(config).exist()):
        ports = ()  # this host is alone: see net/trusted.py
    return pack_places(config.host.address, ports)
