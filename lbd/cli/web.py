"""`lbd web`: serves the cluster's status page, as seen from this host."""

import argparse
import importlib.util
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from lbd.cli.complaints import complain
from lbd.cli.program import Parser
from lbd.config.load import load
from lbd.errors import ConfigError
from lbd.process.pid_lock import take_pid_lock
from lbd.process.stop import Stop
from lbd.text.install_line import lacks

if TYPE_CHECKING:
    from lbd.web.address import Address
from collections.abc import MutableMapping

NEEDED = ("jinja2", "starlette", "uvicorn")
EXAMPLES = (
    "lbd web                              http://127.0.0.1:9480/, for this machine's users",
    "lbd web --listen 10.0.0.7:9480       for others too, with the cluster's certificate",
    "lbctl web login                      a link that signs you in, once",
)
USUAL_LISTEN = "127.0.0.1:9480"
FIRST = 3  # first descriptor that systemd passes
VARIABLES = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")


def main(argv: list[str]) -> int:
    about = "serve the cluster's status page; users who have signed in can act on jobs"
    parser = Parser("lbd web", about, EXAMPLES)
    parser.add_version()
    parser.add_config_options()
    parser.add_argument(
        "--listen", metavar="ADDRESS:PORT", default=USUAL_LISTEN,
        help=f"address and port (default {USUAL_LISTEN}, or what lbd-web.socket passes); port 0: "
             "any free port",
    )  # fmt: skip
    return serve(parser.parse_args(argv))


def serve(options: argparse.Namespace) -> int:
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise ConfigError(lacks("this", missing))
    from lbd.cli.daemons.privilege import become, check_program, daemons_account
    from lbd.cli.daemons.wiring import Ready, run_daemon
    from lbd.web.as_user import Connector
    from lbd.web.login_socket import own_directory
    from lbd.web.server import Web

    config = load(options.config)
    account = daemons_account(config)
    if account is not None:
        check_program(account)
    sock, address = listener(options.listen)
    runtime_dir = Path(config.host.runtime_dir)
    paths = tuple(runtime_dir / f"{daemon}.sock" for daemon in ("lim", "lbm"))
    directory = own_directory(config)
    connector = Connector(paths, (sock,)) if os.geteuid() == 0 else None
    lock = take_pid_lock(directory / "web.pid", program="lbd web")
    if account is not None:  # nothing needs root any more
        become(account)
    elif connector is None:
        complain("lbd web", f"acts only as user {os.geteuid()}, and only that user can sign in")

    async def run(stop: Stop, ready: Ready) -> None:
        web = Web(config, address, connector, directory)

        def is_ready() -> None:
            print(web.url, flush=True)
            ready(web.url)

        await web.run(sock, stop, is_ready)

    try:
        return run_daemon("lbd web", config, run)
    finally:
        sock.close()
        os.close(lock)
        if connector is not None:
            connector.close()


def listener(listen: str) -> tuple[socket.socket, "Address"]:
    """Returns the socket that systemd passed, or our own. Raises ConfigError."""
    from lbd.web.address import Address, bind, read_address

    handed = handed_sockets(os.environ)
    if len(handed) > 1 or any(one.family == socket.AF_UNIX for one in handed):
        raise ConfigError("lbd-web.socket: needs one ListenStream= with an address and a port")
    try:
        address = read_address(listen)
    except ValueError as problem:
        raise ConfigError(f"--listen: {problem}") from None
    sock = handed[0] if handed else bind(address)
    host, port = sock.getsockname()[:2]
    return sock, Address(host if handed else address.host, port)


def handed_sockets(environment: MutableMapping[str, str]) -> list[socket.socket]:
    """Returns the listening sockets that systemd passes (sd_listen_fds(3)). A service that starts
    on the first connection, or restarts, so refuses no client meanwhile. Removes the variables from
    `environment`, so that processes we start do not see them."""
    count, pid, _ = (environment.pop(name, "") for name in VARIABLES)
    if pid != str(os.getpid()) or not count.isdecimal():
        return []
    found = [socket.socket(fileno=FIRST + number) for number in range(int(count))]
    for sock in found:
        sock.set_inheritable(False)
    return found
