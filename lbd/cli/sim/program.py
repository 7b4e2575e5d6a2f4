"""`lbd sim …`: the same deciding code in virtual time. Imports a subcommand only when it is
used."""

import importlib
from typing import TYPE_CHECKING

from lbd.cli.program import Parser
from lbd.text.spelling import hint

if TYPE_CHECKING:
    from collections.abc import Callable

# The module and function of each command that is not `main` of the module of its name.
OTHERWISE = {
    "list": ("figure", "main_list"),
    "queue-time": ("theory", "main_queue_time"),
    "speedup": ("theory", "main_speedup"),
}
COMMANDS = {
    "backfill": "jobs of several slots that pass one that waits, beside EASY",
    "balance": "the load-exchange algorithms over simulated hosts and jobs",
    "dispatch": "the queueing disciplines over Poisson arrivals or a trace",
    "faults": "the algorithms on a network that fails, by schedules from seeds",
    "figure": "a figure of the papers, from our own runs, and whether its claims hold",
    "list": "the figures there are",
    "malleable": "jobs that take fewer slots now or wait for more: Downey's strategies",
    "migrate": "tasks on hosts whose owners come back: wait for them to leave, or move",
    "queue-time": "how long until so many slots are free, from the ages of running jobs",
    "replay": "a recorded LIM's decisions, made again and compared",
    "speedup": "how much faster a malleable job is on more slots",
    "target": "a batch with a target time: static slots, or slots that follow it",
}
WIDE = max(map(len, COMMANDS))
DESCRIPTION = """the same policies in virtual time

commands:
""" + "\n".join(f"  {name:<{WIDE}}  {text}" for name, text in COMMANDS.items())  # fmt: skip


def main(argv: list[str]) -> int:
    parser = Parser("lbd sim", DESCRIPTION)
    parser.add_version()
    parser.add_argument("command", metavar="COMMAND", help="see above; each has its own --help")
    options = parser.parse_args(argv[:1])
    if options.command not in COMMANDS:
        parser.error(f"no command {options.command!r}; {hint(options.command, COMMANDS)}")
    module, name = OTHERWISE.get(options.command, (options.command, "main"))
    run: Callable[[list[str]], int]
    run = getattr(importlib.import_module(f"lbd.cli.sim.{module}"), name)
    return run(argv[1:])
