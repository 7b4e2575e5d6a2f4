"""`lbd sim …`: the same deciding code in virtual time. Imports a subcommand only when it is
used."""

import importlib
from typing import TYPE_CHECKING

from lbd.cli.complaints import Errors
from lbd.cli.program import command_line

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
ABOUT = "the same policies in virtual time"


def main(argv: list[str]) -> int:
    Errors.as_json = "--json" in argv
    command, words, _ = command_line(
        "lbd sim", ABOUT, COMMANDS, (), argv, takes_config=False, takes_json=True
    )
    module, name = OTHERWISE.get(command, (command, "main"))
    run: Callable[[list[str]], int]
    run = getattr(importlib.import_module(f"lbd.cli.sim.{module}"), name)
    return run(words)
