from dataclasses import replace

import pytest

from lbd.config.schema import ALGORITHMS, LimConfig
from lbd.lim.core import messages as m
from lbd.lim.core.exchange import Reporter, worth_reporting
from lbd.model import Closed, Facts
from lbd.testing.builders import lim_state, sample, vector

PARAMS = LimConfig(change_threshold=0.1, report_ceiling=4.0, keepalive_s=5.0, centre_silence_s=6.0)


def loaded(index, number=1, **changed):
    return sample("h1", number, vector(index, **changed))


@pytest.mark.parametrize(
    ("told", "now", "exchanges", "expected"),
    [
        (None, loaded(0.0), False, True),
        (loaded(1.0), loaded(1.05), True, False),
        (loaded(1.0), loaded(1.11), True, True),
        (loaded(1.0), loaded(0.89), True, True),
        (loaded(1.0), loaded(3.0), False, False),  # LOWEST and NOLB
        # the ceiling: crossing it is reported, moving above it is not, coming back is
        (loaded(3.9), loaded(4.5), True, True),
        (loaded(4.5), loaded(9.0), True, False),
        (loaded(9.0), loaded(4.5, slots=(2, 1)), True, False),
        (loaded(4.5), loaded(3.9), True, True),
        # eligibility is reported under every algorithm, and above the ceiling too
        (loaded(5.0), loaded(5.0, slots=(2, 2)), True, True),
        (loaded(0.0), loaded(0.0, accepting=False), False, True),
        (loaded(0.0), sample("h1", 2, vector(0.0), drained=True), False, True),
        (loaded(0.0), sample("h1", 2, replace(vector(0.0), hog="ann")), False, True),
        (loaded(0.0), sample("h1", 2, replace(vector(0.0), facts=Facts(("gpu",)))), False, True),
        (loaded(0.0), sample("h1", 2, replace(vector(0.0), closed=Closed.OWNER)), False, True),
        (loaded(0.0), sample("h1", 2, replace(vector(0.0), facts=Facts())), False, False),
        (loaded(0.0), loaded(0.0, slots=(2, 1)), False, False),
        (loaded(0.0), loaded(0.0, slots=(2, 1)), True, True),
        # a restart is reported
        (loaded(0.0), sample("h1", 1, vector(0.0), incarnation=2), False, True),
    ],
)
def test_which_changes_are_reported(told, now, exchanges, expected):
    assert worth_reporting(now, told, PARAMS, exchanges) is expected


def reports(reporter, now, now_s):
    """Returns whether it would report, and reports."""
    due = reporter.has_changed(now, PARAMS, True) or reporter.was_silent(now_s, PARAMS)
    if due:
        reporter.has_reported(now, now_s)
    return due


def test_reports_on_change_and_as_keep_alive():
    reporter = Reporter()
    assert reports(reporter, loaded(0.0), 100.0)
    assert not reports(reporter, loaded(0.05), 101.0)
    assert reports(reporter, loaded(0.2), 102.0)
    assert not reports(reporter, loaded(0.2), 106.9)
    assert reports(reporter, loaded(0.2), 107.0)
    reporter.again()
    assert reports(reporter, loaded(0.2), 107.1)


def test_small_changes_that_add_up_are_reported():
    reporter = Reporter()
    told = [reports(reporter, loaded(n * 0.04), 100.0 + n * 0.1) for n in range(7)]
    assert told == [True, False, False, True, False, False, True]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_who_gets_a_report(algorithm):
    """The centre all of them; under DISTED everybody those of changes."""
    state = lim_state("h2", ["h1", "h3"], replace(PARAMS, algorithm=algorithm), now_s=100.0)
    for name in ("h1", "h2", "h3"):
        state.table.record(sample(name, 1), 100.0)

    def told(now_s, centre="h1", ended=()):
        sent = state._load_sender.exchange(centre, m.Settings(), ended, now_s)
        return [(one.to, one.body.ended) for one in sent if isinstance(one.body, m.Report)]

    assert told(100.0, centre=None) == ([(("h1", "h3"), ())] if algorithm == "DISTED" else [])
    if algorithm != "DISTED":
        assert told(100.1) == [(("h1",), ())], "it has not told anybody yet"
    assert told(100.2) == []
    assert told(100.3, ended=("h2-1",)) == [(("h1",), ("h2-1",))]
    assert told(100.2 + PARAMS.keepalive_s) == [(("h1",), ())]
    state.table.record(sample("h2", 2, vector(0.0, accepting=False)), 106.0)
    assert told(106.0) == [(("h1", "h3") if algorithm == "DISTED" else ("h1",), ())]


def test_a_centre_sends_loads_to_who_is_up_and_a_sign_of_life_to_who_is_down():
    """Once a keep-alive, in case it is back; nothing to a host that has left."""
    state = lim_state("h1", ["h2", "h3", "h4"], PARAMS, now_s=100.0)
    for name in ("h1", "h2"):
        state.table.record(sample(name, 1, vector(0.0)), 100.0)
    state.table.leave("h4")

    def told(now_s):
        sent = state._load_sender.exchange("h1", m.Settings(), (), now_s)
        return {one.to: [s.host for _, s in one.body.whole] for one in sent}

    everything = {("h2",): ["h2", "h1"]}
    assert told(100.0) == everything | {("h3",): []}
    assert told(101.0) == {}, "it has all that is known to have been sent"
    assert told(100.0 + PARAMS.keepalive_s) == everything | {("h3",): []}
