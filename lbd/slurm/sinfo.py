"""`sinfo`: the one partition, and its hosts by state."""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from lbd.slurm.hostlist import hosts_in
from lbd.slurm.options import (
    PARTITION,
    Given,
    Grammar,
    SlurmError,
    listed,
    read,
    width_of,
    words_of,
)
from lbd.slurm.queue import Json, ask, number, rows_in
from lbd.slurm.times import moment
from lbd.text.one_line import printable

GRAMMAR = Grammar(
    words_of("format nodes partition states clusters"),
    words_of("noheader Node long summarize help version all exact list-reasons"),
    {"h": "noheader", "o": "format", "n": "nodes", "p": "partition", "t": "states", "N": "Node",
     "l": "long", "s": "summarize", "M": "clusters", "O": "Format", "i": "iterate", "V": "version",
     "a": "all", "e": "exact", "R": "list-reasons", "d": "dead", "r": "responding", "S": "sort",
     "T": "reservation"},
    words_of("Format iterate sort"),
    words_of("json yaml reservation dead responding"),
    instead={"json": "`lbctl status --json` prints JSON", "iterate": "use `watch sinfo`",
             "dead": "use -t down", "responding": "use -t idle,mix,alloc,drain",
             "Format": "use -o FORMAT"},
)  # fmt: skip
NORMAL = "%9P %.5a %.10l %.6D %.6t %N"
LONG = "%9P %.5a %.10l %.6D %.11T %N"
SUMMARY = "%9P %.5a %.10l %.16F %N"
BY_HOST = "%10N %.6D %.9P %6t"
LONG_BY_HOST = "%10N %.6D %.9P %.11T %.4c %.8m %.8f %20E"
REASONS = "%20E %9u %19H %N"
SIGN = re.compile(r"%(\.?)([0-9]*)([A-Za-z])")
STATES = {"down": "down", "late": "down", "drained": "drain"}
LONG_STATES = {"mix": "mixed", "alloc": "allocated", "drain": "drained"}
# What people ask for, by the states above.
ASKED = {
    "mixed": "mix", "allocated": "alloc", "drained": "drain", "draining": "drain", "drng": "drain",
    "up": "idle", "unknown": "down", "unk": "down", "no_respond": "down",
}  # fmt: skip
NEVER = {"fail", "failing", "maint", "resv", "reserved", "comp", "completing", "future", "planned",
         "plnd", "power_down", "power_up", "powered_down", "powering_down", "powering_up",
         "reboot", "perfctrs", "blocked", "cloud"}  # fmt: skip
USAGE = "usage: sinfo [-h] [-N] [-l | -s | -R] [-o FORMAT] [-n HOSTS] [-p PARTITION] [-t STATES]"


@dataclass(frozen=True, slots=True)
class Host:
    """One of its LIM's rows."""

    name: str
    state: str
    slots: int
    used: int
    row: Json

    def figure(self, *names: str) -> object:
        """Returns what the row has there, None if nothing."""
        found: object = self.row
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return found


Group = list[Host]  # hosts that share a line
HEADS = {
    "P": "PARTITION", "R": "PARTITION", "a": "AVAIL", "l": "TIMELIMIT", "D": "NODES", "t": "STATE",
    "T": "STATE", "N": "NODELIST", "n": "HOSTNAMES", "C": "CPUS(A/I/O/T)", "F": "NODES(A/I/O/T)",
}  # fmt: skip
OF_GROUP: dict[str, Callable[[Group], str]] = {
    "P": lambda _: f"{PARTITION}*",
    "R": lambda _: PARTITION,
    "a": lambda _: "up",
    "l": lambda _: "infinite",
    "D": lambda group: str(len(group)),
    "t": lambda group: group[0].state,
    "T": lambda group: LONG_STATES.get(group[0].state, group[0].state),
    "N": lambda group: ",".join(host.name for host in group),
    "n": lambda group: ",".join(host.name for host in group),
    "C": lambda group: shares(group, lambda host: host.slots, lambda host: host.used),
    "F": lambda group: shares(group, lambda _: 1, lambda host: int(host.used > 0)),
}
# Hosts share a line only if these are the same.
OF_HOST: dict[str, tuple[str, Callable[[Host], str]]] = {
    "c": ("CPUS", lambda host: str(host.slots)),
    "m": ("MEMORY", lambda host: megabytes(host.figure("memory", "total"))),
    "e": ("FREE_MEM", lambda host: megabytes(host.figure("memory", "available"))),
    "O": ("CPU_LOAD", lambda host: f"{number(host.figure('index')) or 0:.2f}"),
    "f": ("AVAIL_FEATURES", lambda host: ",".join(features(host)) or "(null)"),
    "G": ("GRES", lambda host: ",".join(resources(host)) or "(null)"),
    "E": ("REASON", lambda host: text_of(host.figure("drained", "reason")) or "none"),
    "u": ("USER", lambda host: text_of(host.figure("drained", "by")) or "Unknown"),
    "H": ("TIMESTAMP", lambda host: moment(number(host.figure("drained", "since")), "Unknown")),
}


