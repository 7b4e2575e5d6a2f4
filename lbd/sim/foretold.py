"""What the simulator expects of a live experiment: its own scripts, replication by replication, on
hosts with its cores and parameters, with loads reported once a second as by the sampler.

Only the random choices of a run are drawn again, `DRAWS` times. So the interval says how well the
expectation is known, not how much a live run may differ from it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lbd.load.index import WINDOW_S
from lbd.sim.balance.runs import half_width, mean_and_sd
from lbd.sim.balance.scripts import Scripted, played
from lbd.sim.balance.setup import Setup, with_settings
from lbd.sim.balance.workload import SCRIPTS, TODAY
from lbd.sim.scripts import Work

DRAWS = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """One row of the experiment."""

    load: str
    algorithm: str
    words: tuple[str, ...]  # PARAM=VALUE


def reductions(
    asked: Sequence[Asked], works: Mapping[str, Work], replications: int, seed: int
) -> list[tuple[float, float]]:
    """Returns each row's saving, as a share of NOLB's mean response time, and half its interval."""
    numbers = range(replications)
    nolb_s = {
        load: sum(responses_s(Scripted(setup_of(work, seed), work, "NOLB", n)) for n in numbers)
        for load, work in works.items()
    }
    found = []
    for one in asked:
        work = works[one.load]
        setup = with_settings(setup_of(work, seed), ["job_threshold_s=0", *one.words])
        saved = []
        for draw in range(1, DRAWS + 1):
            runs = [Scripted(setup, work, one.algorithm, n, draw) for n in numbers]
            mine_s = sum(map(responses_s, runs))
            saved.append(1.0 - mine_s / nolb_s[one.load] if nolb_s[one.load] else math.nan)
        found.append((mean_and_sd(saved)[0], half_width(saved)))
    return found


def setup_of(work: Work, seed: int) -> Setup:
    return Setup(
        SCRIPTS, hosts=work.hosts, seed=seed, costs=TODAY, cores=(work.cores,), window_s=WINDOW_S
    )


def responses_s(what: Scripted) -> float:
    """Returns the sum of the response times; the jobs are the same under every algorithm."""
    _, jobs = played(what)
    return math.fsum(job.response_s for job in jobs)
