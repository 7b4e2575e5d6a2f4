"""Is each claim of Zhou's figures judged by what its sentence says? Nothing is simulated: in a
made-up world that agrees with the thesis every claim holds, and where a claim's own sentence is
wrong it does not hold."""

from collections import Counter
from dataclasses import dataclass, replace

import pytest

from lbd.sim.balance.runs import Outcome
from lbd.sim.figures import balance as figures_balance
from lbd.sim.figures import hosts as figures_hosts
from lbd.sim.figures.figure import Scale
from lbd.sim.figures.hosts import HOSTS, OfHosts, OfSizes

FIGURES = figures_balance.FIGURES | figures_hosts.FIGURES
SMALL = Scale(duration_s=60.0, replications=2)
NOLB_S = 7.5
WRONG = 1000


def slope(first, last, count=HOSTS):
    return tuple(first + (last - first) * at / (count - 1) for at in range(count))


# -- curves: the ratio to NOLB of each line at each x ----------------------------------------------


@dataclass(frozen=True)
class Curves:
    """`key`: the line and x of a run."""

    key: object
    x: tuple
    y: dict
    wrong: dict | None = None  # % of the transfers
    nolb_s: float = NOLB_S

    def but(self, **more):
        """A copy with some lines replaced; `_` stands for characters that a name cannot have."""
        y = self.y | {line_named(name, self.y): values for name, values in more.items()}
        return replace(self, y=y)

    def outcome(self, run):
        setup, algorithm, _ = run
        ratio, wrong = 1.0, 0.0
        if algorithm != "NOLB" or "NOLB" in self.y:
            line, x = self.key(setup, algorithm)
            ratio = self.y[line][self.x.index(x)]
            wrong = self.wrong[line][self.x.index(x)] if self.wrong else 0.0
        return Outcome(
            algorithm, jobs=2 * WRONG, mean_response_s=ratio * self.nolb_s, sd_response_s=1.0,
            part_means_s=(1.0, 1.0), moved=WRONG, wrong=round(wrong * WRONG / 100),
            messages_per_host_s=0.0, overhead_share=0.0, events=0, seen={},
        )  # fmt: skip

    def map(self, _function, runs):
        return [self.outcome(run) for run in runs]


def line_named(name, lines):
    (found,) = [line for line in lines if "".join(filter(str.isalnum, line)) == name.lstrip("_")]
    return found


def by_cpu(setup, _algorithm):
    return f"T_CPU = {setup.lim.job_threshold_s:g} s", setup.lim.exchange_period_s


PERIODS = (0.1, 0.35, 1.0, 2.0, 5.0, 10.0)
VALLEY = (0.9, 0.6, 0.5, 0.51, 0.6, 0.8)
INFORMED = dict.fromkeys(("CENTRAL", "GLOBAL", "LOWEST", "THRHLD"))

