"""Figures 3.9 to 3.15 and 3.17 of Zhou's thesis (1987): single hosts and kinds of jobs in our
simulator. As for `balance.py`, its curves are printed without numbers, and the claims are those of
its text.

Hosts are ordered by their utilisation without load balancing, and averaged by that rank over the
replications. Loads lie within ± 20 % of the mean, as in its figure 3.9.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lbd.sim.balance.engine import Engine
from lbd.sim.balance.runs import Run, begun, mean_and_sd
from lbd.sim.balance.workload import Job
from lbd.sim.engine.intervals import mean
from lbd.sim.figures.balance import base, shown
from lbd.sim.figures.figure import Claim, Curve, Drawing, Figure, Map, Scale

HOSTS, LOAD = 14, 0.633
SLICE_S = 30.0  # slices of figure 3.13
SIZES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # figure 3.15: the bounds between its seven ranges
FAIR = "; its CPUs served short jobs first, ours serve all alike, so here they gain, too"
SIZE_NAMES = ("below 0.5 s", "to 1", "to 2", "to 4", "to 8", "to 16", "above")


@dataclass(frozen=True, slots=True)
class OfHosts:
    """One run, host by host."""

    use: tuple[float, ...]  # CPU utilisation
    queue: tuple[float, ...]  # mean CPU queue length
    mean_s: tuple[float, ...]  # response time of the jobs submitted there
    sd_s: tuple[float, ...]
    slices: tuple[tuple[float, ...], ...]  # for each host, queue lengths over `SLICE_S`


def played(what: Run, period_s: float) -> tuple[Engine, list[Job], list[tuple[float, ...]]]:
    """Also returns each host's mean queue and CPU use in every interval of `period_s`."""
    engine, jobs = begun(what)
    for cpu in engine.cpus:
        cpu.is_metered = True
    duration_s = what[0].duration_s
    seen: list[tuple[float, ...]] = []

    def look(_: object, now_s: float) -> None:
        pairs = [cpu.means(now_s, period_s) for cpu in engine.cpus]
        seen.append(tuple(value for pair in pairs for value in pair))
        if now_s + period_s <= duration_s:
            engine.at(now_s + period_s, look, None)

    engine.at(period_s, look, None)
    engine.run(jobs)
    return engine, jobs, seen


def of_hosts(what: Run) -> OfHosts:
    _, jobs, seen = played(what, SLICE_S)
    hosts = range(what[0].hosts)
    of_each = [[job.response_s for job in jobs if job.origin == host] for host in hosts]
    moments = [mean_and_sd(times) for times in of_each]
    slices = [tuple(row[2 * host] for row in seen) for host in hosts]
    uses = [tuple(row[2 * host + 1] for row in seen) for host in hosts]
    return OfHosts(
        tuple(map(mean, uses)), tuple(map(mean, slices)),
        tuple(pair[0] for pair in moments), tuple(pair[1] for pair in moments), tuple(slices),
    )  # fmt: skip


def by_rank(scale: Scale, map_: Map, names: Sequence[str]) -> dict[str, list[OfHosts]]:
    """Returns each run's hosts, from the least to the most used under NOLB, by algorithm."""
    setup = base(scale, HOSTS, LOAD)
    numbers = range(scale.replications)
    runs = [(setup, name, n) for name in names for n in numbers]
    found = dict(zip(runs, map_(of_hosts, runs), strict=True))
    sorted_: dict[str, list[OfHosts]] = {}
    for n in numbers:
        use = found[setup, "NOLB", n].use
        order = sorted(range(HOSTS), key=lambda host: use[host])
        for name in names:
            sorted_.setdefault(name, []).append(reordered(found[setup, name, n], order))
    return sorted_


def reordered(run: OfHosts, order: Sequence[int]) -> OfHosts:
    def moved(values: Sequence[float]) -> tuple[float, ...]:
        return tuple(values[host] for host in order)

    slices = tuple(run.slices[host] for host in order)
    return OfHosts(moved(run.use), moved(run.queue), moved(run.mean_s), moved(run.sd_s), slices)


