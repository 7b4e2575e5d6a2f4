"""One experiment: its options, the runs they make, and each run's parameters.

A run is a load, an algorithm, a load index and a replication. All runs of a load and replication
use exactly the same scripts. Their order is drawn from the seed, so that whatever else this machine
does meanwhile affects all of them.

The thesis's times (P, T) are for its jobs of 7.45 s; here they shrink as the jobs do. Its T_l and Δ
are queue lengths; an index here is a queue ÷ the host's cores, so they are scaled to that.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from lbd.config.schema import ALGORITHMS
from lbd.errors import ConfigError
from lbd.sim.scripts import Work
from lbd.text.spelling import hint

NOLB = "NOLB"
INDEX = "smoothed/4"  # used in the thesis's comparison of algorithms
THESIS_JOB_S = 7.45
# P from table 4.7; P2C and PREDICT, which are our own, exchange loads as GLOBAL does.
PERIODS_S = {"GLOBAL": 5.0, "CENTRAL": 10.0, "DISTED": 15.0, "P2C": 5.0, "PREDICT": 5.0}
PERIOD_S = 10.0  # of the other algorithms, which do not report changes
LOCAL_THRESHOLD, MIN_GAIN, PROBE_LIMIT = 0.8, 0.5, 4
UTILISATION_GAIN = 0.1
CHANGE = 0.1  # a change of a tenth of a task is reported
SMOOTHING_S = 4.0
SHORTEST_S = 0.1
OF_LIM = (
    "lim.exchange_period_s", "lim.local_threshold", "lim.min_gain", "lim.probe_limit",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of load, as in table 4.5."""

    index: str  # load.index
    weight: float = 0.0  # of tasks that wait for disk or memory
    has_time: bool = True  # whether T can be chosen
    utilisation: bool = False  # the index never exceeds 1


MEASURES = {
    "smoothed": Measure("smoothed", 1.0),
    "queue": Measure("smoothed"),  # of the CPU alone
    "instant": Measure("instant", has_time=False),
    "load-average": Measure("load-average", has_time=False),
    "utilisation": Measure("utilisation", utilisation=True),
}


@dataclass(frozen=True, slots=True)
class Index:
    """A load index: `smoothed/4` is the measure `smoothed` with T = 4 s of the thesis's time."""

    name: str
    smoothing_s: float = SMOOTHING_S

    @property
    def measure(self) -> Measure:
        return MEASURES[self.name]

    def __str__(self) -> str:
        return f"{self.name}/{self.smoothing_s:g}" if self.measure.has_time else self.name


@dataclass(frozen=True, slots=True)
class Case:
    """One run of the experiment."""

    load: str
    algorithm: str
    index: str
    replication: int

    @property
    def name(self) -> str:
        index = self.index.replace("/", "-")
        return f"{self.load}.{self.algorithm}.{index}.{self.replication + 1}"


