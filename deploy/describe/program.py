"""What a program of ours can be told, as it says itself: the one source of manual and completion.

lbd and lbctl are asked for `--help`, command by command, and the parser that would print it is
read. lbrun and lbsh read their options without argparse, which would double their start-up; of
them the text of `--help` is read. Nothing is written down twice, and a new option is in the manual
and in the shells' completion because it is there.
"""

import argparse
import importlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from lbd.cli.program import Parser

# What completes a value, by its metavar or, more exactly, by program and option or operand.
KINDS = {
    "FILE": "file", "PATH": "file", "DIR": "directory", "HOST": "host", "COMMAND": "command",
    "-- COMMAND": "command", "SECTION.KEY=VALUE": "setting", "ID": "job", "ID…": "job",
    "SIG": "signal", "DAEMON": "daemon",
}  # fmt: skip
EXACTLY = {
    ("lbctl algorithm", "NAME"): "algorithm",
    ("lbctl param", "NAME"): "parameter", ("lbd lab kill", "PART"): "part",
    ("lbd lab start", "daemon"): "part", ("lbd lab kill", "host"): "lab-host",
    ("lbd lab start", "host"): "lab-host", ("lbd lab env", "host"): "lab-host",
    ("lbd lab exec", "host"): "lab-host", ("lbd lab cut", "HOST"): "lab-host",
    ("lbd sim figure", "NAME"): "figure", ("lbctl token revoke", "ID"): "token",
}  # fmt: skip
BY_OPTION = {"--host": "host", "--exclude": "host", "--algorithm": "algorithm", "--mode": "mode"}
EVERYWHERE = {"--help": "print this and end", "--version": "print the version and end"}
ON_THIS_LINE = re.compile(r"^  (-\S.*?|-\S+)(?:  +(\S.*))?$")


@dataclass(frozen=True, slots=True)
class Option:
    flags: tuple[str, ...]
    about: str
    value: str = ""  # what it is called; "" = it takes none
    kind: str = ""  # what completes it
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operand:
    value: str
    about: str
    kind: str = ""
    choices: tuple[str, ...] = ()
    needed: bool = True
    many: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """A program or one of its commands, by its full name: "lbd lab up"."""

    name: str
    about: str  # one line
    details: tuple[str, ...]  # paragraphs
    options: tuple[Option, ...]
    operands: tuple[Operand, ...] = ()
    commands: tuple["Program", ...] = ()
    examples: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # paragraphs for the end, like exit statuses

    @property
    def word(self) -> str:
        return self.name.rpartition(" ")[2]

    def all(self) -> Iterator["Program"]:
        yield self
        for command in self.commands:
            yield from command.all()


def programs() -> list[Program]:
    """Every program that is installed."""
    os.environ["COLUMNS"] = "100"
    from lbd.client.help import HELP as LBRUN
    from lbd.client.shell.help import HELP as LBSH

    return [
        asked("lbd", "lbd.cli.main", ()),
        asked("lbctl", "lbd.cli.lbctl", ()),
        from_text("lbrun", LBRUN, "command"),
        from_text("lbsh", LBSH, "file"),
    ]


