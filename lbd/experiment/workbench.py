"""Makes the files that commands work on, and measures what commands cost on this machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from lbd.errors import LbdError
from lbd.experiment.commands import Command

WORDS = 3000
TEXT_WORDS = 30_000
BOOK_WORDS = 120_000
PAGE_WORDS = 6000
FUNCTIONS = 4
TREE_FILES = 200
LINE_WORDS = 9
TRIES = 2
LONG_S = 0.05  # of CPU time: long enough to tell a unit's cost
UNITS_MAX = 512


def find(program: str) -> str | None:
    """Returns a program's path; for python, the interpreter that runs us."""
    return sys.executable if program == "@python" else shutil.which(program)


def make_inputs(directory: Path) -> None:
    """Makes the same files whatever the seed; only how often they are used differs."""
    rng = Random("inputs")
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(WORDS)]
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "text").write_text(prose(rng.choices(words, k=TEXT_WORDS)))
    (directory / "book").write_text(prose(rng.choices(words, k=BOOK_WORDS)))
    page = [".TH EXPERIMENT 1", ".SH NAME", "text \\- to be formatted"]
    for _ in range(20):
        page += [".PP", prose(rng.choices(words, k=PAGE_WORDS // 20)).rstrip()]
    (directory / "page").write_text("\n".join(page) + "\n")
    (directory / "c.c").write_text("\n".join(map(function, range(FUNCTIONS))) + "\n")
    tree = directory / "tree"
    tree.mkdir(exist_ok=True)
    for number in range(TREE_FILES):
        (tree / f"file-{number}").touch()


def prose(words: Sequence[str]) -> str:
    lines = [words[at : at + LINE_WORDS] for at in range(0, len(words), LINE_WORDS)]
    return "".join(" ".join(line) + "\n" for line in lines)


def function(number: int) -> str:
    body = "\n".join(
        f"    for (i = 0; i < n; i++) {{ s += p[i] * {k + number + 2}; p[i] ^= s >> {k % 7}; }}"
        for k in range(6)
    )
    return f"long f{number}(long *p, int n) {{\n    long s = 0; int i;\n{body}\n    return s;\n}}"


def measured(commands: Sequence[Command], inputs: Path, scratch: Path) -> list[Command]:
    """Returns the commands with their units' costs, measured on files of `inputs`. Raises LbdError
    if one fails."""
    names = {"@text": "text", "@book": "book", "@page": "page", "@c": "c.c", "@tree": "tree"}
    found = []
    for command in commands:
        words = []
        for word in command.words:
            bare = word.rstrip("*")
            known = names.get(bare)
            words.append(f"{inputs / known}*" if known else word)
        ready = replace(command, words=tuple(words))
        first_s, unit_s = costs(partial(cpu_s, ready, scratch))
        found.append(replace(ready, first_unit_s=round(first_s, 6), unit_s=round(unit_s, 7)))
    return found


def costs(cost_s: Callable[[int], float]) -> tuple[float, float]:
    """Returns the cost of the first unit, and of each further one. `cost_s` returns the cost of
    that many units."""
    first_s = min(cost_s(1) for _ in range(TRIES))
    units = 4
    while (some_s := cost_s(units)) - first_s < LONG_S and units < UNITS_MAX:
        units *= 2
    some_s = min(some_s, *(cost_s(units) for _ in range(TRIES - 1)))
    return first_s, max(1e-5, (some_s - first_s) / (units - 1))


def cpu_s(command: Command, scratch: Path, units: int) -> float:
    """Returns the CPU time of this command and its children. Raises LbdError."""
    argv = command.argv(units)
    with subprocess.Popen(
        argv, cwd=scratch, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        said = child.stderr.read() if child.stderr else ""
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        why = said.strip().splitlines()[-1:] or [f"exit status {child.returncode}"]
        raise LbdError(
            f"{command.name} does not work here: {argv[0]}: {why[0]}; remove it from --commands"
        )
    return usage.ru_utime + usage.ru_stime