def ranked_lines(
    found: dict[str, list[OfHosts]], part: str
) -> tuple[tuple[Curve, ...], dict[str, list[float]]]:
    """Returns a line for each algorithm, over the ranks of hosts."""
    x = tuple(float(rank + 1) for rank in range(HOSTS))
    y = {
        name: [mean([getattr(run, part)[rank] for run in runs]) for rank in range(HOSTS)]
        for name, runs in found.items()
    }
    return tuple(Curve(name, x, tuple(values)) for name, values in y.items()), y


# -- the figures ---------------------------------------------------------------------------------


def utilisations(scale: Scale, map_: Map) -> Drawing:
    """[3.4.6]"""
    lines, y = ranked_lines(by_rank(scale, map_, ("NOLB", "GLOBAL")), "use")
    nolb, balanced = y["NOLB"], y["GLOBAL"]
    return Drawing(
        "host, by its CPU use without load balancing", "CPU use", lines,
        (
            Claim("hosts' CPU use lies between 50 and 75 %, 63.3 % on average (its trace's)",
                  nolb[0] > 0.4 and nolb[-1] < 0.85 and abs(mean(nolb) - LOAD) < 0.06,
                  f"{nolb[0]:.1%} to {nolb[-1]:.1%}, {mean(nolb):.1%}"),
            Claim("load balancing brings them closer together",
                  balanced[-1] - balanced[0] < nolb[-1] - nolb[0],
                  f"apart {nolb[-1] - nolb[0]:.3f} and {balanced[-1] - balanced[0]:.3f}"),
        ),
    )  # fmt: skip


NAMES = ("NOLB", "GLOBAL", "DISTED", "CENTRAL", "THRHLD", "LOWEST", "RANDOM")


def host_means(scale: Scale, map_: Map) -> Drawing:
    """[3.4.6]"""
    lines, y = ranked_lines(by_rank(scale, map_, NAMES), "mean_s")
    gains = [1 - mine / none for mine, none in zip(y["GLOBAL"], y["NOLB"], strict=True)]
    better = sum(gain > 0 for gain in gains)
    third = HOSTS // 3
    return Drawing(
        "host, by its CPU use without load balancing",
        "mean response time of its own users' jobs, s", lines,
        (
            Claim("the users of all hosts gain, generally", better >= HOSTS - 1,
                  f"{better} of {HOSTS} under GLOBAL, from {min(gains):.1%} to {max(gains):.1%}"),
            Claim("those of heavily loaded hosts more",
                  mean(gains[-third:]) > mean(gains[:third]),
                  f"{mean(gains[:third]):.1%} and {mean(gains[-third:]):.1%}"),
        ),
    )  # fmt: skip


def host_deviations(scale: Scale, map_: Map) -> Drawing:
    """[3.4.6]"""
    found = by_rank(scale, map_, NAMES)
    lines, sd = ranked_lines(found, "sd_s")
    _, mean_s = ranked_lines(found, "mean_s")
    means = mean(mean_s["NOLB"]) / mean(mean_s["GLOBAL"])
    sds = mean(sd["NOLB"]) / mean(sd["GLOBAL"])
    return Drawing(
        "host, by its CPU use without load balancing",
        "standard deviation of the response time, s", lines,
        (
            Claim("the mean is cut by a factor of 1.5 to 2", 1.5 <= means <= 2, f"{means:.2f}"),
            Claim("the deviation is cut by a factor of 2 to 4", 2 <= sds <= 4, f"{sds:.2f}"),
            Claim("the deviation falls more than the mean", sds > means,
                  f"{sds:.2f} and {means:.2f}"),
        ),
    )  # fmt: skip


def host_queues(scale: Scale, map_: Map) -> Drawing:
    """[3.4.6]"""
    lines, y = ranked_lines(by_rank(scale, map_, NAMES), "queue")
    apart = {name: max(values) - min(values) for name, values in y.items()}
    probing = min(apart["THRHLD"], apart["LOWEST"])
    return Drawing(
        "host, by its CPU use without load balancing", "mean CPU queue length", lines,
        (
            Claim("loads become more equal under every algorithm",
                  max(v for k, v in apart.items() if k != "NOLB") < apart["NOLB"],
                  ", ".join(f"{name} {value:.2f}" for name, value in apart.items())),
            Claim("under GLOBAL and DISTED more so than under THRHLD and LOWEST",
                  max(apart["GLOBAL"], apart["DISTED"]) < probing,
                  ", ".join(f"{name} {apart[name]:.2f}"
                            for name in ("GLOBAL", "DISTED", "THRHLD", "LOWEST"))),
        ),
    )  # fmt: skip