class Caught(BaseException):
    """Not an Exception, so that nothing on the way takes it for a fault."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def asked(name: str, module: str, words: tuple[str, ...], about: str = "") -> Program:
    """The program that answers `NAME WORDS… --help`, with its commands."""

    def caught(parser: argparse.ArgumentParser, *_: object) -> None:
        raise Caught(parser)

    original, Parser.print_help = Parser.print_help, caught
    try:
        importlib.import_module(module).main([*words, "--help"])
    except Caught as found:
        parser = found.parser
    else:
        raise SystemExit(f"{name} has no --help")
    finally:
        Parser.print_help = original
    description, listed = listed_commands(parser.description or "")
    nested = next((a for a in parser._actions if isinstance(a, argparse._SubParsersAction)), None)
    if nested is not None:
        listed = {action.dest: action.help or "" for action in nested._choices_actions}
    commands = tuple(
        asked(f"{name} {word}", module, (*words, word), text) for word, text in listed.items()
    )
    paragraphs = [" ".join(part.split()) for part in description.split("\n\n") if part.strip()]
    return Program(
        name,
        about or paragraphs[0],
        tuple(p for p in paragraphs if p != about and (about or p != paragraphs[0])),
        tuple(read_options(name, parser)),
        () if commands else tuple(read_operands(name, parser)),
        commands,
        tuple(line.strip() for line in (parser.epilog or "").splitlines()[1:]),
    )


def listed_commands(description: str) -> tuple[str, dict[str, str]]:
    """A description without its list of commands, and that list."""
    text, _, listing = description.partition("commands:\n")
    rows = [line.split(maxsplit=1) for line in listing.splitlines() if line.strip()]
    return text.strip(), {row[0]: row[-1] for row in rows}


def read_options(name: str, parser: argparse.ArgumentParser) -> Iterator[Option]:
    for action in parser._actions:
        if not action.option_strings or action.help == argparse.SUPPRESS:
            continue
        about = (action.help or "").replace("%(default)s", str(action.default))
        value = metavar_of(action) if action.nargs != 0 else ""
        flags = tuple(action.option_strings)
        kind = BY_OPTION.get(flags[-1], KINDS.get(value, ""))
        about = EVERYWHERE.get(flags[-1], about)
        yield Option(flags, about, value, kind, tuple(map(str, action.choices or ())))


def read_operands(name: str, parser: argparse.ArgumentParser) -> Iterator[Operand]:
    for action in parser._actions:
        if action.option_strings or action.help == argparse.SUPPRESS:
            continue
        value = metavar_of(action)
        yield Operand(
            value,
            action.help or "",
            EXACTLY.get((name, value), KINDS.get(value, "")),
            tuple(map(str, action.choices or ())),
            needed=action.nargs in (None, "+") or isinstance(action.nargs, int),
            many=action.nargs in ("*", "+", argparse.REMAINDER),
        )


def metavar_of(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(map(str, action.choices)) if action.choices else action.dest.replace("_", "-")


# The two whose --help is a text of their own


def from_text(name: str, text: str, operand: str) -> Program:
    """A text like lbrun's: usage, summary, options, exit status, examples."""
    head, _, tail = text.partition("\nexamples:\n")
    paragraphs = head.split("\n\n")
    usage = " ".join(paragraphs[0].split()).removeprefix(f"usage: {name} ")
    plain = [" ".join(p.split()) for p in paragraphs[1:] if not p.startswith("  ")]
    notes = tuple(p for p in plain if p.startswith("Exit status"))
    rest = [p for p in plain if p not in notes]
    options = [o for p in paragraphs if p.startswith("  ") for o in options_in(p)]
    operands = (Operand(usage.partition("[OPTIONS] ")[2] or usage, "", operand, many=True),)
    return Program(
        name,
        rest[0],
        tuple(rest[1:]),
        tuple(options),
        operands,
        (),
        tuple(line.strip() for line in tail.splitlines()),
        notes,
    )


def options_in(block: str) -> Iterator[Option]:
    entries: list[tuple[str, str]] = []
    for line in block.splitlines():
        found = ON_THIS_LINE.match(line)
        if found:
            entries.append((found[1], found[2] or ""))
        elif entries:
            entries[-1] = (entries[-1][0], f"{entries[-1][1]} {line.strip()}".strip())
    for flags, about in entries:
        yield from options_of(flags, about)


def options_of(flags: str, about: str) -> Iterator[Option]:
    """`-H, --host NAME`, or several options of one line: `--local, --remote`."""
    names = flags.split(", ")
    words, _, value = names[-1].partition(" ")
    names[-1] = words
    short = [n for n in names if not n.startswith("--")]
    long = [n for n in names if n.startswith("--")]
    groups = [tuple(names)] if len(short) <= 1 and len(long) <= 1 else [(n,) for n in long or names]
    if short and len(long) > 1:
        groups = [(short[0], long[0]), *((n,) for n in long[1:])]
    texts = about.split("; ") if len(groups) > 1 and about.count("; ") == len(groups) - 1 else []
    for number, group in enumerate(groups):
        kind = BY_OPTION.get(group[-1], KINDS.get(value, ""))
        text = EVERYWHERE.get(group[-1], texts[number] if texts else about)
        yield Option(group, text, value, kind)
