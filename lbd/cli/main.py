"""`lbd`: the daemons, the lab and the simulator. A subcommand is imported only when it is used."""

import importlib
import os
import sys
from typing import TYPE_CHECKING

from lbd.cli.complaints import guard
from lbd.errors import ConfigError
from lbd.net.grpc_environment import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lbd.config.schema import Config

DAEMONS = {
    "lim": "measure this host's load, exchange it with other hosts, decide where commands run",
    "lbm": "run commands here and send them to other hosts",
    "keeper": "start commands as their users, for an LBM that does not run as root",
    "authority": "sign certificates, for a LIM that does not run as root; on the host of `lbctl "
    "init`",
    "dispatcher": "the cluster's queue",
    "metrics": "serve this host's metrics to Prometheus",
    "up": "run and supervise this host's daemons",
}
LATER = {
    "lab": "lbd.cli.lab.program",
    "sim": "lbd.cli.sim.program",
    "slurm": "lbd.cli.slurm",
    "web": "lbd.cli.web",
}
WITHOUT_CONFIG = ("sim", "slurm")
WITHOUT_PRIVILEGE = ("lim", "lbm", "dispatcher", "metrics")
COMMANDS = {
    **DAEMONS,
    "lab": "a cluster of real daemons on this one machine",
    "sim": "the same policies in virtual time",
    "slurm": "Slurm's commands, for programs that know no others",
    "web": "the cluster's status page",
}
ABOUT = "load-balancing daemons: a plain command runs on the host where it ends soonest"
EXAMPLES = (
    "lbd lab up --hosts 4          four hosts on this machine, to try things",
    "lbd up                        this host's daemons, in the foreground",
    "lbd lim --config /etc/lbd/lbd.toml --set lim.algorithm=LOWEST",
)


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    return guard("lbd", lambda: dispatch(arguments))


def dispatch(argv: list[str]) -> int:
    if argv and argv[0] not in COMMANDS and is_of_lbctl(argv[0]):
        raise ConfigError(f"lbd has no command {argv[0]!r}; did you mean `lbctl {argv[0]}`?")
    if (plain := plain_words(argv)) is not None:
        daemon, file, overrides = plain
        return guard(f"lbd {daemon}", lambda: run_daemon(daemon, file, overrides))
    from lbd.cli.program import command_line

    command, words, config = command_line("lbd", ABOUT, COMMANDS, EXAMPLES, argv)
    if command in LATER and config:
        if command in WITHOUT_CONFIG:
            raise ConfigError(f"lbd {command} takes no --config")
        os.environ["LBD_CONFIG"] = config
    if command in LATER:
        run: Callable[[list[str]], int] = importlib.import_module(LATER[command]).main
        return guard(f"lbd {command}", lambda: run(words))
    return guard(
        f"lbd {command}",
        lambda: run_daemon(command, *words_of_daemon(command, words, config)),
    )


def is_of_lbctl(word: str) -> bool:
    from lbd.cli.lbctl import COMMANDS as OF_LBCTL  # not loaded in a daemon

    return word in OF_LBCTL


def plain_words(argv: "Sequence[str]") -> tuple[str, str | None, list[str]] | None:
    """Returns the daemon, its file and its settings if there are no other words, as when daemons
    are started. Returns None if argparse must parse them: with its imports it takes 0.8 MiB in each
    daemon."""
    daemon, file, overrides = "", None, list[str]()
    words = iter(argv)
    for word in words:
        if not daemon and word in DAEMONS:
            daemon = word
            continue
        value = next(words, "")
        if not value or value.startswith("-"):
            return None
        if word == "--config":
            file = value
        elif word == "--set" and daemon:
            overrides.append(value)
        else:
            return None
    return (daemon, file, overrides) if daemon else None


def words_of_daemon(
    command: str, argv: list[str], config_path: str | None
) -> tuple[str | None, list[str]]:
    """Returns the configuration file and the settings."""
    from lbd.cli.program import Parser

    parser = Parser(f"lbd {command}", DAEMONS[command])
    parser.add_version()
    parser.add_config_options()
    parser.add_argument(
        "--set", metavar="SECTION.KEY=VALUE", action="append", default=[], dest="overrides",
        help="override one setting (repeatable)",
    )  # fmt: skip
    options = parser.parse_args(argv)
    return options.config or config_path, options.overrides


def run_daemon(command: str, config_path: str | None, overrides: list[str]) -> int:
    """Runs a daemon of `DAEMONS`: reads the configuration, then starts it."""
    from lbd.process.late_imports import OF_DAEMONS, put_off

    put_off(OF_DAEMONS)
    from lbd.config.load import load  # so that `lbd sim` and `lbd lab` start faster

    config = load(config_path, overrides)
    settle(os.environ)
    if command in WITHOUT_PRIVILEGE:
        prepare(config, command)
    if command == "up":  # the daemons it starts get the same options
        supervise: Callable[[Config, list[str]], int] = importlib.import_module(
            "lbd.cli.daemons.up"
        ).run
        return supervise(config, overrides)
    run: Callable[[Config], int] = importlib.import_module(f"lbd.cli.daemons.{command}").run
    return run(config)


def prepare(config: "Config", command: str) -> None:
    """Checks the account and the owner of the directories first. Raises ConfigError."""
    from pathlib import Path

    from lbd.cli.daemons.privilege import refuse_root
    from lbd.process.own_directory import RUNTIME, STATE, make_own

    refuse_root(config, command)
    make_own(Path(config.host.runtime_dir), RUNTIME)
    make_own(Path(config.host.state_dir), STATE)


if __name__ == "__main__":
    sys.exit(main())
