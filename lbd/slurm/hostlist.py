"""Names of hosts as Slurm writes them: `h1,h[3-5,07]`."""

import re

from lbd.slurm.options import SlurmError
from lbd.text.index_list import is_number

HOSTS_MAX = 10_000
BETWEEN = re.compile(r",(?![^\[\]]*\])")
RANGES = re.compile(r"\[([^\[\]]*)\]")


def hosts_in(text: str) -> list[str]:
    """Returns each name of a list. Raises SlurmError."""
    found = [name for one in BETWEEN.split(text) if one for name in expanded(one)]
    if len(found) > HOSTS_MAX:
        raise SlurmError(f"{text[:80]}: more than {HOSTS_MAX} hosts")
    return found


def expanded(one: str) -> list[str]:
    """Returns the names that `h[1-3]-[a,b]` stands for. Raises SlurmError."""
    names, rest = [""], one
    while found := RANGES.search(rest):
        ends = [end for part in found[1].split(",") for end in numbered(part, one)]
        if len(names) * len(ends) > HOSTS_MAX:
            raise SlurmError(f"{one[:80]}: more than {HOSTS_MAX} hosts")
        names = [name + rest[: found.start()] + end for name in names for end in ends]
        rest = rest[found.end() :]
    if "[" in rest or "]" in rest:
        raise SlurmError(f"{one[:80]}: not a list of hosts; write h[1-3,5]")
    return [name + rest for name in names]


def numbered(part: str, one: str) -> list[str]:
    """Returns the numbers of a range, with its leading zeros. Raises SlurmError."""
    first, dash, last = part.partition("-")
    if not dash and part:
        return [part]
    if not (is_number(first) and is_number(last) and int(first) <= int(last)):
        raise SlurmError(f"{one[:80]}: not a list of hosts; write h[1-3,5]")
    if int(last) - int(first) >= HOSTS_MAX:
        raise SlurmError(f"{one[:80]}: more than {HOSTS_MAX} hosts")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