TRUE = {
    "zhou-3.2": Curves(
        lambda setup, name: (name, setup.hosts),
        (7, 14, 28, 49),
        {
            "CENTRAL": (0.55, 0.50, 0.46, 0.45), "GLOBAL": (0.56, 0.51, 0.47, 0.46),
            "LOWEST": (0.56, 0.51, 0.47, 0.46), "THRHLD": (0.58, 0.53, 0.49, 0.48),
            "DISTED": (0.57, 0.53, 0.50, 0.55), "RESERVE": (0.60, 0.56, 0.52, 0.51),
            "RANDOM": (0.70, 0.66, 0.63, 0.62), "PartCOST": (0.50, 0.45, 0.41, 0.40),
            "NoCOST": (0.45, 0.40, 0.36, 0.35),
        },
    ),
    "zhou-3.2b": Curves(
        lambda setup, name: (name, setup.hosts),
        (2, 4, 7),
        dict.fromkeys((*INFORMED, "RANDOM", "NoCOST"), (0.85, 0.7, 0.6)),
    ),
    "zhou-3.3": Curves(
        lambda setup, name: (name, setup.utilisation),
        (0.48, 0.56, 0.63, 0.73, 0.79),
        dict.fromkeys(INFORMED, (0.4, 0.45, 0.5, 0.55, 0.6))
        | {"NOLB": (0.6, 0.7, 1.0, 1.5, 2.0), "RANDOM": (0.5, 0.6, 0.7, 0.8, 0.9),
           "NoCOST": (0.3, 0.3, 0.3, 0.4, 0.4)},
    ),
    "zhou-3.4": Curves(
        by_cpu, PERIODS, {f"T_CPU = {cpu} s": VALLEY for cpu in ("0.25", "0.5", "1", "2", "3")}
    ),
    "zhou-3.5": Curves(
        lambda setup, _: (f"{setup.utilisation:.1%} load", setup.lim.probe_limit),
        (1, 2, 3, 5, 9, 13),
        {"48.1% load": (0.8, 0.75, 0.72, 0.7, 0.69, 0.68),
         "72.6% load": (0.7, 0.6, 0.55, 0.53, 0.52, 0.54),
         "85.1% load": (0.6, 0.5, 0.45, 0.46, 0.5, 0.56)},
    ),
    "zhou-3.5a": Curves(
        lambda setup, name: (name, setup.lim.reservations),
        (1, 2, 3, 5, 8),
        {"RESERVE": (0.6, 0.55, 0.53, 0.52, 0.52)},
    ),
    "zhou-3.6": Curves(
        lambda setup, name: (name, setup.immobile),
        (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        dict.fromkeys(("GLOBAL", "LOWEST"), (0.5, 0.55, 0.6, 0.68, 0.8, 1.0)),
    ),
    "zhou-3.7": Curves(
        lambda setup, name: (name, setup.costs.send_s),
        (0.0, 0.01, 0.02, 0.04),
        dict.fromkeys(INFORMED, (0.5, 0.51, 0.52, 0.53))
        | {"DISTED": (0.5, 0.6, 0.7, 0.9), "RANDOM": (0.65,) * 4},
    ),
    "zhou-3.8": Curves(
        lambda setup, name: (name, setup.costs.transfer_s),
        (0.0, 0.1, 0.2, 0.4),
        dict.fromkeys((*INFORMED, "RANDOM"), (0.5, 0.52, 0.55, 0.6)),
    ),
    "zhou-3.16": Curves(
        by_cpu,
        (0.5, 1.0, 2.0, 5.0, 10.0),
        {f"T_CPU = {cpu} s": (0.5,) * 5 for cpu in ("0.5", "1", "2")},
        {"T_CPU = 0.5 s": (5, 8, 12, 20, 30), "T_CPU = 1 s": (4, 6, 9, 15, 22),
         "T_CPU = 2 s": (3, 5, 7, 10, 15)},
    ),
}  # fmt: skip


def wrong(**more):
    world = TRUE["zhou-3.16"]
    assert world.wrong
    lines = {line_named(name, world.wrong): values for name, values in more.items()}
    return replace(world, wrong=world.wrong | lines)


FALSE = [
    ("zhou-3.2", "every algorithm improves", {"RANDOM": (0.7, 0.7, 0.7, 1.05)}),
    ("zhou-3.2", "NoCOST < PartCOST", {"NoCOST": (0.46,) * 4}),
    ("zhou-3.2", "NoCOST < PartCOST", {"PartCOST": (0.5,) * 4}),
    ("zhou-3.2", "CENTRAL, GLOBAL, LOWEST", {"THRHLD": (0.7, 0.65, 0.6, 0.6)}),
    ("zhou-3.2", "CENTRAL, GLOBAL, LOWEST", {"CENTRAL": (0.58, 0.53, 0.49, 0.48)}),
    ("zhou-3.2", "RANDOM is behind", {"RANDOM": (0.5,) * 4}),
    ("zhou-3.2", "RESERVE is behind", {"RESERVE": (0.57, 0.52, 0.48, 0.47)}),
    ("zhou-3.2", "DISTED falls behind", {"DISTED": (0.65, 0.55, 0.5, 0.47)}),
    ("zhou-3.2", "beyond 28 hosts", {"LOWEST": (0.56, 0.51, 0.47, 0.38)}),
    ("zhou-3.2b", "two hosts gain", {"CENTRAL": (1.01, 0.7, 0.6)}),
    ("zhou-3.2b", "each host more", {"GLOBAL": (0.85, 0.7, 0.72)}),
    ("zhou-3.3", "the gain grows", {"NOLB": (2.0,) * 5}),
    ("zhou-3.3", "under heavy load", {"NOLB": (0.6, 0.65, 0.7, 0.8, 0.9)}),
    ("zhou-3.3", "the ranking stays", {"RANDOM": (0.5, 0.6, 0.7, 0.8, 0.55)}),
    ("zhou-3.4", "P has a strong influence", {"TCPU1s": (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)}),
    ("zhou-3.4", "the best P lies", {"TCPU1s": (0.9, 0.5, 0.6, 0.7, 0.8, 0.9)}),
    ("zhou-3.4", "T_CPU of 0.5, 1 and 2 s", {"TCPU2s": (0.9, 0.7, 0.6, 0.6, 0.7, 0.8)}),
    ("zhou-3.5", "more than one probe", {"_726load": (0.5, 0.6, 0.6, 0.6, 0.6, 0.6)}),
    ("zhou-3.5", "the heavier the load", {"_851load": (0.6, 0.5, 0.45, 0.44, 0.43, 0.42)}),
    ("zhou-3.5a", "one reservation", {"RESERVE": (0.525, 0.55, 0.53, 0.52, 0.52)}),
    ("zhou-3.6", "half of the gain", {"LOWEST": (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)}),
    ("zhou-3.6", "with every job immobile", {"LOWEST": (0.5, 0.55, 0.6, 0.68, 0.8, 0.9)}),
    ("zhou-3.7", "DISTED suffers", {"GLOBAL": (0.4, 0.5, 0.7, 0.95)}),
    ("zhou-3.7", "RANDOM's line", {"RANDOM": (0.65, 0.65, 0.65, 0.66)}),
    ("zhou-3.7", "at 40 ms", {"CENTRAL": (0.5, 0.55, 0.6, 0.65)}),
    ("zhou-3.8", "dearer transfers", {"RANDOM": (0.5,) * 4}),
    ("zhou-3.8", "at twice the measured", {"LOWEST": (0.5, 0.7, 0.85, 0.9)}),
    ("zhou-3.16", "with P = 1 s", {"TCPU1s": (0.5, 0.8, 0.5, 0.5, 0.5)}),
]  # fmt: skip
FALSE_TOO = [
    ("zhou-3.4", "NoLB takes 7.46 s", replace(TRUE["zhou-3.4"], nolb_s=12.0)),
    ("zhou-3.16", "the older the loads", wrong(TCPU2s=(3, 5, 7, 10, 9))),
    ("zhou-3.16", "the fewer jobs are eligible", wrong(TCPU2s=(3, 5, 7, 10, 25))),
    ("zhou-3.16", "with P = 1 s", wrong(TCPU1s=(4, 12, 13, 15, 22))),
]


# -- hosts and jobs, one at a time ----------------------------------------------------------------


@dataclass(frozen=True)
class Hosts:
    """The values of each host by algorithm; those left out are as GLOBAL's."""

    part: str
    of: dict

    def but(self, **more):
        return replace(self, of=self.of | more)

    def map(self, _function, runs):
        return [self.run(name) for _, name, _ in runs]

    def run(self, name):
        flat = slope(0.5, 0.76)
        run = OfHosts(flat, flat, flat, flat, tuple((value, value) for value in flat))
        values = self.of.get(name, self.of["GLOBAL"])
        if self.part == "both":
            return replace(run, mean_s=values[:1] * HOSTS, sd_s=values[1:] * HOSTS)
        if self.part == "slices":
            return replace(run, slices=tuple((value, value) for value in values))
        return replace(run, **{self.part: values})


@dataclass(frozen=True)
class Sizes:
    """Times under GLOBAL, in s; under NOLB small jobs take 1 s, big ones 10, each size 1."""

    of: dict

    def but(self, **more):
        return replace(self, of=self.of | more)

    def map(self, _function, runs):
        return [self.run(name) for _, name, _ in runs]

    def run(self, name):
        if name == "NOLB":
            return OfSizes((10, 10.0), (10, 100.0), (0, 0.0), ((10, 10.0),) * 7)
        small, local, remote = (self.of[key] for key in ("small", "local", "remote"))
        sizes = tuple((10, 10 * ratio) for ratio in self.of["sizes"])
        return OfSizes((10, 10 * small), (10, 10 * local), (10, 10 * remote), sizes)


@dataclass(frozen=True)
class Least:
    """How often so many hosts of 14 and of 28 had the least load."""

    of: dict

    def but(self, **more):
        return replace(self, of=self.of | more)

    def map(self, _function, runs):
        return [Counter(self.of[f"h{setup.hosts}"]) for setup, _, _ in runs]


SIZES = Sizes({"small": 1.02, "local": 4.8, "remote": 5.2,
               "sizes": (1.05, 0.85, 0.8, 0.7, 0.6, 0.5, 0.45)})  # fmt: skip
TRUE |= {
    "zhou-3.9": Hosts("use", {"NOLB": slope(0.5, 0.76), "GLOBAL": slope(0.6, 0.66)}),
    "zhou-3.10": Hosts("mean_s", {"NOLB": slope(5, 12), "GLOBAL": slope(4.5, 6)}),
    "zhou-3.11": Hosts("both", {"NOLB": (10.0, 15.0), "GLOBAL": (6.0, 5.0)}),
    "zhou-3.12": Hosts("queue", {
        "NOLB": slope(0.5, 3.0), "GLOBAL": slope(0.9, 1.1), "RANDOM": slope(0.7, 1.8),
        "THRHLD": slope(0.8, 1.4), "LOWEST": slope(0.8, 1.4),
    }),
    "zhou-3.13": Hosts("slices", {"NOLB": slope(0, 4), "GLOBAL": slope(1, 2)}),
    "zhou-3.14": SIZES,
    "zhou-3.15": SIZES,
    "zhou-3.17": Least({"h14": {1: 5, 2: 5, 5: 50, 8: 40}, "h28": {1: 3, 2: 3, 10: 50, 15: 44}}),
}  # fmt: skip
FALSE += [
    ("zhou-3.9", "hosts' CPU use", {"NOLB": slope(0.3, 0.96), "GLOBAL": slope(0.6, 0.66)}),
    ("zhou-3.9", "hosts' CPU use", {"NOLB": slope(0.62, 0.84)}),
    ("zhou-3.9", "load balancing brings", {"GLOBAL": slope(0.45, 0.81)}),
    ("zhou-3.10", "the users of all hosts", {"GLOBAL": (6.0, 6.0, *slope(4.5, 6)[2:])}),
    ("zhou-3.10", "those of heavily loaded", {"GLOBAL": slope(2, 11.5)}),
    ("zhou-3.11", "the mean is cut", {"GLOBAL": (9.0, 5.0)}),
    ("zhou-3.11", "the mean is cut", {"GLOBAL": (4.0, 5.0)}),
    ("zhou-3.11", "the deviation is cut", {"GLOBAL": (6.0, 10.0)}),
    ("zhou-3.11", "the deviation is cut", {"GLOBAL": (6.0, 3.0)}),
    ("zhou-3.11", "the deviation falls more", {"GLOBAL": (6.0, 10.0)}),
    ("zhou-3.12", "loads become more equal", {"RANDOM": slope(0.1, 4.0)}),
    ("zhou-3.12", "under GLOBAL and DISTED", {"GLOBAL": slope(0.5, 1.9)}),
    ("zhou-3.12", "under GLOBAL and DISTED", {"DISTED": slope(0.5, 1.9)}),
    ("zhou-3.13", "the hosts' curves", {"GLOBAL": slope(0, 3)}),
    ("zhou-3.14", "small jobs", {"small": 1.3}),
    ("zhou-3.14", "big jobs", {"local": 9.0, "remote": 9.5}),
    ("zhou-3.14", "big jobs", {"local": 2.0, "remote": 2.5}),
    ("zhou-3.14", "jobs that move", {"remote": 4.0}),
    ("zhou-3.14", "jobs that move", {"local": 3.3, "remote": 6.6}),
    ("zhou-3.15", "the very small", {"sizes": (0.95, *SIZES.of["sizes"][1:])}),
    ("zhou-3.15", "the very small", {"sizes": (1.3, *SIZES.of["sizes"][1:])}),
    ("zhou-3.15", "all others", {"sizes": (1.05, 0.95, *SIZES.of["sizes"][2:])}),
    ("zhou-3.15", "bigger ones", {"sizes": (1.05, 0.85, 0.5, 0.6, 0.7, 0.8, 0.85)}),
    ("zhou-3.17", "that it is one or two", {"h28": {10: 50, 15: 50}}),
    ("zhou-3.17", "with more hosts", {"h28": {1: 10, 2: 10, 4: 80}}),
]  # fmt: skip


def verdicts(figure, world):
    return {c.text: c.holds for c in FIGURES[figure].make(SMALL, world.map).claims}


def test_every_claim_of_every_figure_is_refuted_somewhere():
    assert set(TRUE) == {name for name in FIGURES if name.startswith("zhou-")} == set(FIGURES)
    refuted = [(figure, text) for figure, text, _ in (*FALSE, *FALSE_TOO)]
    for figure, world in TRUE.items():
        for claim in verdicts(figure, world):
            known = [text for name, text in refuted if name == figure and claim.startswith(text)]
            assert known, f"{figure}: {claim}"


@pytest.mark.parametrize("figure", TRUE)
def test_where_the_thesis_is_right_every_claim_holds(figure):
    assert [text for text, holds in verdicts(figure, TRUE[figure]).items() if not holds] == []


@pytest.mark.parametrize(
    ("figure", "claim", "world"),
    [(figure, text, TRUE[figure].but(**more)) for figure, text, more in FALSE] + FALSE_TOO,
)
def test_a_claim_whose_sentence_is_wrong_does_not_hold(figure, claim, world):
    (holds,) = [v for text, v in verdicts(figure, world).items() if text.startswith(claim)]
    assert not holds
