"""Names that differ from job to job."""

import time

import pytest

from lbd.text.name_patterns import fill_in

ROWS = [
    (b"out", b"out"),
    (b"%j.%a.%h", b"12.3.h2"),
    (b"100%", b"100%"),
    (b"%%j %x", b"%j %x"),
    (b"%%%j", b"%12"),
    (b"%%%", b"%%"),
    (b"%\n%%a", b"%\n%a"),
    (b"\xff%a%a", b"\xff33"),
]


@pytest.mark.parametrize(("pattern", "name"), ROWS)
def test_what_is_substituted(pattern, name):
    assert fill_in(pattern, "12", 3, "h2") == name


def test_outside_an_array_there_is_no_index():
    assert fill_in(b"a%a", "12", None, "h2") == b"a"


@pytest.mark.parametrize("sign", [b"%", b"%j", b"%x"])
def test_signs_take_a_time_that_grows_with_their_number(sign):
    """Eight megabytes of them, the maximum of a request, would have stopped an LBM for hours."""

    def cpu_s(signs):
        began_s = time.process_time()
        fill_in(sign * signs, "1", None, "h2")
        return time.process_time() - began_s

    few_s = min(cpu_s(40_000) for _ in range(3))
    assert min(cpu_s(320_000) for _ in range(3)) < 25 * few_s  # not 64 times
