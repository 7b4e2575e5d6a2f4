"""Random jobs with the statistics that the thesis measured (Zhou 1987, tables 3.1 and 5.1 to 5.3).

Its traces are lost; it prints the mean and the standard deviation of gaps, CPU demands and I/Os.
CPU demands and I/Os are lognormal: with Berkeley's ratio of 6.1 between deviation and mean (the
12.8 that table 3.1 implies fits no other printed value) the quantiles match the printed ones, 60 to
65 % below 0.5 s. Gaps are hyperexponential with balanced means. No job is longer than the run, as
in the traces, and hosts differ in load, as the sessions did.

A trace file can replace them: lines of arrival, CPU seconds and optionally I/Os.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

IMBALANCE = 0.2  # hosts' loads are uniform within ± this share of the mean


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of load balancing, in CPU seconds of a reference core (section 3.2.3)."""

    send_s: float = 0.020
    receive_s: float = 0.010
    transfer_s: float = 0.100  # on each of the two hosts
    transfer_delay_s: float = 0.200
    io_s: float = 0.030  # of each disk I/O; by default nothing waits for a disk


BERKELEY = Costs()
# The costs on today's machines, with our daemons.
TODAY = Costs(send_s=0.0001, receive_s=0.0001, transfer_s=0.002, transfer_delay_s=0.005)
VAX_8650 = Costs(send_s=0.010, receive_s=0.005, transfer_s=0.050, transfer_delay_s=0.100)


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    utilisation: float  # of the CPUs, by jobs
    gap_cv: float  # of the times between a host's jobs: standard deviation / mean
    cpu_mean_s: float
    cpu_cv: float
    ios_mean: float
    ios_cv: float
    costs: Costs = BERKELEY
    cpu_shape: str = "lognormal"  # or "exponential", "constant"


SUN_2 = Costs(send_s=0.0145, receive_s=0.0057, transfer_s=0.1, transfer_delay_s=0.325)
# The scripts of chapter 4, of which only the mean demand (7.45 s) and the utilisation are printed.
# The deviation here is that of the response times without balancing, as a share of their mean.
SCRIPTS = Workload("scripts", 0.6, 2.64, 7.45, 1.69, 10.0, 1.0, SUN_2)
WORKLOADS = {
    "berkeley": Workload("berkeley", 0.629, 2.64, 1.492, 6.1, 18.23, 4.47),
    "bell": Workload("bell", 0.539, 3.77, 1.675, 31.0, 23.87, 6.20),
    "lbl": Workload("lbl", 0.463, 12.7, 2.702, 36.4, 58.83, 8.97, VAX_8650),
}


@dataclass(slots=True)
class Job:
    """One job on its way through the simulation."""

    number: int
    origin: int  # host
    arrived_s: float
    cpu_s: float  # demand, on a reference core
    ios: int
    mobile: bool = True
    bursts: int = 0  # pieces of its CPU time
    bursts_left: int = 0
    host: int = -1  # where it runs
    response_s: float = math.nan
    charged: bool = False  # its origin's LIM must hear of its end


@dataclass(frozen=True, slots=True)
class Stream:
    """Everything that determines the jobs of a run."""

    workload: Workload
    powers: Sequence[float]  # cores × speed of each host
    utilisation: float
    duration_s: float
    immobile: float
    imbalance: float = IMBALANCE
    weights: tuple[float, ...] = ()  # of the hosts, repeated in turn; replaces random weights


def drawn_jobs(stream: Stream, seed: str) -> list[Job]:
    """Returns the jobs of the run in order of arrival. A host's jobs depend only on the seed and
    the host's number."""
    weights = drawn_weights(stream, Random(f"{seed} hosts"))
    mean = sum(weights) / len(weights)
    demand_s = mean_demand_s(stream.workload, stream.duration_s)
    jobs: list[Job] = []
    for host, (power, weight) in enumerate(zip(stream.powers, weights, strict=True)):
        gap_s = demand_s / (stream.utilisation * power * weight / mean)
        jobs += host_jobs(stream, host, gap_s, Random(f"{seed} {host}"))
    jobs.sort(key=lambda job: job.arrived_s)
    for number, job in enumerate(jobs):
        job.number = number
    return jobs


def drawn_weights(stream: Stream, rng: Random) -> list[float]:
    """Returns each host's share of the work, relative to the others."""
    given, spread = stream.weights, stream.imbalance
    if given:
        return [given[number % len(given)] for number in range(len(stream.powers))]
    return [1.0 + rng.uniform(-spread, spread) for _ in stream.powers]


def host_jobs(stream: Stream, host: int, gap_s: float, rng: Random) -> Iterator[Job]:
    work = stream.workload
    now_s = gap(gap_s, work.gap_cv, rng)
    while now_s < stream.duration_s:
        cpu_s = min(demand(work.cpu_shape, work.cpu_mean_s, work.cpu_cv, rng), stream.duration_s)
        ios = int(demand("lognormal", work.ios_mean, work.ios_cv, rng) + rng.random())
        ios = min(ios, int(stream.duration_s / work.costs.io_s)) if work.costs.io_s else 0
        yield Job(0, host, now_s, cpu_s, ios, rng.random() >= stream.immobile)
        now_s += gap(gap_s, work.gap_cv, rng)


def gap(mean_s: float, cv: float, rng: Random) -> float:
    """Draws an exponential gap for cv = 1, above that one of two exponentials of equal total."""
    if cv <= 1.0:
        return rng.expovariate(1.0 / mean_s)
    square = cv * cv
    often = (1.0 + math.sqrt((square - 1.0) / (square + 1.0))) / 2.0
    share = often if rng.random() < often else 1.0 - often
    return rng.expovariate(2.0 * share / mean_s)


def demand(shape: str, mean: float, cv: float, rng: Random) -> float:
    if shape == "exponential":
        return rng.expovariate(1.0 / mean)
    if shape == "constant" or mean <= 0:
        return mean
    mu, sigma = lognormal(mean, cv)
    return rng.lognormvariate(mu, sigma)


def lognormal(mean: float, cv: float) -> tuple[float, float]:
    """Returns (mu, sigma) for that mean and ratio of deviation to mean."""
    variance = math.log(1.0 + cv * cv)
    return math.log(mean) - variance / 2.0, math.sqrt(variance)


def mean_demand_s(work: Workload, longest_s: float) -> float:
    """Returns the mean of CPU demands cut off at `longest_s`."""
    if work.cpu_shape == "constant":
        return min(work.cpu_mean_s, longest_s)
    if work.cpu_shape == "exponential":
        return work.cpu_mean_s * -math.expm1(-longest_s / work.cpu_mean_s)
    mu, sigma = lognormal(work.cpu_mean_s, work.cpu_cv)
    cut = (math.log(longest_s) - mu) / sigma
    return work.cpu_mean_s * below(cut - sigma) + longest_s * (1.0 - below(cut))


def below(z: float) -> float:
    """Returns the standard normal distribution function."""
    return math.erfc(-z / math.sqrt(2.0)) / 2.0
