import pytest

from lbd.text.clock_time import read_time


@pytest.mark.parametrize(
    ("text", "date", "clock"),
    [
        ("17:30", None, (17, 30, 0)),
        ("7:05", None, (7, 5, 0)),
        ("00:00:01", None, (0, 0, 1)),
        ("2026-12-01T06:00", (2026, 12, 1), (6, 0, 0)),
        ("2026-12-01 06:00:30", (2026, 12, 1), (6, 0, 30)),
    ],
)
def test_a_time_of_any_day_or_of_a_given_one(text, date, clock):
    assert read_time(text) == (date, clock)


@pytest.mark.parametrize(
    "text",
    ["", "17", "17:3", "24:00", "12:60", "12:00:60", "-1:00", "1²:00", "17:30:00:00", "T17:30 ",
     "2026-12-01", "26-12-01T06:00", "2026-13-01T06:00", "2026-00-01T06:00", "2026-12-32T06:00",
     "2026-12-01T", "2026-12-01X06:00", "1969-12-31T23:00", "1e3:00", "noon", "１７:30"],
)  # fmt: skip
def test_an_invalid_time_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match=r"^.*$") as caught:
        read_time(text)
    assert "\n" not in str(caught.value)
    assert repr(text) in str(caught.value)
