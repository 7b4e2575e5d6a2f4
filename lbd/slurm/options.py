"""Parses command lines of Slurm's programs. Unsupported options are refused by name.

These programs are run by the hundreds, so their imports are light, as for `lbrun`.
"""

import os
from collections.abc import Iterable, Iterator, Mapping

WIDTH_DIGITS = 4
PARTITION = "lbd"  # the only one
LET_BE = "LBD_SLURM_IGNORE"  # names of options that a site wants ignored
INSTALLED: set[str] = set()  # option names to ignore that were given at installation


class SlurmError(Exception):
    """One or more lines for the caller; exit status 1."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class Grammar:
    """Long options by name, and the short ones that stand for them."""

    def __init__(
        self,
        values: frozenset[str],  # options with a value
        plain: frozenset[str],
        short: Mapping[str, str],  # letter -> long name
        refused: frozenset[str] = frozenset(),  # known to Slurm but unsupported, with a value
        refused_plain: frozenset[str] = frozenset(),
        optional: frozenset[str] = frozenset(),  # their value may be omitted
        # What to use instead of an option without which the rest would not do what was wanted.
        instead: Mapping[str, str] | None = None,
        kept: frozenset[str] = frozenset(),  # never ignored while parsing
    ) -> None:
        self.values, self.plain, self.short = values, plain, short
        self.refused, self.refused_plain, self.optional = refused, refused_plain, optional
        self.instead, self.kept = instead or {}, kept


class Given:
    def __init__(
        self,
        values: dict[str, str] | None = None,
        plain: set[str] | None = None,
        rest: list[str] | None = None,
        refused: dict[str, str] | None = None,
    ) -> None:
        self.values = values or {}  # the last of each option counts
        self.plain = plain or set()
        self.rest = rest or []
        self.refused = refused or {}  # by name, as shown in messages
        self.lines: dict[str, int] = {}  # line numbers in the script, by option name

    def over(self, other: "Given") -> "Given":
        """Returns these options, completed by those of `other`."""
        both = Given(
            other.values | self.values,
            self.plain | other.plain,
            self.rest,
            other.refused | self.refused,
        )
        theirs = {name: line for name, line in other.lines.items() if name not in self.values}
        both.lines = theirs | self.lines
        return both

    def check(self, grammar: Grammar) -> None:
        """Raises SlurmError, which names all refused options."""
        if not self.refused:
            return
        shown, one = ", ".join(self.refused.values()), len(self.refused) == 1
        covered: dict[str, list[str]] = {}  # by hint: the options that it is about
        for name in self.refused:
            if name in grammar.instead:
                covered.setdefault(grammar.instead[name], []).append(f"--{name}")
        hints = [
            f"for {' and '.join(names)}, {hint}" if hint.startswith("use ") and not one else hint
            for hint, names in covered.items()
        ]
        if "nice" in self.refused and "priority" in grammar.values:
            hints.append("for --nice N, use --priority=-N")
        if others := [name for name in self.refused if name not in grammar.instead]:
            which = "it" if one else ", ".join(f"--{name}" for name in others) if hints else "them"
            hints.append(f"take {which} out, or set {let_be_too(others)}")
        raise SlurmError(
            f"{shown} {'is' if one else 'are'} not supported by lbd; {'; '.join(hints)}"
        )


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


def read(words: list[str], grammar: Grammar, *, mixed: bool = False) -> Given:
    """`mixed`: options may follow other words. Raises SlurmError."""
    given = read_all(words, grammar, mixed=mixed)
    given.check(grammar)
    return given


def read_all(words: list[str], grammar: Grammar, *, mixed: bool = False) -> Given:
    """Also returns the refused options, for the caller to check. Raises SlurmError."""
    given, left = Given(), list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            given.rest += left
            break
        if not word.startswith("-") or word == "-":
            given.rest.append(word)
            if not mixed:
                given.rest += left
                break
        elif word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            take(given, full(name, grammar), value if equals else None, left, grammar)
        else:
            take_short(given, word, left, grammar)
    return given


def full(name: str, grammar: Grammar) -> str:
    """Returns the full name of a long option, which may be abbreviated while unambiguous."""
    known = grammar.values | grammar.plain | grammar.refused | grammar.refused_plain
    if name in known:
        return name
    found = sorted(one for one in known if one.startswith(name))
    if len(found) != 1:
        raise SlurmError(f"unrecognized option '--{name}'")
    return found[0]


def take_short(given: Given, word: str, left: list[str], grammar: Grammar) -> None:
    """Reads `-c4`, `-c 4` or `-hr`."""
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        if (name := grammar.short.get(letter)) is None:
            raise SlurmError(f"invalid option -- '{letter}'")
        if name in grammar.plain or name in grammar.refused_plain:
            take(given, name, None, left, grammar)
            continue
        take(given, name, letters.removeprefix("=") or None, left, grammar)
        return


def take(given: Given, name: str, value: str | None, left: list[str], grammar: Grammar) -> None:
    has_value = name in grammar.values or name in grammar.refused
    if has_value and value is None and name not in grammar.optional:
        if not left:
            raise SlurmError(f"option '--{name}' requires an argument")
        value = left.pop(0)
    if name in let_be() and name not in grammar.kept:
        return
    if name in grammar.refused or name in grammar.refused_plain:
        given.refused[name] = f"--{name}{'' if value is None else f' {value}'}"
    elif name in grammar.plain:
        if value is not None:
            raise SlurmError(f"option '--{name}' doesn't allow an argument")
        given.plain.add(name)
    else:
        given.values[name] = value or ""


def ignore(names: str) -> None:
    """Adds option names to those that the variable names."""
    INSTALLED.update(listed(names))
    if names:
        os.environ[LET_BE] = ",".join(dict.fromkeys([*listed(names), *let_be()]))


def let_be() -> list[str]:
    return os.environ.get(LET_BE, "").replace(",", " ").split()


def let_be_too(names: Iterable[str]) -> str:
    """Returns the setting of the variable that would also ignore these; installed ones are always
    ignored."""
    return f"{LET_BE}={','.join([*(one for one in let_be() if one not in INSTALLED), *names])}"


def width_of(text: str, shown: str) -> int:
    """Returns the width of a column; 0: as wide as its content. Raises SlurmError, which names
    `shown`."""
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()) or len(text) > WIDTH_DIGITS:
        raise SlurmError(f"{shown[:80]}: not a width")
    return int(text)


def listed(text: str) -> Iterator[str]:
    """Yields the items of a comma-separated list."""
    return (one for one in text.split(",") if one)
