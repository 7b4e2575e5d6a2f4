"""Names that differ from job to job."""

import pytest

from lbd.lbm.pattern import fill_in

ROWS = [
    (b"out", b"out"),
    (b"%j.%a.%h", b"12.3.h2"),
    (b"100%", b"100%"),
    (b"%%j %x", b"%j %x"),
    (b"%%%j", b"%12"),
    (b"\xff%a%a", b"\xff33"),
]


@pytest.mark.parametrize(("pattern", "name"), ROWS)
def test_what_is_filled_in(pattern, name):
    assert fill_in(pattern, "12", 3, "h2") == name


def test_outside_an_array_there_is_no_index():
    assert fill_in(b"a%a", "12", None, "h2") == b"a"
