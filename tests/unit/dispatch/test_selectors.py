"""Which jobs a user means."""

import pytest

from lbd.dispatch.selectors import in_few_lines, is_wide, read_selectors
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


@pytest.mark.parametrize(
    ("texts", "wide"),
    [(["3"], False), (["last", "4"], False), (["@me"], True), (["3", "5-9"], True)],
)
def test_who_names_a_range_means_what_there_is_in_it(texts, wide):
    assert is_wide(texts) is wide


def test_the_same_trouble_of_many_jobs_is_one_line():
    problems = [
        (7, "job 7 is not held"),
        (8, "job 8 runs already; only a pending one can be held"),
        (9, "job 9 is not held"),
        (77, "job 77 is not held"),
    ]
    assert in_few_lines(problems) == [
        "job 7 is not held; 2 more likewise",
        "job 8 runs already; only a pending one can be held",
    ]
    assert in_few_lines([]) == []
