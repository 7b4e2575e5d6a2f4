"""`lbd sim …`: the same deciding code in virtual time. A subcommand is imported when asked for."""

import importlib
from typing import TYPE_CHECKING

from lbd.cli.program import Parser
from lbd.spelling import hint

if TYPE_CHECKING:
    from collections.abc import Callable

FUNCTIONS = {
    "balance": ("lbd.cli.sim_balance", "main"),
    "dispatch": ("lbd.cli.sim_dispatch", "main"),
    "faults": ("lbd.cli.sim_faults", "main"),
    "figure": ("lbd.cli.sim_figure", "main"),
    "list": ("lbd.cli.sim_figure", "main_list"),
    "replay": ("lbd.cli.sim_replay", "main"),
}
COMMANDS = {
    "balance": "the load-exchange algorithms over simulated hosts and jobs",
    "dispatch": "the queueing disciplines over Poisson arrivals or a trace",
    "faults": "the algorithms on a network that fails, by schedules from seeds",
    "figure": "a figure of the papers, from our own runs, and whether its claims hold",
    "list": "the figures there are",
    "replay": "a recorded LIM's decisions, made again and compared",
}
DESCRIPTION = """the same policies in virtual time

commands:
""" + "\n".join(f"  {name:<9} {text}" for name, text in COMMANDS.items())  # fmt: skip


def main(argv: list[str]) -> int:
    parser = Parser("lbd sim", DESCRIPTION)
    parser.add_version()
    parser.add_argument("command", metavar="COMMAND", help="see above; each has its own --help")
    options = parser.parse_args(argv[:1])
    if options.command not in FUNCTIONS:
        parser.error(f"{options.command!r} is no command; {hint(options.command, COMMANDS)}")
    module, name = FUNCTIONS[options.command]
    run: Callable[[list[str]], int] = getattr(importlib.import_module(module), name)
    return run(argv[1:])
