"""The commands of the experiment's users (Zhou 1987, table 4.3), as this machine has them.

A command's size is a number of units: the same input so many times, or so many rounds of a loop.
`workbench.py` measures what a unit costs on this machine, which turns a demand in CPU seconds into
a size. Commands that the thesis's shell would never have sent away (sorting, counting, listing) run
as they are, the others through `lbrun`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lbd.errors import ConfigError, LbdError
from lbd.text.spelling import hint

EVERY_UNIT = "*"  # at the end of a word: repeat the word for each unit
UNITS = "{n}"
ROUNDS = 100_000  # rounds of a loop in one unit


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    may_leave: bool
    ways: tuple[tuple[str, ...], ...]  # the first whose program is installed is used


@dataclass(frozen=True, slots=True)
class Command:
    """A kind of command as it runs on this machine."""

    name: str
    may_leave: bool
    words: tuple[str, ...]
    first_unit_s: float = 0.0  # CPU time of one unit
    unit_s: float = 0.0  # CPU time of each further unit

    def units(self, demand_s: float) -> int:
        if self.unit_s <= 0:
            return 1
        return max(1, 1 + round((demand_s - self.first_unit_s) / self.unit_s))

    def argv(self, units: int) -> list[str]:
        found: list[str] = []
        for word in self.words:
            if word.endswith(EVERY_UNIT):
                found += [word[:-1]] * units
            else:
                found.append(word.replace(UNITS, str(units)))
        return found


AWK = f"BEGIN {{ for (i = {ROUNDS} * n; i > 0; i--) s += i % 7 }}"
PERL = f"my $s = 0; for (my $i = {ROUNDS} * $ARGV[0]; $i > 0; $i--) {{ $s += $i % 7 }}"
PYTHON = f"import sys; print(sum(i % 7 for i in range({ROUNDS} * int(sys.argv[1]))))"
PATTERN = "/([aeiou])[^ ]*\\1.*z/p"

# "@text" and the like stand for the inputs that `workbench.py` makes.
KINDS = (
    Kind("compile", True, tuple((cc, "-O1", "-c", "@c*") for cc in ("cc", "gcc", "clang"))),
    Kind("format", True, (("groff", "-Tascii", "-man", "@page*"), ("fmt", "@text*"))),
    Kind("compress", True, (
        ("bzip2", "-c", "@text*"), ("xz", "-1c", "@text*"), ("gzip", "-9c", "@text*"),
    )),
    Kind("search", True, (("sed", "-nE", PATTERN, "@book*"),)),
    Kind("awk", True, (("awk", "-v", f"n={UNITS}", AWK),)),
    Kind("perl", True, (("perl", "-e", PERL, UNITS),)),
    Kind("python", True, (("@python", "-I", "-S", "-c", PYTHON, UNITS),)),
    Kind("sort", False, (("sort", "@book*"),)),
    Kind("count", False, (("wc", "@book*"),)),
    Kind("list", False, (("ls", "-lR", "@tree*"),)),
)  # fmt: skip
NAMES = tuple(kind.name for kind in KINDS)


def chosen(names: Sequence[str], find: Callable[[str], str | None]) -> list[Command]:
    """Returns the commands named or, if none are, all that this machine has. `find` returns a
    program's path.

    Raises ConfigError for an unknown name, LbdError for a command that this machine cannot run.
    """
    for name in names:
        if name not in NAMES:
            raise ConfigError(f'--commands: no "{name}"; {hint(name, NAMES)}')
    found = []
    for kind in KINDS:
        if names and kind.name not in names:
            continue
        words = way_of(kind, find)
        if words:
            found.append(Command(kind.name, kind.may_leave, words))
        elif names:
            programs = ", ".join(dict.fromkeys(way[0] for way in kind.ways))
            raise LbdError(
                f"{kind.name} needs one of these programs, none of which is installed: {programs}; "
                "install one or remove it from --commands"
            )
    if not any(command.may_leave for command in found):
        movable = ", ".join(kind.name for kind in KINDS if kind.may_leave)
        raise ConfigError(f"--commands: at least one that may leave its host: {movable}")
    return found


def way_of(kind: Kind, find: Callable[[str], str | None]) -> tuple[str, ...]:
    """Returns () if no program for it is installed."""
    for program, *rest in kind.ways:
        if path := find(program):
            return (path, *rest)
    return ()
