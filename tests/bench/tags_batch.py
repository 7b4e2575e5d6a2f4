"""One batch of heavy-tailed CPU burners under tags, fcfs and random: does TAGS keep its promise?

`.venv/bin/python tests/bench/tags_batch.py [--seed 1] [--jobs 500]` (some five minutes)

Three labs of four real hosts run the same batch at the same time, each under its own discipline.
Sizes are a bounded Pareto's own quantiles, so that the batch has its tail, in an order drawn from
the seed: of `ORDERS` orders the one that the simulator finds the most typical. A job burns CPU at a
tenth of a core, so that twelve hosts fit on a machine of two cores and its neighbours hardly
matter; TAGS kills by that CPU time, as the keeper measures it. The cutoffs are those that are best
for mean slowdown by theory.

Beside each other: theory (the formulas, for a system that has run for ever), simulation of many
orders, simulation of this batch as it really arrived, the same with jobs that take as long as they
did on this machine, and the measurement. Slowdown is waiting over size, and killed service counts
as waiting. It wants an idle machine: the last line says if it was not.
"""

import argparse
import math
import os
import posix
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import fmean

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the repository, instead of this directory

from lbd.client import lbrun
from lbd.config.dispatch import Mode
from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.disciplines.tiers import spread_tiers
from lbd.model import HostId
from lbd.sim.queueing.dispatcher import Arrival, Run, simulate
from lbd.theory.bounded_pareto import BoundedPareto
from lbd.theory.cutoffs import Infeasible
from lbd.theory.tier_cutoffs import Expected, Tiers, solve_tiers
from tests.live.cluster import Lab

MODES: tuple[Mode, ...] = ("tags", "fcfs", "random")
HOSTS = ("h1", "h2", "h3", "h4")
PACE = 0.1  # of a core: CPU seconds a second
SMALLEST_S, LARGEST_S, ALPHA, LOAD = 0.1, 60.0, 0.8, 0.6  # seconds on a host
ORDERS = 40
PATIENCE_S = 900.0
QUIET = 1.05  # the factor over their size that jobs run if nothing else wants the CPU
AT_ONCE = 50  # jobs asked for in one question
BURNER = r"""
#include <stdlib.h>
#include <time.h>
static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
static void rest(double s) {
    struct timespec t = {(time_t)s, (long)((s - (time_t)s) * 1e9)};
    nanosleep(&t, NULL);
}
int main(int argc, char **argv) {
    double size = atof(argv[1]), pace = atof(argv[2]), began = now(CLOCK_MONOTONIC), used, ahead;
    double stopped = atof(argv[3]); /* so late, it stood still, and does not catch up */
    while ((used = now(CLOCK_PROCESS_CPUTIME_ID)) < size) {
        while (now(CLOCK_PROCESS_CPUTIME_ID) < used + 0.001) {}
        ahead = began + (used + 0.001) / pace - now(CLOCK_MONOTONIC);
        if (ahead < -stopped) began -= ahead;
        rest(ahead > 0.002 ? ahead : 0.002); /* behind: three times the pace, no more */
    }
    return 0;
}
"""


@dataclass(frozen=True, slots=True)
class Figures:
    slowdown: float
    p99: float
    waiting_s: float
    killed: int


@dataclass(frozen=True, slots=True)
class Measured:
    figures: Figures
    arrived: list[Arrival]  # as it really came
    ran_s: list[float]  # of its last attempt; its size if nothing else wants the CPU

    @property
    def stretch(self) -> float:
        return sum(self.ran_s) / sum(job.size_s for job in self.arrived)