def over_time(scale: Scale, map_: Map) -> Drawing:
    """[3.4.6] From the first replication."""
    one = Scale(scale.duration_s, 1, scale.seed)
    found = by_rank(one, map_, ("NOLB", "GLOBAL"))
    lines, apart = [], {}
    for name, (run,) in found.items():
        x = tuple(SLICE_S * (at + 1) for at in range(len(run.slices[0])))
        lines += [
            Curve(f"{name}, least loaded", x, run.slices[0]),
            Curve(f"{name}, most loaded", x, run.slices[-1]),
        ]
        apart[name] = mean([max(values) - min(values) for values in zip(*run.slices, strict=True)])
    return Drawing(
        "s", "CPU queue length, mean of 30 s", tuple(lines),
        (Claim("the hosts' curves become very similar to each other",
               apart["GLOBAL"] < 0.5 * apart["NOLB"],
               f"all hosts apart by {apart['NOLB']:.1f} without, {apart['GLOBAL']:.1f} with"),),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class OfSizes:
    """One run's response times by kind of job: their number and sum."""

    small: tuple[int, float]
    local: tuple[int, float]
    remote: tuple[int, float]
    sizes: tuple[tuple[int, float], ...]


def of_sizes(what: Run) -> OfSizes:
    engine, jobs = begun(what)
    engine.run(jobs)
    limit_s = what[0].lim.job_threshold_s
    big = [job for job in jobs if job.cpu_s > limit_s]
    groups: list[list[Job]] = [[] for _ in range(len(SIZES_S) + 1)]
    for job in jobs:
        groups[sum(job.cpu_s > size for size in SIZES_S)].append(job)
    return OfSizes(
        counted([job for job in jobs if job.cpu_s <= limit_s]),
        counted([job for job in big if job.host == job.origin]),
        counted([job for job in big if job.host != job.origin]),
        tuple(map(counted, groups)),
    )


def counted(jobs: Sequence[Job]) -> tuple[int, float]:
    return len(jobs), math.fsum(job.response_s for job in jobs)


def mean_of(pairs: Sequence[tuple[int, float]]) -> float:
    count = sum(pair[0] for pair in pairs)
    return math.fsum(pair[1] for pair in pairs) / count if count else math.nan


def sized(scale: Scale, map_: Map) -> tuple[list[OfSizes], list[OfSizes]]:
    """Returns results under NOLB and under GLOBAL, with T_CPU = 1 s on 28 hosts."""
    setup = base(scale, 28, 0.63)
    numbers = range(scale.replications)
    runs = [(setup, name, n) for name in ("NOLB", "GLOBAL") for n in numbers]
    found = map_(of_sizes, runs)
    return found[: len(numbers)], found[len(numbers) :]


def job_classes(scale: Scale, map_: Map) -> Drawing:
    """[3.4.7]"""
    nolb, balanced = sized(scale, map_)

    def classes(runs: Sequence[OfSizes]) -> tuple[float, ...]:
        local, remote = [run.local for run in runs], [run.remote for run in runs]
        small = mean_of([run.small for run in runs])
        return small, mean_of([*local, *remote]), mean_of(local), mean_of(remote)

    without, with_it = classes(nolb), classes(balanced)
    return Drawing(
        "1 small (T_CPU and less), 2 big, 3 big and stayed, 4 big and moved",
        "mean response time, s",
        (
            Curve("NOLB", (1.0, 2.0, 3.0), without[:3]),
            Curve("GLOBAL", (1.0, 2.0, 3.0, 4.0), with_it),
        ),
        (
            Claim("small jobs take almost the same time",
                  abs(with_it[0] / without[0] - 1) < 0.1,
                  f"{shown([without[0], with_it[0]])} s{FAIR}"),
            Claim("big jobs take about half", 0.35 < with_it[1] / without[1] < 0.65,
                  shown([without[1], with_it[1]])),
            Claim("jobs that move take moderately longer than those that stay, but comparably",
                  1 < with_it[3] / with_it[2] < 1.5,
                  f"{shown([with_it[3], with_it[2]])} s: comparable"),
        ),
    )  # fmt: skip


def job_sizes(scale: Scale, map_: Map) -> Drawing:
    """[3.4.7]"""
    nolb, balanced = sized(scale, map_)
    ratios = [
        mean_of([run.sizes[at] for run in balanced]) / mean_of([run.sizes[at] for run in nolb])
        for at in range(len(SIZE_NAMES))
    ]
    eligible = ratios[2:]
    return Drawing(
        "CPU time of the job: "
        + ", ".join(f"{n} {name}" for n, name in enumerate(SIZE_NAMES, 1)),
        "mean response time / NOLB's",
        (Curve("GLOBAL", tuple(float(n) for n in range(1, len(ratios) + 1)), tuple(ratios)),),
        (
            Claim("the very small suffer slightly", 1.0 < ratios[0] < 1.15,
                  f"{ratios[0]:.3f}{FAIR}"),
            Claim("all others improve substantially", max(ratios[1:]) < 0.9, shown(ratios[1:])),
            Claim("bigger ones more", eligible == sorted(eligible, reverse=True), shown(eligible)),
        ),
    )  # fmt: skip


def least_loaded(what: Run) -> Counter[int]:
    """Counts, each second, how many hosts have the shortest CPU queue."""
    engine, jobs = begun(what)
    for cpu in engine.cpus:
        cpu.is_metered = True
    duration_s = what[0].duration_s
    found: Counter[int] = Counter()

    def look(_: object, now_s: float) -> None:
        lengths = [len(cpu) for cpu in engine.cpus]
        found[lengths.count(min(lengths))] += 1
        if now_s + 1.0 <= duration_s:
            engine.at(now_s + 1.0, look, None)

    engine.at(1.0, look, None)
    engine.run(jobs)
    return found


def least_hosts(scale: Scale, map_: Map) -> Drawing:
    """[3.4.8]"""
    lines, few, means = [], {}, {}
    for hosts in (14, 28):
        setup = base(scale, hosts, 0.63, "exchange_period_s=5")
        runs = [(setup, "GLOBAL", n) for n in range(scale.replications)]
        total: Counter[int] = sum(map_(least_loaded, runs), Counter())
        looks = total.total()
        shares = tuple(total[n] / looks for n in range(1, hosts + 1))
        lines.append(Curve(f"{hosts} hosts", tuple(map(float, range(1, hosts + 1))), shares))
        few[hosts] = shares[0] + shares[1]
        means[hosts] = math.fsum((n + 1) * share for n, share in enumerate(shares))
    return Drawing(
        "hosts that have the least load", "probability", tuple(lines),
        (
            Claim("that it is one or two only is not negligible (a herd can form)",
                  min(few.values()) > 0.02, f"{few[14]:.1%} of 14, {few[28]:.1%} of 28"),
            Claim("with more hosts there are more of them", means[28] > means[14],
                  f"{means[14]:.1f} and {means[28]:.1f} on average"),
        ),
    )  # fmt: skip


FIGURES = {
    "zhou-3.9": Figure("CPU use of hosts", "Zhou 1987, figure 3.9", utilisations),
    "zhou-3.10": Figure("Mean response by host", "Zhou 1987, figure 3.10", host_means),
    "zhou-3.11": Figure("Its deviation by host", "Zhou 1987, figure 3.11", host_deviations),
    "zhou-3.12": Figure("Queue lengths of hosts", "Zhou 1987, figure 3.12", host_queues),
    "zhou-3.13": Figure("Load over time", "Zhou 1987, figure 3.13", over_time),
    "zhou-3.14": Figure("Classes of jobs", "Zhou 1987, figure 3.14", job_classes),
    "zhou-3.15": Figure("Sizes of jobs", "Zhou 1987, figure 3.15", job_sizes),
    "zhou-3.17": Figure("Hosts with the least load", "Zhou 1987, figure 3.17", least_hosts),
}
