"""Which jobs a user means."""

import pytest

from lbd.dispatch.selectors import read_selectors
from lbd.errors import ConfigError


@pytest.mark.parametrize(
    ("texts", "ranges", "user"),
    [
        (["3"], ((3, 3),), ""),
        (["2-5", "9"], ((2, 5), (9, 9)), ""),
        (["last"], ((7, 7),), ""),
        (["@me"], (), "ann"),
        (["@me", "1-4"], ((1, 4),), "ann"),
    ],
)
def test_what_is_meant(texts, ranges, user):
    wanted = read_selectors(texts, "ann", 7)
    assert (wanted.ranges, wanted.user, wanted.ended_too) == (ranges, user, True)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("5-2", "'5-2': the range runs backwards"),
        ("0", "'0' names no queued job"),
        ("h1-3", "'h1-3' names no queued job"),
        ("1-", "'1-' names no queued job"),
        ("-1", "'-1' names no queued job"),
        ("٣", "'٣' names no queued job"),
        ("9" * 30, "names no queued job"),
        ("", "'' names no queued job"),
    ],
)
def test_what_makes_no_sense_is_one_line(text, line):
    with pytest.raises(ConfigError, match=line.replace("(", r"\(")):
        read_selectors([text], "ann", 7)


def test_the_last_job_of_somebody_who_has_none():
    with pytest.raises(ConfigError, match="ann has submitted no job"):
        read_selectors(["last"], "ann", None)