def main() -> int:
    options = parsed()
    sizes = BoundedPareto(SMALLEST_S, LARGEST_S, ALPHA)
    rate_per_s = LOAD * len(HOSTS) / sizes.mean_s
    cutoffs_s = best_cutoffs(sizes, rate_per_s)
    theory = promised(sizes, rate_per_s, cutoffs_s)
    orders = [order(sizes, rate_per_s, options.jobs, options.seed, n) for n in range(ORDERS)]
    simulated = [{mode: replay(mode, one, cutoffs_s).slowdown for mode in MODES} for one in orders]
    means = {mode: fmean(one[mode] for one in simulated) for mode in MODES}
    at = min(range(ORDERS), key=lambda n: oddness(simulated[n], means))
    print(
        f"{options.jobs} jobs of {SMALLEST_S:g} to {LARGEST_S:g} s, alpha {ALPHA:g}, load {LOAD:g}"
        f" on {len(HOSTS)} hosts, seed {options.seed}, order {at} of {ORDERS}; tags: cutoffs"
        f" {', '.join(f'{s:.3g}' for s in cutoffs_s)} s; some {orders[at][-1].at_s:.0f} s\n"
    )
    found = run(orders[at], cutoffs_s)
    arrived = {mode: one.arrived for mode, one in found.items()}
    measured = {mode: one.figures for mode, one in found.items()}
    spread = {mode: sorted(one[mode] for one in simulated) for mode in MODES}
    show(
        [
            ("theory", theory),
            (f"simulation, {ORDERS} orders", means),
            ("  a tenth lie below", {mode: found[ORDERS // 10] for mode, found in spread.items()}),
            ("  a tenth lie above", {mode: found[-ORDERS // 10] for mode, found in spread.items()}),
            ("simulation, this batch", {m: replay(m, arrived[m], cutoffs_s).slowdown
                                        for m in MODES}),
            ("  on hosts as they were", {m: as_it_was(m, one, cutoffs_s)
                                         for m, one in found.items()}),
            ("measured", {mode: found.slowdown for mode, found in measured.items()}),
        ]
    )  # fmt: skip
    print()
    for mode, one in found.items():
        print(
            f"{mode:7} p99 slowdown {one.figures.p99:.1f}, mean waiting"
            f" {one.figures.waiting_s:.2f} s, {one.figures.killed} attempts killed,"
            f" jobs ran {one.stretch:.2f} times their size"
        )
    if max(one.stretch for one in found.values()) > QUIET:
        print("\nthe machine was not idle: the hosts were slower than theory takes them for")
    return verdict(measured)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=500)
    return parser.parse_args()


def tiers(count: int) -> list[tuple[int, ...]]:
    return [spread_tiers(name, HOSTS, count, ()) for name in HOSTS]


def best_cutoffs(sizes: BoundedPareto, rate_per_s: float) -> tuple[float, ...]:
    found: list[Expected] = []
    for count in (2, 3, 4):
        servers = [0.0] * count
        for (tier,) in tiers(count):
            servers[tier - 1] += 1.0
        solved = solve_tiers(Tiers(sizes, rate_per_s, tuple(servers)), "slowdown")
        found += [] if isinstance(solved, Infeasible) else [solved]
    return min(found, key=lambda one: one.slowdown).cutoffs_s


def promised(
    sizes: BoundedPareto, rate_per_s: float, cutoffs_s: tuple[float, ...]
) -> dict[Mode, float]:
    """Mean slowdowns, by the formulas."""
    servers = [0.0] * (len(cutoffs_s) + 1)
    for (tier,) in tiers(len(servers)):
        servers[tier - 1] += 1.0
    whole = [0.0, sizes.width]
    hosts = len(HOSTS)
    return {
        "tags": Tiers(sizes, rate_per_s, tuple(servers)).expected_of(cutoffs_s).slowdown,
        "fcfs": Tiers(sizes, rate_per_s, (float(hosts),)).expected(whole).slowdown,
        "random": Tiers(sizes, rate_per_s / hosts, (1.0,)).expected(whole).slowdown,
    }


def order(
    sizes: BoundedPareto, rate_per_s: float, jobs: int, seed: int, number: int
) -> list[Arrival]:
    rng = Random(f"{seed} {number}")
    drawn = [sizes.quantile((n + 0.5) / jobs) for n in range(jobs)]
    rng.shuffle(drawn)
    found, now_s = [], 0.0
    for size_s in drawn:
        found.append(Arrival(now_s, size_s, size_s))
        now_s += rng.expovariate(rate_per_s)
    return found


def oddness(one: dict[Mode, float], means: dict[Mode, float]) -> float:
    return math.fsum((math.log1p(one[mode]) - math.log1p(means[mode])) ** 2 for mode in MODES)


def replay(mode: Mode, batch: Sequence[Arrival], cutoffs_s: Sequence[float]) -> Figures:
    """Runs the batch in virtual time."""
    ran = simulated_run(mode, batch, cutoffs_s)
    killed = sum(killed_s > 0 for killed_s in ran.killed_s)
    return figures(ran.waited_s, [job.size_s for job in batch], killed)


def as_it_was(mode: Mode, found: Measured, cutoffs_s: Sequence[float]) -> float:
    """Mean slowdown by simulation, each job taking as long as it did on this machine."""
    longer = [job._replace(size_s=s) for job, s in zip(found.arrived, found.ran_s, strict=True)]
    ran = simulated_run(mode, longer, [cutoff_s * found.stretch for cutoff_s in cutoffs_s])
    return fmean(
        (waited_s + ran_s - job.size_s) / job.size_s
        for waited_s, ran_s, job in zip(ran.waited_s, found.ran_s, found.arrived, strict=True)
    )


def simulated_run(mode: Mode, batch: Sequence[Arrival], cutoffs_s: Sequence[float]) -> Run:
    own = tiers(len(cutoffs_s) + 1) if mode == "tags" else [(1,)] * len(HOSTS)
    hosts = [HostSlots(HostId(name), tiers=mine) for name, mine in zip(HOSTS, own, strict=True)]
    return simulate(batch, make(mode, cutoffs_s), hosts, Random("dice"))


def figures(waited_s: Sequence[float], sizes_s: Sequence[float], killed: int) -> Figures:
    slowdowns = sorted(waited / size for waited, size in zip(waited_s, sizes_s, strict=True))
    p99 = slowdowns[math.ceil(0.99 * len(slowdowns)) - 1]
    return Figures(fmean(slowdowns), p99, fmean(waited_s), killed)


# On real hosts


def run(batch: Sequence[Arrival], cutoffs_s: Sequence[float]) -> dict[Mode, Measured]:
    where = Path(tempfile.mkdtemp(prefix="lbd-batch-"))
    labs: dict[Mode, Lab] = {}
    try:
        burner = compiled(where)
        cuts = [cutoff_s * PACE for cutoff_s in cutoffs_s]
        settings = ("lbm.slots=1", "dispatch.load_ceiling=10000", f"tags.cutoffs_s={cuts}")
        for mode in MODES:
            labs[mode] = Lab.up(len(HOSTS), "none", "--mode", mode, settings=settings)
        feed(list(labs.values()), burner, batch)
        wait_for_all(list(labs.values()))
        return {mode: judged(told(lab, 1, len(batch)), batch) for mode, lab in labs.items()}
    finally:
        for lab in labs.values():
            lab.down()
        shutil.rmtree(where, ignore_errors=True)


def compiled(where: Path) -> Path:
    source, program = where / "burn.c", where / "burn"
    source.write_text(BURNER)
    subprocess.run(["cc", "-O1", "-o", program, source], check=True)
    return program


def submit(
    lab: Lab, burner: Path, size_s: float, name: str, pace: float = PACE,
    stopped_s: float = PATIENCE_S,
) -> int:  # fmt: skip
    """Runs lbrun's own code in a fork of this process and returns its pid: starting the program
    otherwise would be half of the load."""
    words = ["-d", "--no-stdin", "--name", name]
    words += [str(burner), str(size_s * pace), str(pace), str(stopped_s)]
    if pid := os.fork():
        return pid
    posix.environ[b"LBD_CONFIG"] = bytes(lab.paths("h1").config)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        lbrun.main(words)
    finally:
        os._exit(1)


def feed(labs: Sequence[Lab], burner: Path, batch: Sequence[Arrival]) -> None:
    began_s = time.monotonic()
    submitting: list[int] = []
    for number, job in enumerate(batch):
        time.sleep(max(0.0, began_s + job.at_s - time.monotonic()))
        submitting += [submit(lab, burner, job.size_s, f"b{number}") for lab in labs]
        submitting = [pid for pid in submitting if os.waitpid(pid, os.WNOHANG)[0] == 0]
    for pid in submitting:
        os.waitpid(pid, 0)


def wait_for_all(labs: Sequence[Lab]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while any(lab.ask("h1", "dispatcher", "status")["jobs"] for lab in labs):
        if time.monotonic() > give_up_s:
            raise SystemExit(f"tags_batch: jobs have not ended within {PATIENCE_S:g} s")
        time.sleep(0.5)


def told(lab: Lab, first: int, last: int) -> list[dict]:
    """Waits until the ends of these jobs are on record."""
    while True:
        found = asked(lab, first, last)
        if all(job["finished"] for job in found):
            return found
        time.sleep(0.02)


def asked(lab: Lab, first: int, last: int) -> list[dict]:
    found = []
    for at in range(first, last + 1, AT_ONCE):
        ids = [f"{at}-{min(last, at + AT_ONCE - 1)}"]
        found += lab.ask("h1", "lbm", "queue.jobs", ids=ids, attempts=True)["jobs"]
    return found


def judged(jobs: Sequence[dict], batch: Sequence[Arrival]) -> Measured:
    """Times run from the dispatcher's acknowledgement to its report of the end."""
    bad = [job["id"] for job in jobs if job["state"] != "done"]
    if bad or len(jobs) != len(batch):
        raise SystemExit(f"tags_batch: {len(jobs)} jobs, not done: {bad[:5]}")
    jobs = sorted(jobs, key=lambda job: job["submitted"])
    sizes = [batch[int(job["name"][1:])].size_s for job in jobs]
    waited = [
        max(0.0, job["finished"] - job["submitted"] - size_s)
        for job, size_s in zip(jobs, sizes, strict=True)
    ]
    killed = sum(one["state"] == "cut" for job in jobs for one in job["attempts"])
    began = jobs[0]["submitted"]
    came = [
        Arrival(job["submitted"] - began, size_s, size_s)
        for job, size_s in zip(jobs, sizes, strict=True)
    ]
    ends = [job["attempts"][-1] for job in jobs]
    ran = [end["finished"] - (end["started"] or end["finished"]) for end in ends]
    longer = [max(size_s, ran_s) for size_s, ran_s in zip(sizes, ran, strict=True)]
    return Measured(figures(waited, sizes, killed), came, longer)


def show(rows: Sequence[tuple[str, dict[Mode, float]]]) -> None:
    header = ["MEAN SLOWDOWN", *MODES, "fcfs ÷ tags", "random ÷ tags"]
    lines = [header]
    for name, found in rows:
        ratios = [] if name.startswith("  a tenth") else [
            f"{found[mode] / found['tags']:.1f}" for mode in MODES[1:]
        ]  # fmt: skip
        lines.append([name, *(f"{found[mode]:.2f}" for mode in MODES), *ratios, "", ""][:6])
    for line in lines:
        print(f"{line[0]:26}" + "".join(f"{cell:>14}" for cell in line[1:]))


def verdict(measured: dict[Mode, Figures]) -> int:
    """Exit status 0 if tags has the lowest mean slowdown, then fcfs."""
    rises = all(measured[a].slowdown < measured[b].slowdown for a, b in pairwise(MODES))
    print("\ntags < fcfs < random: " + ("as promised" if rises else "NOT as promised"))
    return 0 if rises else 1


if __name__ == "__main__":
    sys.exit(main())
