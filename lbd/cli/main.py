"""`lbd`: the daemons, the lab and the simulator. A subcommand is imported when it is asked for."""

import argparse
import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lbd.cli.program import Parser, guard
from lbd.config_file import load
from lbd.rpc.grpc_environment import settle
from lbd.spelling import hint

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbd.config import Config

DAEMONS = {
    "lim": "watch this host's load, share it with the other hosts, say where commands should run",
    "lbm": "run commands here, and send them to other hosts",
    "keeper": "start commands as their users, for an LBM that is not root",
    "authority": "sign certificates, for a LIM that is not root; on the host of `lbctl init`",
    "dispatcher": "the queue of the cluster",
    "up": "this host's daemons, restarted when they die",
}
WITHOUT_PRIVILEGE = ("lim", "lbm", "dispatcher")
COMMANDS = {
    **DAEMONS,
    "lab": "a cluster of real daemons on this one machine",
    "sim": "the same policies in virtual time",
}

DESCRIPTION = """load-balancing daemons: a plain command runs on the host where it ends soonest

commands:
""" + "\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items())  # fmt: skip
EXAMPLES = (
    "lbd lab up --hosts 4          four hosts on this machine, to try things out",
    "lbd up                        this host's daemons, in the foreground",
    "lbd lim --config /etc/lbd/lbd.toml --set lim.algorithm=LOWEST",
)


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    return guard("lbd", lambda: dispatch(arguments))


def dispatch(argv: list[str]) -> int:
    parser = Parser("lbd", DESCRIPTION, EXAMPLES)
    parser.add_config_options()
    parser.add_version()
    parser.add_argument("command", metavar="COMMAND", nargs="?", help="see above")
    parser.add_argument("rest", metavar="…", nargs=argparse.REMAINDER, help="its own --help")
    options = parser.parse_args(argv)
    command: str | None = options.command
    if command in DAEMONS:
        return guard(f"lbd {command}", lambda: run_daemon(command, options.rest, options.config))
    if command == "lab":
        if options.config:
            os.environ["LBD_CONFIG"] = options.config
        return guard("lbd lab", lambda: run_lab(options.rest))
    if command == "sim":
        return guard("lbd sim", lambda: run_sim(options.rest))
    if command is None:
        parser.error(f"which command? {', '.join(COMMANDS)}")
    parser.error(f"{command!r} is no command; {hint(command, COMMANDS)}")


def run_daemon(command: str, argv: list[str], config_path: str | None) -> int:
    """`lbd lim|lbm|up`: the rest of the command line, the configuration, then the daemon itself."""
    parser = Parser(f"lbd {command}", DAEMONS[command])
    parser.add_version()
    parser.add_config_options()
    parser.add_argument(
        "--set", metavar="SECTION.KEY=VALUE", action="append", default=[], dest="overrides",
        help="override one value of the file; may be repeated",
    )  # fmt: skip
    options = parser.parse_args(argv)
    config = load(options.config or config_path, options.overrides)
    settle(os.environ)
    if command in WITHOUT_PRIVILEGE:
        prepare(config, command)
    if command == "up":  # what it starts is to get the same options
        supervise: Callable[[Config, list[str]], int] = importlib.import_module("lbd.cli.up").run
        return supervise(config, options.overrides)
    run: Callable[[Config], int] = importlib.import_module(f"lbd.cli.{command}").run
    return run(config)


def prepare(config: "Config", command: str) -> None:
    """Who runs it, and in whose directories, before it does anything there. Raises ConfigError."""
    from lbd.cli.privilege import refuse_root
    from lbd.rpc.own_directory import RUNTIME, STATE, make_own

    refuse_root(config, command)
    make_own(Path(config.host.runtime_dir), RUNTIME)
    make_own(Path(config.host.state_dir), STATE)


def run_lab(argv: list[str]) -> int:
    run: Callable[[list[str]], int] = importlib.import_module("lbd.cli.lab").main
    return run(argv)


def run_sim(argv: list[str]) -> int:
    run: Callable[[list[str]], int] = importlib.import_module("lbd.cli.sim").main
    return run(argv)


if __name__ == "__main__":
    sys.exit(main())
