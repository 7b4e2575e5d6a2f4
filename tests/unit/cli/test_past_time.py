"""Points in time that lists look back to."""

import argparse
import calendar
import time

import pytest

from lbd.cli.past_time import past_time

NOW_S = calendar.timegm((2026, 11, 22, 6, 30, 0))


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("90", (2026, 11, 22, 6, 28, 30)),
        ("2h", (2026, 11, 22, 4, 30, 0)),
        ("1d", (2026, 11, 21, 6, 30, 0)),
        ("6:15", (2026, 11, 22, 6, 15, 0)),
        ("1:30:00", (2026, 11, 22, 1, 30, 0)),  # a time of day, not an hour and a half ago
        ("17:30", (2026, 11, 21, 17, 30, 0)),  # today's 17:30 is still to come
        ("today", (2026, 11, 22, 0, 0, 0)),
        ("today 17:30", (2026, 11, 22, 17, 30, 0)),
        ("yesterday", (2026, 11, 21, 0, 0, 0)),
        ("yesterday 08:00", (2026, 11, 21, 8, 0, 0)),
        ("monday", (2026, 11, 16, 0, 0, 0)),
        ("Saturday", (2026, 11, 21, 0, 0, 0)),
        ("sunday", (2026, 11, 22, 0, 0, 0)),  # today
        ("monday 08:00", (2026, 11, 16, 8, 0, 0)),
        ("this week", (2026, 11, 16, 0, 0, 0)),
        ("last week", (2026, 11, 9, 0, 0, 0)),
        ("last week 08:00", (2026, 11, 9, 8, 0, 0)),
        ("this month", (2026, 11, 1, 0, 0, 0)),
        ("last month", (2026, 10, 1, 0, 0, 0)),
        ("2026-12-01", (2026, 12, 1, 0, 0, 0)),
        ("2026-10-01T06:00", (2026, 10, 1, 6, 0, 0)),
        ("2026-10-01 06:00:30", (2026, 10, 1, 6, 0, 30)),
    ],
)
def test_what_each_spelling_means(text, when):
    assert past_time(text).unix_s(NOW_S, utc=True) == calendar.timegm(when)


@pytest.mark.parametrize(
    ("since", "until", "when"),
    [
        ("6:29", "6:31", (2026, 11, 22, 6, 31, 0)),  # a minute from now, not yesterday's
        ("6:10", "6:20", (2026, 11, 22, 6, 20, 0)),
        ("7d", "17:30", (2026, 11, 21, 17, 30, 0)),
        ("yesterday", "17:30", (2026, 11, 21, 17, 30, 0)),
        ("23:00", "5:00", (2026, 11, 22, 5, 0, 0)),
        ("6:29", "yesterday", (2026, 11, 21, 0, 0, 0)),  # for the caller to refuse
        ("2h", "3h", (2026, 11, 22, 3, 30, 0)),
        ("last week", "this week", (2026, 11, 16, 0, 0, 0)),
        ("monday", "saturday 17:30", (2026, 11, 21, 17, 30, 0)),
    ],
)
def test_an_end_given_as_a_time_of_day_is_after_the_beginning(since, until, when):
    since_s = past_time(since).unix_s(NOW_S, utc=True)
    assert past_time(until).end_s(since_s, NOW_S, utc=True) == calendar.timegm(when)


def test_an_end_without_a_beginning_is_the_most_recent_one():
    found = past_time("17:30").end_s(None, NOW_S, utc=True)
    assert found == calendar.timegm((2026, 11, 21, 17, 30, 0))


@pytest.fixture
def tokyo(monkeypatch):
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_a_day_is_a_local_one_unless_utc_is_asked_for():
    """It is 15:30 there."""
    assert past_time("today").unix_s(NOW_S) == calendar.timegm((2026, 11, 21, 15, 0, 0))
    assert past_time("15:00").unix_s(NOW_S) == calendar.timegm((2026, 11, 22, 6, 0, 0))


@pytest.mark.parametrize(
    "text",
    ["", "soon", "yesterday noon", "yesterday 25:00", "2026-02-30", "2026-13-01", "24:00",
     "today T", "last", "week", "last friday", " monday", "monday T", "0000-01-01", "--"],
)  # fmt: skip
def test_spellings_that_are_not_times(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a time; allowed: 2h, 1d, 17:30"):
        past_time(text)
