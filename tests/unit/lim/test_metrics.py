"""A LIM's metrics."""

import pytest

from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core.placement import REASONS_MAX
from lbd.lim.metrics import lim_metrics
from lbd.metrics.core.families import families
from lbd.model import HostId, JobId, Placement, PlacementRequest, Verdict
from lbd.net.lim_network import Traffic
from lbd.testing.builders import lim_state, sample, vector

NOW_S = 10.0
NAMES = ("h1", "h2", "h3")


@pytest.fixture
def state():
    """Returns the state of h1, which has heard of h2."""
    state = lim_state("h1", NAMES)
    state.handle(e.Sampled(vector(0.5).queues, 0.5, 0.1), NOW_S)
    report = m.Message("test", HostId("h2"), 1, m.Report(sample("h2", 1, vector(1.5))))
    state.handle(e.Received(report), NOW_S)
    return state


def shown(state, now_s=NOW_S, traffic=None):
    answer = lim_metrics(state, traffic or Traffic(), {"Report": 2}, now_s)
    return {f.metric.name: f.series for f in families({"lim": answer})}


def test_the_load_of_this_host_and_the_hosts_by_state(state):
    found = shown(state)
    assert found["load_index"] == {(): 0.5}
    assert found["hosts"][("up",)] == 2.0
    assert sum(found["hosts"].values()) == len(NAMES)
    assert found["lim_messages_undelivered"] == {("Report",): 2.0}
    assert shown(state, NOW_S + 3.0)["load_age_max_seconds"] == {(): 3.0}


def test_only_the_centre_shows_the_loads_of_all_hosts(state):
    state.placer.centre = HostId("h1")
    found = shown(state)
    assert found["host_load_index"] == {("h1",): 0.5, ("h2",): 1.5}
    assert found["is_centre"] == {(): 1.0}
    state.placer.centre = HostId("h2")
    assert "host_load_index" not in shown(state)


def test_messages_and_bytes_by_kind(state):
    traffic = Traffic()
    traffic.came("Report", 100)
    traffic.went("Vector", 30)
    found = shown(state, traffic=traffic)
    assert found["lim_messages"] == {("Report", "in"): 1.0, ("Vector", "out"): 1.0}
    assert found["lim_message_bytes"] == {("Report", "in"): 100.0, ("Vector", "out"): 30.0}


def test_decisions_by_algorithm_and_reason_and_of_strange_ones_not_for_ever(state):
    request = PlacementRequest(job=JobId("1"))
    for number in range(2 * REASONS_MAX):
        reason = f"centre-says-{number}"
        decision = Placement(Verdict.HERE, HostId("h1"), reason, ())
        state.placer.settle(request, decision, NOW_S, dry=False)
    assert len(state.placer.by_algorithm) == len(state.placer.decisions) == REASONS_MAX + 1
    assert sum(shown(state)["decisions"].values()) == 2 * REASONS_MAX
    assert {algorithm for algorithm, _ in state.placer.by_algorithm} == {"GLOBAL"}
    state.placer.settle(request, decision, NOW_S, dry=True)
    assert sum(state.placer.by_algorithm.values()) == 2 * REASONS_MAX, "a look is no decision"
