"""A LIM's cost of placing a command that needs something of its host, among 1,000 hosts.

It is compared in turns with a command that needs nothing, in the deciding code alone: nine hosts of
ten have a GPU and a feature, and between two decisions a host reports something new and the last
pick is charged.
"""

import time
from dataclasses import replace

from lbd.lim.core.messages import Sample
from lbd.lim.core.state import LimState
from lbd.model import NO_NEEDS, Facts, HostId, JobId, Needs, PlacementRequest, Verdict
from lbd.policy.view import Ask, Nowhere, Probe
from lbd.testing.builders import lim_state, vector
from tests.bench.measure import summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage

HOSTS = 1000
FIRST = 1000  # of its samples: a LIM has made some of its own by then
BATCHES, QUICK_BATCHES, BATCH = 60, 10, 50
ASKED = Bound(1.2)
NEEDS = Needs((("gpu", 1),), ("big",))
WITH, WITHOUT = Facts(("big", "linux"), (("gpu", 2, 0),)), Facts(("linux",))
NOW_S = 10.0


def measure(stage: Stage, _: set[str]) -> list[Row]:
    mark = stage.others.mark()
    state = cluster()
    found: dict[Needs, list[float]] = {NEEDS: [], NO_NEEDS: []}
    number = FIRST
    for batch in range(2 * (QUICK_BATCHES if stage.quick else BATCHES)):
        needs = NEEDS if batch % 2 else NO_NEEDS
        began_s = time.thread_time()
        for _ in range(BATCH):
            number += 1
            decide(state, needs, number)
        found[needs].append((time.thread_time() - began_s) / BATCH * 1e6)
    return [
        Row(
            "decision with needs, 1,000 hosts", "µs", summarise(found[NEEDS][1:]), "without",
            summarise(found[NO_NEEDS][1:]), ASKED, stage.others.share_since(mark),
        )
    ]  # fmt: skip


def cluster() -> LimState:
    state = lim_state("h1", [f"h{n}" for n in range(2, HOSTS + 1)], now_s=NOW_S)
    for n in range(1, HOSTS + 1):
        record(state, n, FIRST)
    return state


def record(state: LimState, host: int, number: int, index: float | None = None) -> None:
    if index is None:
        index = 5.0 if host == 1 else host % 40 / 10
    load = replace(vector(index, slots=(64, 0)), facts=facts(host))
    state.table.record(Sample(HostId(f"h{host}"), 1, number, 0.0, load, False), NOW_S)


def facts(host: int) -> Facts:
    return WITH if host % 10 else WITHOUT


def decide(state: LimState, needs: Needs, number: int) -> None:
    """A host's report, and a placement with all that follows from it."""
    record(state, 2 + number % (HOSTS - 1), number)
    request = PlacementRequest(JobId(f"j{number}"), shown=False, needs=needs)
    step = state.placer.next_step(request, (), NOW_S)
    assert not isinstance(step, Probe | Ask | Nowhere), step
    decision = state.placer.settle(request, step, NOW_S, dry=False)
    assert not isinstance(decision, Nowhere)
    assert decision.verdict is Verdict.THERE
    host = int(decision.host[1:])
    assert not needs or facts(host) is WITH
    state.placer.job_ended(request.job)
