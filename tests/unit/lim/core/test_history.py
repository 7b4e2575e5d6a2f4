"""A LIM's recorded history is read again as it was written. That it can be replayed:
tests/simulation/test_lim_replay.py."""

import json

import pytest

from lbd.errors import ConfigError
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core.history import CLASSES, classes, pack, unpack
from lbd.model import Closed, HostId, JobId, Needs, Placement, Verdict
from lbd.policy.view import Ask, Nowhere, Probe, Reply
from lbd.testing.builders import lim_state, member, request, sample, vector

VALUES = [
    None, True, 0, 1.5, "é", b"\x00\xff", (), (1, ("a",)), frozenset({"h1", "h2"}),
    {"h1": 1.0, "h2": b"x"},
    Closed.OWNER, Verdict.THERE, vector(0.5), sample("h1", 3), member("h1"),
    request(excluded=["h2", "h3"]), Needs((("gpu", 1),), ("big",)),
    Placement(Verdict.HERE, HostId("h1"), "no-peer"), Nowhere("x"), Probe((HostId("h2"),), 0.5),
    Ask(HostId("h2")), Reply(HostId("h2"), True, Nowhere("x")), e.Tick(),
    e.Received(m.Message("test", HostId("h2"), 1, m.Report(sample("h2", 1), (JobId("j"),)))),
    m.Settings(3, "h1", "LOWEST", {"lim.min_gain": 0.5}, seal=m.Seal(1, "h1", b"\x01")),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_was_recorded_is_read_again(value):
    assert unpack(json.loads(json.dumps(pack(value)))) == value


def test_a_class_is_named_by_the_module_that_defines_it():
    assert dict(classes()) == CLASSES
    for name, kind in CLASSES.items():
        assert name == f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        ({"is": "events.Tock", "of": []}, "'events.Tock', which this release does not know"),
        (
            {"is": "events.Enum", "of": []},
            "which this release does not know",
        ),  # only imported there
        ({"was": 1}, "not a LIM's history, or damaged"),
        ({"is": 1, "of": []}, "not a LIM's history, or damaged"),
        ({"map": {}}, "not a LIM's history, or damaged"),
    ],
)
def test_what_this_release_does_not_know_is_reported(packed, why):
    with pytest.raises(ConfigError, match=why):
        unpack(packed)


def test_every_call_from_outside_is_recorded_with_its_time_and_result():
    lines = []
    state = lim_state("h1", ["h2"], now_s=5.0, write=lambda line: lines.append(json.loads(line)))
    wish, h2 = request(), HostId("h2")
    state.start()
    state.handle(e.Tick(), 6.0)
    state.drained_there(h2, True)
    step = state.placer.next_step(wish, (), 7.0)
    state.placer.settle(wish, step, 8.0, False)
    asked = state.placer.question(wish, sample("h1", 1), False)
    answer = state.placer.answered(wish, h2, None, 9.0)
    state.placer.probed(h2, None, 10.0)
    assert [line[:2] for line in lines] == [
        [5.0, "lbd-lim-history-2"], [None, "start"], [6.0, "handle"], [None, "drained_there"],
        [7.0, "next_step"], [8.0, "settle"], [None, "question"], [9.0, "answered"],
        [10.0, "probed"],
    ]  # fmt: skip
    given, gave = ([unpack(line[at]) for line in lines[4:]] for at in (2, 3))
    assert given[0] == (wish, (), 7.0, False)
    assert (gave[0], gave[2], gave[3]) == (step, asked, answer)
    assert unpack(lines[3][2]) == (h2, True)
