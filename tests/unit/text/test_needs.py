"""The answer to a need in another notation."""

import pytest

from lbd.text.needs import read_need


@pytest.mark.parametrize("text", ["gpu:1", "scratch:50G"])
def test_the_notation_of_slurm_is_answered_with_ours(text):
    with pytest.raises(ValueError, match=f"must be {text.replace(':', '=')}"):
        read_need(text)


def test_for_other_names_the_rule_is_given():
    for text in ("gpu:a100", "gpu:1=2"):
        with pytest.raises(ValueError, match="a name consists of letters"):
            read_need(text)
