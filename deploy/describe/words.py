"""What completes a value: words that are known when the completion is made, or a command to ask."""

import importlib

from deploy.describe.settings import settings
from lbd.config.dispatch import MODES
from lbd.config.schema import ALGORITHMS
from lbd.lim.core.settings import shorts

# Commands whose first column names them; the heading tells where it begins.
ASKED = {
    "host": "lbctl status", "lab-host": "lbd lab status", "job": "lbctl jobs",
    "token": "lbctl token list",
}  # fmt: skip
SIGNALS = ("HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP", "TSTP")
FIRST_COLUMN = "awk '/^(HOST|ID|TOKEN) /{on=1;next} on&&!NF{exit} on{print $1}'"


def words_of(kind: str) -> tuple[str, ...]:
    """() where only a command, or the shell itself, can tell."""
    fixed = {"algorithm": ALGORITHMS, "mode": MODES, "signal": SIGNALS, "daemon": ("lim", "lbm")}
    if kind in fixed:
        return fixed[kind]
    if kind == "parameter":
        return tuple(shorts())
    if kind == "setting":
        return tuple(f"{item.key}=" for item in settings())
    if kind == "figure":
        return tuple(importlib.import_module("lbd.sim.figures.catalogue").FIGURES)
    if kind == "part":
        parts: tuple[str, ...] = importlib.import_module("lbd.cli.lab.program").PARTS
        return parts
    return ()


def asking(kind: str) -> str:
    """A pipeline that prints them, or ""."""
    return f"{ASKED[kind]} 2>/dev/null | {FIRST_COLUMN}" if kind in ASKED else ""
