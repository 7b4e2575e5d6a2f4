import json
import math
import sys

import pytest

from lbd.lim.core.past_loads import FIRST_LINE, HOSTS_MAX, SPANS, PastLoads, read

NOW_S = 1_700_000_000.0 // 3600 * 3600
STEP_S, POINTS = SPANS["hour"]


def known(points):
    return [point for point in points if math.isfinite(point)]


def test_the_loads_are_means_with_gaps():
    loads = PastLoads()
    loads.add({"h1": 1.0}, NOW_S)
    loads.add({"h1": 2.0, "h2": math.nan}, NOW_S + STEP_S - 1)
    loads.add({"h1": 4.0}, NOW_S + 2 * STEP_S)
    hour = loads.points("h1", "hour", NOW_S + 2 * STEP_S)
    assert hour[-3] == 1.5
    assert math.isnan(hour[-2])
    assert hour[-1] == 4.0
    assert {span: len(loads.points("h1", span, NOW_S)) for span in SPANS} == {
        span: points for span, (_, points) in SPANS.items()
    }
    assert loads.points("h2", "hour", NOW_S) == ()
    with pytest.raises(KeyError):
        loads.points("h1", "year", NOW_S)


def test_loads_of_an_hour_ago_are_averaged_and_those_of_a_month_ago_forgotten():
    loads = PastLoads()
    for step in range(3 * POINTS):
        loads.add({"h1": float(step)}, NOW_S + step * STEP_S)
    points = loads.points("h1", "hour", NOW_S + (3 * POINTS - 1) * STEP_S)
    assert list(points) == [float(step) for step in range(2 * POINTS, 3 * POINTS)]
    month_s = SPANS["month"][0] * SPANS["month"][1]
    loads.add({"h2": 1.0}, NOW_S + 2 * month_s)
    assert loads.points("h1", "month", NOW_S) == ()


def test_loads_from_a_clock_that_ran_ahead_are_not_shown_later():
    loads = PastLoads()
    for step in range(POINTS):
        loads.add({"h1": 9.0}, NOW_S + step * STEP_S)
    loads.add({"h1": 1.0}, NOW_S + 10 * STEP_S)
    assert known(loads.points("h1", "hour", NOW_S + 10 * STEP_S)) == [9.0] * 10 + [1.0]
    loads.add({"h1": 2.0}, NOW_S + 13 * STEP_S)
    assert known(loads.points("h1", "hour", NOW_S + 13 * STEP_S)) == [9.0] * 10 + [1.0, 2.0]
    loads.add({"h1": 3.0}, NOW_S - 1e8)
    assert known(loads.points("h1", "hour", NOW_S - 1e8)) == [3.0]


def test_the_number_of_hosts_is_bounded():
    loads = PastLoads()
    loads.add({f"h{number}": 0.5 for number in range(HOSTS_MAX + 5)}, NOW_S)
    assert len(loads.lines()) == 1 + HOSTS_MAX


def test_the_stored_loads_are_read_again():
    loads = PastLoads()
    loads.add({"h1": 0.25, "h2": 3.0}, NOW_S)
    loads.add({"h1": 0.5}, NOW_S + STEP_S)
    again = read(loads.lines(), NOW_S + STEP_S)
    for span in SPANS:
        assert known(again.points("h1", span, NOW_S + STEP_S)) == known(
            loads.points("h1", span, NOW_S + STEP_S)
        )
    again.add({"h1": 1.0}, NOW_S + STEP_S)  # continues in the unfinished step
    assert again.points("h1", "hour", NOW_S + STEP_S)[-1] == 0.75


def test_nothing_is_read_from_a_clock_that_was_ahead():
    loads = PastLoads()
    loads.add({"h1": 0.25}, NOW_S)
    assert known(read(loads.lines(), NOW_S - 7200).points("h1", "month", NOW_S)) == []


@pytest.mark.parametrize(
    "lines",
    [
        ["[]"],
        ['{"lbd past loads": 99}'],
        [json.dumps(FIRST_LINE), "[1]"],
        [json.dumps(FIRST_LINE), '{"host": "h1"}'],
        [json.dumps(FIRST_LINE), '{"host": "h1", "hour": [1, "AAAA"]}'],
        [json.dumps(FIRST_LINE), '{"host": "h1", "hour": [1, "%"]}'],
        ["{"],
    ],
)
def test_a_foreign_file_is_refused(lines):
    with pytest.raises(ValueError, match=r".+"):
        read(lines, NOW_S)


def test_no_more_is_read_than_is_kept(monkeypatch):
    loads = PastLoads()
    loads.add({"h1": 0.25, "h2": 0.5, "h" * 256: 1.0, "h" * 255: 1.0}, NOW_S)
    assert known(read(loads.lines(), NOW_S).points("h" * 256, "hour", NOW_S)) == []
    assert known(read(loads.lines(), NOW_S).points("h" * 255, "hour", NOW_S)) == [1.0]
    monkeypatch.setattr("lbd.lim.core.past_loads.HOSTS_MAX", 1)
    again = read(loads.lines(), NOW_S)
    assert [len(known(again.points(name, "hour", NOW_S))) for name in ("h1", "h2")] == [1, 0]


def test_every_release_writes_the_same_first_line():
    """Otherwise an upgrade would forget the past."""
    assert json.loads(PastLoads().lines()[0]) == {"lbd past loads": 1, "order": sys.byteorder}
