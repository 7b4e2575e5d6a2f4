"""Placement of commands that need more than room on a host, under each algorithm."""

from dataclasses import replace

import pytest

from lbd.config.schema import LimConfig
from lbd.lim.core.messages import Sample
from lbd.lim.core.needs_views import KINDS_KEPT, NeedsViews
from lbd.model import Facts, HostId, JobId, Needs, Placement, PlacementRequest, Verdict
from lbd.policy.registry import POLICIES
from lbd.policy.view import Nowhere
from lbd.testing.builders import lim_state, vector

GPU = Needs((("gpu", 1),))
NOW_S = 10.0


def lim(algorithm="GLOBAL", **gpus):
    """Returns a LIM of h1 to h3, each with some GPUs, some of them in use; h1 is idle."""
    state = lim_state("h1", ["h2", "h3"], LimConfig(algorithm=algorithm), now_s=NOW_S)
    for number, name in enumerate(("h1", "h2", "h3")):
        report(state, name, *gpus.get(name, (0, 0)), index=float(number))
    return state


def report(state, name, total, used, index=1.0):
    there = (("gpu", total, used),) if total else ()
    load = replace(vector(index), facts=Facts(("linux",), there))
    number = 1000 + 10 * used + total
    state.table.record(Sample(HostId(name), 1, number, 0.0, load, False), NOW_S)


def decide(state, **more):
    request = PlacementRequest(JobId("j"), needs=GPU, **more)
    view = state.table.view(None, NOW_S, GPU)
    replies = ()
    step = POLICIES[state.table.params.algorithm].next_step(request, view, replies, state._rng)
    return step if isinstance(step, Placement | Nowhere) else None


@pytest.mark.parametrize("algorithm", ["GLOBAL", "DISTED", "RANDOM", "NOLB"])
def test_it_goes_where_its_needs_are_met_however_busy_that_host_is(algorithm):
    found = decide(lim(algorithm, h3=(2, 1)))
    assert (found.verdict, found.host) == (Verdict.THERE, "h3")
    here = decide(lim(algorithm, h1=(1, 0), h3=(2, 0)))
    assert (here.verdict, here.host) == (Verdict.HERE, "h1")


def test_it_waits_for_resources_in_use():
    found = decide(lim(h2=(1, 1), h3=(2, 2)))
    assert (found.verdict, found.reason) == (Verdict.WAIT, "needs-taken")
    assert {one.name: one.why for one in found.candidates} == {
        "h1": "no gpu", "h2": "its gpu is in use", "h3": "both gpus in use"
    }  # fmt: skip
    assert isinstance(decide(lim(h2=(1, 1)), may_wait=False), Nowhere)


@pytest.mark.parametrize("algorithm", ["GLOBAL", "CENTRAL", "RANDOM", "NOLB"])
def test_it_waits_for_the_best_host_that_meets_its_needs(algorithm):
    """Not for our own host, which has the lowest load but none of the resource."""
    found = decide(lim(algorithm, h2=(1, 1), h3=(2, 2)))
    assert (found.verdict, found.host) == (Verdict.WAIT, "h2")
    assert [one.name for one in found.candidates] == ["h2", "h3", "h1"]
    assert decide(lim(algorithm, h1=(1, 1), h3=(2, 2))).host == "h1"


def test_a_need_that_no_host_meets_is_refused():
    found = decide(lim())
    assert isinstance(found, Nowhere)
    assert [one.why for one in found.candidates] == ["no gpu"] * 3


def test_a_command_that_may_not_leave_waits_here_or_is_refused():
    assert decide(lim(h1=(1, 1), h2=(1, 0)), must_stay=True).verdict is Verdict.WAIT
    assert isinstance(decide(lim(h2=(1, 0)), must_stay=True), Nowhere)
    assert isinstance(decide(lim(h2=(1, 0)), wanted=HostId("h1")), Nowhere)


def test_the_view_of_hosts_follows_their_reports():
    state = lim(h2=(1, 1))
    assert decide(state).verdict is Verdict.WAIT
    report(state, "h2", 2, 1)
    assert decide(state).host == "h2"
    state.table.remove(HostId("h2"))
    assert isinstance(decide(state), Nowhere)


GIB = 1 << 30


def of_memory(algorithm="GLOBAL", load=0.0, **available):
    """Returns a LIM of h1 to h3 with 8 GiB each, this much available; h1 has this load, h2 the
    least."""
    state = lim_state("h1", ["h2", "h3"], LimConfig(algorithm=algorithm), now_s=NOW_S)
    for name, index in (("h1", load), ("h2", 0.0), ("h3", 1.0)):
        free = available.get(name, 8) * GIB
        seen = replace(vector(index), memory_total=8 * GIB, memory_available=free)
        state.table.record(Sample(HostId(name), 1, 1000, 0.0, seen, False), NOW_S)
    return state


def place(state, **more):
    needs = Needs(peak_bytes=4 * GIB)
    request = PlacementRequest(JobId("j"), needs=needs, **more)
    view = state.table.view(None, NOW_S, needs)
    policy = POLICIES[state.table.params.algorithm]
    return policy.next_step(request, view, (), state._rng)


@pytest.mark.parametrize("algorithm", ["GLOBAL", "DISTED", "RANDOM"])
def test_a_host_without_memory_for_the_recent_peak_is_skipped(algorithm):
    found = place(of_memory(algorithm, load=9.0, h2=3))
    assert (found.verdict, found.host) == (Verdict.THERE, "h3")
    whys = {one.name: one.why for one in found.candidates}
    assert whys["h2"] == "3.0G memory available, but the command has used up to 4.0G"


def test_it_leaves_an_idle_host_with_too_little_memory_if_another_has_enough():
    found = place(of_memory(h1=3, h2=3))
    assert (found.verdict, found.host, found.reason) == (Verdict.THERE, "h3", "short-of-memory")
    assert place(of_memory()).verdict is Verdict.HERE


def test_a_learnt_peak_never_causes_a_refusal():
    scarce = of_memory(h1=1, h2=1, h3=1)
    assert place(scarce).verdict is Verdict.HERE
    assert place(scarce, must_stay=True).verdict is Verdict.HERE
    assert place(scarce, wanted=HostId("h1")).verdict is Verdict.HERE
    assert place(scarce, wanted=HostId("h2")).host == "h2"
    assert place(of_memory(load=9.0, h1=1, h2=1, h3=1)).host == "h2"  # as if it were not known
    found = place(scarce, must_leave=True)
    assert (found.verdict, found.host) == (Verdict.THERE, "h2")


def test_the_kinds_of_needs_that_were_asked_for_last_are_kept():
    kept = NeedsViews()
    kinds = [Needs((("gpu", amount),)) for amount in range(1, KINDS_KEPT + 2)]
    for needs in (*kinds[:KINDS_KEPT], kinds[0], kinds[-1]):
        kept.of(needs, {}, lambda _: (Facts(), (0, 0)))
    assert list(kept.kept) == [*kinds[2:KINDS_KEPT], kinds[0], kinds[-1]]