def run(words: list[str]) -> int:
    """Raises SlurmError."""
    given = read(words, GRAMMAR, mixed=True)
    if given.plain & {"help", "version"}:
        print(USAGE if "help" in given.plain else "slurm of lbd")
        return 0
    text = format_of(given)
    letters = [letter for _, _, letter in SIGN.findall(text)]
    for _, width, letter in SIGN.findall(text):
        if letter not in OF_GROUP.keys() | OF_HOST.keys():
            known = " ".join(f"%{one}" for one in sorted(OF_GROUP.keys() | OF_HOST.keys()))
            raise SlurmError(f"--format: %{letter} is not supported by lbd; it has {known}")
        width_of(width, f"--format: %{width}{letter}")
    found = groups(
        chosen(given),
        by_host="Node" in given.plain or "%n" in text,
        by_state=not {"t", "T"}.isdisjoint(letters),
        letters=[letter for letter in letters if letter in OF_HOST],
    )
    if "noheader" not in given.plain:
        if "long" in given.plain:
            print(time.strftime("%a %b %d %H:%M:%S %Y"))
        print(line(text, None))
    for group in found:
        print(line(text, group))
    return 0


def format_of(given: Given) -> str:
    if "list-reasons" in given.plain:
        usual = REASONS
    elif "summarize" in given.plain:
        usual = SUMMARY
    elif "Node" in given.plain:
        usual = LONG_BY_HOST if "long" in given.plain else BY_HOST
    else:
        usual = LONG if "long" in given.plain else os.environ.get("SINFO_FORMAT") or NORMAL
    return given.values.get("format", usual)


def line(text: str, group: Group | None) -> str:
    """Returns a group's line, or the headings for None."""

    def shown(found: re.Match[str]) -> str:
        dot, width, letter = found.groups()
        if letter in OF_HOST:
            head, value = OF_HOST[letter]
            cell = head if group is None else value(group[0])
        else:
            cell = HEADS[letter] if group is None else OF_GROUP[letter](group)
        size = int(width or "0")
        cell = cell[: size or None]
        return cell.rjust(size) if dot else cell.ljust(size)

    return SIGN.sub(shown, text).rstrip()


def chosen(given: Given) -> list[Host]:
    """Raises SlurmError."""
    values = given.values
    if values.get("clusters", PARTITION) not in (PARTITION, "all"):
        raise SlurmError(f"'{values['clusters']}' can't be reached now, or it is an invalid entry "
                         "for --cluster.")  # fmt: skip
    if PARTITION not in listed(values.get("partition", PARTITION)):
        return []
    names, states = set(hosts_in(values.get("nodes", ""))), states_of(values.get("states", "all"))
    return [
        host
        for host in map(host_of, hosts())
        if ("nodes" not in values or host.name in names)
        and (not states or host.state in states)
        and ("list-reasons" not in given.plain or host.row.get("drained"))
    ]


def states_of(text: str) -> set[str]:
    """Returns the states of hosts; empty: all of them. Raises SlurmError."""
    if text.lower() == "all":
        return set()
    found = set()
    for one in listed(text.lower()):
        name = ASKED.get(one, one)
        if name not in {"idle", "mix", "alloc", "drain", "down"} | NEVER:
            raise SlurmError(f"Bad state string: {one!r}")
        found.add(name)
    return found


def groups(
    found: list[Host], *, by_host: bool, by_state: bool = True, letters: list[str] | None = None
) -> list[Group]:
    """`letters`: columns whose values are the same for all hosts of a group."""
    made: dict[tuple[str, ...], Group] = {}
    for host in found:
        key = (
            host.name if by_host else "",
            host.state if by_state else "",
            *(OF_HOST[letter][1](host) for letter in letters or ()),
        )
        made.setdefault(key, []).append(host)
    return list(made.values())


def host_of(row: Json) -> Host:
    used, total = numbers(row.get("slots"))
    state = STATES.get(str(row.get("state")), "")
    state = state or ("alloc" if used >= total else "mix" if used else "idle")
    return Host(str(row.get("name")), state, total, used, row)


def shares(group: Group, size: Callable[[Host], int], used: Callable[[Host], int]) -> str:
    """Returns allocated/idle/other/total."""
    total, taken = sum(map(size, group)), sum(map(used, group))
    idle = sum(size(host) - used(host) for host in group if host.state not in ("down", "drain"))
    return f"{taken}/{idle}/{total - taken - idle}/{total}"


def numbers(slots: object) -> tuple[int, int]:
    """Returns the used and the total slots."""
    if not isinstance(slots, dict):
        return 0, 0
    return int(slots.get("used") or 0), int(slots.get("total") or 0)


def megabytes(value: object) -> str:
    return str(int(number(value) or 0) >> 20)


def text_of(value: object) -> str:
    return printable(value) if isinstance(value, str) else ""


def features(host: Host) -> list[str]:
    found = host.row.get("features")
    return [text_of(one) for one in found] if isinstance(found, list) else []


def resources(host: Host) -> list[str]:
    found = host.row.get("resources")
    names = found if isinstance(found, dict) else {}
    return [f"{text_of(name)}:{numbers(count)[1]}" for name, count in names.items()]


def hosts() -> list[Json]:
    """Returns the hosts known to this host's LIM. Raises SlurmError."""
    return rows_in(ask({"op": "status"}, "lim"), "hosts")
