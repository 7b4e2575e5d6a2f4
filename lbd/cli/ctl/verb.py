"""How a module defines its command of `lbctl`."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from lbd.cli.complaints import EXIT_FAILED, Errors, complain
from lbd.cli.damaged_config import load_despite_faults
from lbd.cli.program import Parser
from lbd.config.load import load
from lbd.console.daemons import Daemons
from lbd.errors import LbdError

Run = Callable[[argparse.Namespace, str | None], int]  # with the file of --config


def say(text: object) -> None:
    """Tells on stderr what is not part of the answer."""
    complain("lbctl", text)


def asking(run: Callable[[Daemons, argparse.Namespace], int]) -> Run:
    """Wraps commands that ask this host's daemons."""
    return lambda options, path: run(Daemons(load(path)), options)


def reading(run: Callable[[Daemons, argparse.Namespace], int]) -> Run:
    """Wraps commands that only read: a fault in lbd.toml gives a warning instead of an error."""

    def look(options: argparse.Namespace, path: str | None) -> int:
        config, faults = load_despite_faults(path)
        if not faults:
            return run(Daemons(config), options)
        more = f" and {len(faults) - 1} more (lbctl config check)" if faults[1:] else ""
        said = f"{faults[0]}{more}"
        if not Errors.as_json:
            say(f"{said}; continuing without it")
        try:
            status = run(Daemons(config), options)
        except LbdError as problem:
            problem.add_note(said)  # it may be why
            raise
        if Errors.as_json:
            say(f"{said}; continuing without it")
        return status

    return look


@dataclass(frozen=True, slots=True)
class Verb:
    run: Run
    add_options: Callable[[Parser], None] = lambda parser: None
    examples: tuple[str, ...] = ()
    description: str = ""  # replaces its line in the list of commands
    own_options: bool = False  # the command adds --config and --json itself

    def parser(self, program: str, about: str) -> Parser:
        parser = Parser(program, self.description or about, self.examples)
        parser.add_version()
        if not self.own_options:
            parser.add_config_options()
            parser.add_json()
        self.add_options(parser)
        return parser


def complain_of(missing: dict[str, str], what: str = "jobs") -> int:
    """Returns the exit status when some hosts did not answer, and names them. `what`: what is
    missing."""
    if not missing:
        return 0
    unreached = ", ".join(f"{host} ({why})" for host, why in missing.items())
    say(f"{what} of these hosts are missing, since they did not answer: {unreached}")
    return EXIT_FAILED