@dataclass(frozen=True, slots=True)
class Design:
    """Everything that decides the results, apart from this machine."""

    hosts: int
    cpus: float
    loads: tuple[str, ...]
    algorithms: tuple[str, ...]  # without NOLB, which is always included
    indices: tuple[str, ...]
    users: int
    demand_s: float
    duration_s: float
    replications: int
    seed: int
    commands: tuple[str, ...]
    settings: tuple[str, ...] = ()

    def line(self, out: str) -> str:
        """Returns the command line that repeats the experiment."""
        words = [
            "lbd", "lab", "experiment", "--seed", str(self.seed), "--hosts", str(self.hosts),
            "--cpus", f"{self.cpus:.12g}", "--load", ",".join(self.loads),
            "--algorithm", ",".join(self.algorithms or (NOLB,)), "--index", ",".join(self.indices),
            "--users", str(self.users), "--demand", f"{self.demand_s:.12g}",
            "--duration", f"{self.duration_s:.12g}", "--replications", str(self.replications),
            "--commands", ",".join(self.commands),
            *(word for setting in self.settings for word in ("--set", setting)),
            "--out", out,
        ]  # fmt: skip
        return shlex.join(words)

    def work(self, load: str, leaving: Sequence[str], staying: Sequence[str]) -> Work:
        return Work(
            load, self.hosts, self.cpus, self.users, self.demand_s, self.duration_s,
            tuple(leaving), tuple(staying),
        )  # fmt: skip

    def cases(self) -> list[Case]:
        """Returns the runs in their order."""
        found: list[Case] = []
        rng = Random(f"{self.seed} order")
        first = self.indices[0]
        for replication in range(self.replications):
            some = [
                Case(load, algorithm, index, replication)
                for load in self.loads
                for index in self.indices
                for algorithm in (*([NOLB] if index == first else []), *self.algorithms)
            ]
            rng.shuffle(some)
            found += some
        return found

    def parameters(self, case: Case) -> dict[str, float | str]:
        """Returns the LIMs' parameters by their full names."""
        scale = self.demand_s / self.cpus / THESIS_JOB_S
        index = index_of(case.index)
        measure = index.measure
        period_s = PERIODS_S.get(case.algorithm, PERIOD_S)
        of_queue = not measure.utilisation
        return {
            "lim.exchange_period_s": max(SHORTEST_S, round(period_s * scale, 3)),
            "lim.local_threshold": round(LOCAL_THRESHOLD / (self.cpus if of_queue else 1.0), 3),
            "lim.min_gain": round(MIN_GAIN / self.cpus, 3) if of_queue else UTILISATION_GAIN,
            "lim.probe_limit": PROBE_LIMIT,
            "load.index": measure.index,
            "load.smoothing_s": max(SHORTEST_S, round(index.smoothing_s * scale, 3)),
            "load.io_weight": measure.weight,
            "load.memory_weight": measure.weight,
        }


def words_of(design: Design, algorithm: str, index: str) -> tuple[str, ...]:
    """Returns the parameters in the simulator's form."""
    given = design.parameters(Case("", algorithm, index, 0))
    has_time = index_of(index).measure.has_time  # otherwise the index's name implies T
    names = ("load.index", *(("load.smoothing_s",) if has_time else ()), *OF_LIM)
    words = [f"{name.partition('.')[2]}={given[name]}" for name in names]
    return (*words, f"change_threshold={change_threshold(design.cpus)}")


def change_threshold(cpus: float) -> float:
    return round(CHANGE / cpus, 3)


def design_of(body: Mapping[str, object]) -> Design:
    """Reads a design that `asdict` wrote. Raises KeyError, TypeError or ValueError."""

    def number(name: str) -> float:
        return float(str(body[name]))

    def names(name: str) -> tuple[str, ...]:
        found = body[name]
        if not isinstance(found, list):
            raise TypeError(f"{name} is no list")
        return tuple(map(str, found))

    return Design(
        hosts=int(number("hosts")), cpus=number("cpus"), loads=names("loads"),
        algorithms=names("algorithms"), indices=names("indices"), users=int(number("users")),
        demand_s=number("demand_s"), duration_s=number("duration_s"),
        replications=int(number("replications")), seed=int(str(body["seed"])),
        commands=names("commands"), settings=names("settings"),
    )  # fmt: skip


def index_of(given: str) -> Index:
    """Raises ConfigError."""
    name, slash, time = given.partition("/")
    if name not in MEASURES:
        raise ConfigError(f'--index: no "{name}"; {hint(name, MEASURES)}')
    if not slash:
        return Index(name)
    try:
        smoothing_s = float(time)
    except ValueError:
        smoothing_s = 0.0
    if not MEASURES[name].has_time or not 0.1 <= smoothing_s <= 600.0:
        timed = ", ".join(f"{key}/T" for key, one in MEASURES.items() if one.has_time)
        raise ConfigError(f"--index {given}: must be {timed}, with T from 0.1 to 600 s")
    return Index(name, smoothing_s)


def algorithms_of(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the names in canonical spelling, without NOLB or duplicates. Raises ConfigError."""
    if [name.upper() for name in names] == ["ALL"]:
        return tuple(name for name in ALGORITHMS if name != NOLB)
    for name in names:
        if name.upper() not in ALGORITHMS:
            raise ConfigError(f'--algorithm: no "{name}"; {hint(name, (*ALGORITHMS, "ALL"))}')
    return tuple(dict.fromkeys(name.upper() for name in names if name.upper() != NOLB))
