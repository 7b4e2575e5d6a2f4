"""One format for each kind of number, on every screen."""

import math

import pytest

from lbd.console import figures
from lbd.console.figures import Clock

FRIDAY_S = 1795195805.0  # 2026-11-20 17:30:05 UTC


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0.00"), (0.516, "0.52"), (9.994, "9.99"), (9.996, "10.0"), (99.96, "100"), (340.4, "340"),
     (2.5e7, "2.5e+07"), (-3.0, "-3.00"), (math.nan, "–")],
)  # fmt: skip
def test_decimals_have_three_digits(value, shown):
    assert figures.decimal(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0%"),
        (0.0251, "2.5%"),
        (0.0996, "10%"),
        (0.583, "58%"),
        (1.0, "100%"),
        (math.nan, "–"),
    ],
)
def test_shares(value, shown):
    assert figures.share(value) == shown


def test_an_unknown_value_is_a_dash_in_every_format():
    forms = (figures.duration, figures.size, figures.decimal, figures.count, figures.share,
             Clock(FRIDAY_S).time_of_day)  # fmt: skip
    assert {form(math.nan) for form in forms} == {"–"}
    assert figures.of_total("–", "–") == "–"
    assert figures.of_total("1", "2") == "1/2"


@pytest.mark.parametrize(
    ("ago_s", "shown"),
    [(0, "17:30:05"), (3600, "16:30:05"), (86400, "Thu 17:30"), (-86400, "Sat 17:30"),
     (5 * 86400, "Sun 17:30"), (7 * 86400, "2026-11-13 17:30"), (1e30, "–")],
)  # fmt: skip
def test_times_of_day_include_their_day_unless_it_is_today(ago_s, shown):
    assert Clock(FRIDAY_S, utc=True).time_of_day(FRIDAY_S - ago_s) == shown


def test_times_are_local_unless_utc_is_asked_for(monkeypatch):
    monkeypatch.setenv("TZ", "XYZ-3")
    figures.time.tzset()
    try:
        assert Clock(FRIDAY_S).time_of_day(FRIDAY_S) == "20:30:05"
        assert Clock(FRIDAY_S, utc=True).time_of_day(FRIDAY_S) == "17:30:05"
    finally:
        monkeypatch.delenv("TZ")
        figures.time.tzset()


@pytest.mark.parametrize(
    ("load", "shown"),
    [(0, "····"), (0.001, "▏···"), (0.25, "█···"), (0.3, "█▎··"), (1.0, "████"), (7.5, "████"),
     (math.nan, "    ")],
)  # fmt: skip
def test_a_bar_is_full_at_one(load, shown):
    assert figures.bar(load, 4) == shown
