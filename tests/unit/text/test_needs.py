"""The answer to a need in another notation."""

import pytest

from lbd.text.needs import read_need
from lbd.text.needs_words import read_needs_text


@pytest.mark.parametrize("text", ["gpu:1", "scratch:50G"])
def test_the_notation_of_slurm_is_answered_with_ours(text):
    with pytest.raises(ValueError, match=f"must be {text.replace(':', '=')}"):
        read_need(text)


def test_for_other_names_the_rule_is_given():
    for text in ("gpu:a100", "gpu:1=2"):
        with pytest.raises(ValueError, match="a name consists of letters"):
            read_need(text)


@pytest.mark.parametrize("text", ["gpu=1.5", "gpu=0.5", "gpu=2.0", "gpu=.5", "scratch=1."])
def test_what_is_counted_is_counted_in_whole_numbers(text):
    """gpu=1.5 was cut to 1 without a word."""
    for read in (read_need, read_needs_text):
        with pytest.raises(ValueError, match="is not a whole number; only a size may"):
            read(text)


def test_a_size_may_be_a_fraction():
    assert read_need("scratch=1.5G") == ("scratch", 3 << 29)
