"""Windows of the week."""

import pytest

from lbd.text.windows import DAYS, Moment, first_inside, read_window


def at(text):
    """Parses "fri 18:30", on the 13th of March."""
    day, time = text.split()
    hour, minute = map(int, time.split(":"))
    return Moment(minute, hour, 13, 3, DAYS.index(day))


@pytest.mark.parametrize(
    ("window", "inside", "outside"),
    [
        ("mon-fri 18:00-08:00", ["fri 18:00", "sat 07:59", "mon 23:00"],
         ["fri 17:59", "sat 08:00", "sat 18:00", "mon 07:00"]),
        ("sat,sun", ["sat 00:00", "sun 23:59"], ["mon 00:00", "fri 23:59"]),
        ("fri-mon", ["fri 1:00", "sun 1:00", "mon 1:00"], ["tue 1:00", "thu 1:00"]),
        ("22:00-06:00", ["mon 22:00", "mon 5:59", "sun 0:00"], ["mon 6:00", "mon 21:59"]),
        ("9:00-24:00", ["mon 23:59"], ["mon 8:59"]),
        ("* 0-7,20-23 * * 1-5", ["mon 0:00", "fri 23:59"], ["mon 8:00", "sat 0:00", "sun 0:00"]),
        ("*/15 * * 3 *", ["mon 4:45"], ["mon 4:44"]),
        ("* * 14 * *", [], ["mon 4:44"]),
        ("* * * * 0", ["sun 4:44"], ["mon 4:44"]),
        ("* * 13 * 0", ["mon 4:44", "sun 4:44"], []),
        ("* * 14 * 0", ["sun 4:44"], ["mon 4:44"]),
        ("* * */2 * 0", ["sun 4:44"], ["mon 4:44"]),
        ("* * * * 7", ["sun 4:44"], ["sat 4:44"]),
    ],
)  # fmt: skip
def test_holds(window, inside, outside):
    found = read_window(window)
    assert [text for text in inside if not found.holds(at(text))] == []
    assert [text for text in outside if found.holds(at(text))] == []


@pytest.mark.parametrize(
    "text",
    ["", "someday", "mon 25:00-26:00", "mon 8-9", "8:0-9:00", "8:00", "mon tue", "* * * *",
     "60 * * * *", "* 5-3 * * *", "*/0 * * * *", "a b c d e", "mon-fri 18:00-08:00 x"],
)  # fmt: skip
def test_invalid_windows(text):
    with pytest.raises(ValueError, match="is not a time window"):
        read_window(text)


def test_the_first_moment_inside_is_found():
    windows = [read_window("sat,sun"), read_window("mon-fri 18:00-08:00")]
    moments = [at("fri 16:00"), at("fri 17:59"), at("fri 18:00"), at("sat 00:00")]
    assert first_inside(windows, moments) == 2
    assert first_inside(windows, moments[:2]) is None
    assert first_inside([], moments) is None
