"""`sinfo`: the one partition, and its hosts by state."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from lbd.slurm.options import PARTITION, Grammar, SlurmError, read, width_of, words_of
from lbd.slurm.queue import Json, ask

GRAMMAR = Grammar(
    words_of("format nodes partition states clusters"),
    words_of("noheader Node long summarize help version"),
    {"h": "noheader", "o": "format", "n": "nodes", "p": "partition", "t": "states", "N": "Node",
     "l": "long", "s": "summarize", "M": "clusters", "O": "Format", "i": "iterate", "V": "version"},
    words_of("Format iterate sort"),
    words_of("json yaml reservation dead responding all list-reasons"),
    instead={"json": "`lbctl status --json` prints JSON", "iterate": "use `watch sinfo`"},
)  # fmt: skip
NORMAL = "%9P %.5a %.10l %.6D %.6t %N"
SIGN = re.compile(r"%(\.?)([0-9]*)([A-Za-z])")
STATES = {"down": "down", "late": "down", "drained": "drain"}
USAGE = "usage: sinfo [-h] [-N] [-o FORMAT] [-n HOSTS] [-t STATES]"


@dataclass(frozen=True, slots=True)
class Group:
    """The hosts of one state."""

    state: str
    hosts: tuple[str, ...]
    slots: int
    used: int


FIELDS: dict[str, tuple[str, Callable[[Group], str]]] = {
    "P": ("PARTITION", lambda _: f"{PARTITION}*"),
    "R": ("PARTITION", lambda _: PARTITION),
    "a": ("AVAIL", lambda _: "up"),
    "l": ("TIMELIMIT", lambda _: "infinite"),
    "D": ("NODES", lambda group: str(len(group.hosts))),
    "t": ("STATE", lambda group: group.state),
    "T": ("STATE", lambda group: group.state),
    "N": ("NODELIST", lambda group: ",".join(group.hosts)),
    "n": ("HOSTNAMES", lambda group: ",".join(group.hosts)),
    "c": ("CPUS", lambda group: str(group.slots // max(1, len(group.hosts)))),
    "C": ("CPUS(A/I/O/T)", lambda group: cpus_of(group)),
}


def cpus_of(group: Group) -> str:
    idle = 0 if group.state in ("down", "drain") else group.slots - group.used
    return f"{group.used}/{idle}/{group.slots - group.used - idle}/{group.slots}"


def run(words: list[str]) -> int:
    """Raises SlurmError."""
    given = read(words, GRAMMAR, mixed=True)
    if given.plain & {"help", "version"}:
        print(USAGE if "help" in given.plain else "slurm of lbd")
        return 0
    text = given.values.get("format", NORMAL)
    for _, width, letter in SIGN.findall(text):
        if letter not in FIELDS:
            raise SlurmError(f"--format: %{letter} is not supported by lbd")
        width_of(width, f"--format: %{width}{letter}")

    def row(group: Group | None) -> str:
        def shown(found: re.Match[str]) -> str:
            dot, width, letter = found.groups()
            title, value = FIELDS[letter]
            cell, size = title if group is None else value(group), int(width or "0")
            return cell.rjust(size) if dot else cell.ljust(size)

        return SIGN.sub(shown, text)

    found = groups(each="Node" in given.plain or "%n" in text)
    wanted = given.values.get("nodes")
    if "noheader" not in given.plain:
        print(row(None))
    for group in found:
        if wanted is None or set(group.hosts) & set(wanted.split(",")):
            print(row(group))
    return 0


def groups(*, each: bool) -> list[Group]:
    """`each`: one group per host. Raises SlurmError."""
    found: dict[tuple[str, str], list[Json]] = {}
    for row in hosts():
        slots = row.get("slots")
        used, total = numbers(slots)
        state = STATES.get(str(row.get("state")), "")
        state = state or ("alloc" if used >= total else "mix" if used else "idle")
        name = str(row.get("name"))
        found.setdefault((state, name if each else ""), []).append(row)
    return [
        Group(
            state,
            tuple(str(row.get("name")) for row in rows),
            sum(numbers(row.get("slots"))[1] for row in rows),
            sum(numbers(row.get("slots"))[0] for row in rows),
        )
        for (state, _), rows in found.items()
    ]


def numbers(slots: object) -> tuple[int, int]:
    """Returns the used and the total slots."""
    if not isinstance(slots, dict):
        return 0, 0
    return int(slots.get("used") or 0), int(slots.get("total") or 0)


def hosts() -> list[Json]:
    """Returns the hosts known to this host's LIM. Raises SlurmError."""
    rows = ask({"op": "status"}, "lim").get("hosts")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
