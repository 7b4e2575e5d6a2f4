"""The work of simulated and of experiment users: each user's script, drawn from a seed.

The thesis (section 4.3.4) drove each workstation by one script that ran some commands in the
background. Here each host has a few users, who wait for each command and think before the next.
With `USERS` of them and thinking times of demand / `RATIO`, the machine-repairman model gives the
utilisations and queues of table 4.4: light 36 % and 0.5, moderate 63 % and 1.2, heavy 81 % and 2.0.
Half of the commands may leave, and they are five sixths of the work, as in table 4.5.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from lbd.errors import ConfigError
from lbd.text.spelling import hint

USERS = 6
LEVELS = {"H": "heavy", "M": "moderate", "L": "light", "-": "idle"}
RATIO = {"H": 0.2, "M": 0.13, "L": 0.065}  # time of a command alone on its host ÷ thinking time
# factor by which others on the host stretch a command's time
STRETCH = {"H": 2.4, "M": 1.87, "L": 1.37}
LOADS = {
    "canonical": "HHMMLL",  # the hosts in turn; <2H, 2M, 2L> of the thesis
    "skewed": "HH----",
    "heavy": "H",
    "moderate": "M",
    "light": "L",
}
MAY_LEAVE_SHARE = 0.507  # of the commands
MAY_LEAVE_WORK = 0.83  # of the CPU time
DEVIATION = 1.69  # of a command's CPU time ÷ its mean; in the thesis, of the response time
LONGEST = 8.0  # × the mean
LONGEST_THINKING = 4.0  # × the mean: so that no user is left alone at the end of a short run
LINES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class ScriptLine:
    """One command of a script."""

    think_s: float  # before it
    kind: str
    demand_s: float  # of CPU time


@dataclass(frozen=True, slots=True)
class Work:
    """Everything that determines the scripts of one run."""

    load: str
    hosts: int
    cores: float  # of each host
    users: int  # on each host that has any
    demand_s: float  # mean CPU time of a command
    duration_s: float  # of a script without load balancing
    leaving: tuple[str, ...]  # names of commands
    staying: tuple[str, ...]


def check_loads(names: Sequence[str], hosts: int) -> None:
    """Raises ConfigError."""
    for name in names:
        if name not in LOADS:
            raise ConfigError(f'--load: no "{name}"; {hint(name, LOADS)}')
        if len(set(levels(name, hosts))) < len(set(LOADS[name])):
            raise ConfigError(f"--load {name} takes {len(LOADS[name])} hosts or more")


def levels(load: str, hosts: int) -> str:
    """Returns a letter for each host, with the pattern spread over all: HHHMMMLLL for nine."""
    pattern = LOADS[load]
    return "".join(pattern[number * len(pattern) // hosts] for number in range(hosts))


def scripts(work: Work, seed: str) -> list[list[list[ScriptLine]]]:
    """Returns the scripts by host and user."""
    return [
        [
            script(work, level, Random(f"{seed} {work.load} {host} {user}"))
            for user in range(work.users if level != "-" else 0)
        ]
        for host, level in enumerate(levels(work.load, work.hosts))
    ]


def script(work: Work, level: str, rng: Random) -> list[ScriptLine]:
    """Returns commands for about `duration_s`, with thinking before each. A user whose first
    thinking time is longer than that has none."""
    alone_s = work.demand_s / work.cores
    # The total work does not depend on the number of users: each thinks in proportion.
    thinking_s = alone_s / RATIO[level] * work.users / USERS
    lines: list[ScriptLine] = []
    clock_s = 0.0
    while len(lines) < LINES_MAX:
        think_s = min(rng.expovariate(1.0 / thinking_s), LONGEST_THINKING * thinking_s)
        kind, demand_s = drawn_command(work, rng)
        clock_s += think_s
        if clock_s >= work.duration_s:
            break
        lines.append(ScriptLine(think_s, kind, demand_s))
        clock_s += demand_s / work.cores * STRETCH[level]
    return lines


def drawn_command(work: Work, rng: Random) -> tuple[str, float]:
    share = MAY_LEAVE_SHARE if work.staying else 1.0
    leaves = rng.random() < share
    part = MAY_LEAVE_WORK if work.staying else 1.0
    mean_s = work.demand_s * (part / share if leaves else (1.0 - part) / (1.0 - share))
    variance = math.log(1.0 + DEVIATION**2)
    demand_s = rng.lognormvariate(math.log(mean_s) - variance / 2.0, math.sqrt(variance))
    kind = rng.choice(work.leaving if leaves else work.staying)
    return kind, min(demand_s, LONGEST * mean_s)
