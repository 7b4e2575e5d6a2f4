"""The nearest right spelling of a wrong word."""

import pytest

from lbd.text.spelling import nearest

NAMES = ("status", "stats", "advise", "drain", "undrain")


def test_the_dashes_of_options_do_not_make_them_similar():
    assert nearest("--mem", ("--name", "--timeout", "--begin")) == ""
    assert nearest("--nmae", ("--name", "--timeout", "--begin")) == "--name"


def test_a_name_with_another_first_letter_must_be_closer():
    assert nearest("bogus", ("logs", "jobs", "config")) == ""
    assert nearest("elig", ("eligible", "logs")) == "eligible"
    assert nearest("tatus", NAMES) == "status"
    assert nearest("obs", ("jobs", "logs")) == "jobs"


@pytest.mark.parametrize(
    ("word", "near"),
    [("stauts", "status"), ("stast", "stats"), ("STATS", "stats"), ("undrian", "undrain"),
     ("advice", "advise"), ("frobnicate", "")],
)  # fmt: skip
def test_transposed_letters_are_the_likeliest_slip(word, near):
    assert nearest(word, NAMES) == near
