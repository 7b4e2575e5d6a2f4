"""What is said of a need that is written otherwise."""

import pytest

from lbd.text.needs import read_need


@pytest.mark.parametrize("text", ["gpu:1", "scratch:50G"])
def test_slurms_way_is_told_ours(text):
    with pytest.raises(ValueError, match=f"must be {text.replace(':', '=')}"):
        read_need(text)


def test_other_names_are_told_the_rule():
    for text in ("gpu:a100", "gpu:1=2"):
        with pytest.raises(ValueError, match="a name consists of letters"):
            read_need(text)
