"""The results of a dispatch simulation, as means over jobs.

- waiting is response less the job's own size: under tags it includes killed service. (The paper and
  `lbctl tags solve` leave that out.)
- slowdown is waiting over size, as in the paper.
- `wasted_s` is killed service.
- Over replications each value is the mean of theirs, and the maximum is their maximum.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lbd.sim.engine.intervals import batch_means, half_width, mean
from lbd.sim.queueing.dispatcher import Arrival, Run


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of one run."""

    waiting_s: float
    response_s: float
    slowdown: float
    p99_slowdown: float
    max_waiting_s: float
    queueing_s: float  # waiting without killed service, as in the paper
    queueing_slowdown: float
    utilisation: tuple[float, ...]
    wasted_s: float
    batches: tuple[float, ...]  # mean slowdown of successive parts of the run


@dataclass(frozen=True, slots=True)
class Result:
    """The results of a mode, over its replications."""

    mode: str
    cutoffs_s: tuple[float, ...] | None
    waiting_s: float
    response_s: float
    slowdown: float
    p99_slowdown: float
    ci95_slowdown: float | None  # half the width; None for too few jobs
    max_waiting_s: float
    queueing_s: float
    queueing_slowdown: float
    ci95_queueing_slowdown: float | None  # only over replications
    utilisation: tuple[float, ...]
    wasted_s: float


def summary(arrivals: Sequence[Arrival], run: Run) -> Summary:
    count = len(arrivals)
    slowdowns = [
        waited_s / arrival.size_s for waited_s, arrival in zip(run.waited_s, arrivals, strict=True)
    ]
    waiting_s = math.fsum(run.waited_s) / count
    wasted_s = math.fsum(run.killed_s)
    killed_slowdown = math.fsum(
        killed_s / arrival.size_s for killed_s, arrival in zip(run.killed_s, arrivals, strict=True)
    )
    slowdown = math.fsum(slowdowns) / count
    span_s = run.ended_s - arrivals[0].at_s
    return Summary(
        waiting_s=waiting_s,
        response_s=waiting_s + math.fsum(arrival.size_s for arrival in arrivals) / count,
        slowdown=slowdown,
        p99_slowdown=sorted(slowdowns)[math.ceil(0.99 * count) - 1],
        max_waiting_s=max(run.waited_s),
        queueing_s=waiting_s - wasted_s / count,
        queueing_slowdown=slowdown - killed_slowdown / count,
        utilisation=tuple(busy_s / span_s for busy_s in run.busy_s),
        wasted_s=wasted_s,
        batches=tuple(batch_means(slowdowns)),
    )


def result(
    mode: str, cutoffs_s: tuple[float, ...] | None, runs: Sequence[Summary], replicated: bool
) -> Result:
    """`replicated`: the runs are independent; else the interval is from the first's batch means."""
    samples = [run.slowdown for run in runs] if replicated else runs[0].batches
    hosts = zip(*(run.utilisation for run in runs), strict=True)
    queueing = [run.queueing_slowdown for run in runs]
    return Result(
        mode=mode,
        cutoffs_s=cutoffs_s,
        waiting_s=mean([run.waiting_s for run in runs]),
        response_s=mean([run.response_s for run in runs]),
        slowdown=mean([run.slowdown for run in runs]),
        p99_slowdown=mean([run.p99_slowdown for run in runs]),
        ci95_slowdown=half_width(samples),
        max_waiting_s=max(run.max_waiting_s for run in runs),
        queueing_s=mean([run.queueing_s for run in runs]),
        queueing_slowdown=mean(queueing),
        ci95_queueing_slowdown=half_width(queueing) if replicated else None,
        utilisation=tuple(mean(host) for host in hosts),
        wasted_s=mean([run.wasted_s for run in runs]),
    )
