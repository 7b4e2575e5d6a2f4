"""What the simulator expects of a live experiment: its scripts on hosts of one core, with the
thesis's jobs of 7.45 s, costs and parameters. Only shares of NOLB's time can be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lbd.sim.balance import summed_up
from lbd.sim.balance_scripts import Scripted, run_scripted
from lbd.sim.balance_setup import Setup, with_settings
from lbd.sim.balance_workload import SCRIPTS

DURATION_S = 1200.0
REPLICATIONS = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """One row of the experiment."""

    load: str
    algorithm: str
    words: tuple[str, ...]  # PARAM=VALUE


def reductions(
    asked: Sequence[Asked], hosts: int, users: int, seed: int
) -> list[tuple[float, float]]:
    """Of each, the share of NOLB's mean response time that it saves, and half its interval."""
    base = Setup(SCRIPTS, hosts=hosts, duration_s=DURATION_S, seed=seed, costs=SCRIPTS.costs)
    numbers = range(REPLICATIONS)
    nolb = {
        load: [run_scripted(Scripted(base, load, "NOLB", n, users)) for n in numbers]
        for load in dict.fromkeys(one.load for one in asked)
    }
    found = []
    for one in asked:
        setup = with_settings(base, ["job_threshold_s=0", *one.words])
        runs = [run_scripted(Scripted(setup, one.load, one.algorithm, n, users)) for n in numbers]
        result = summed_up(runs, nolb[one.load])
        found.append((1.0 - result.ratio_to_nolb, result.ratio_ci95))
    return found
