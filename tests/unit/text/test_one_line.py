"""Text from others is shown in one line, and does nothing to a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from lbd.text.one_line import one_line, printable


@given(st.text(), st.integers(1, 50))
def test_one_line(text, limit):
    shown = one_line(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit


def test_plain_text_is_unchanged():
    assert one_line("no free slot") == "no free slot"
    assert one_line("two\nlines\there ") == "two lines here"
    assert one_line("\x1b[2Jx") == "?[2Jx"
    assert one_line("x" * 10, 4) == "xxx…"


@given(st.text())
def test_printable(text):
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) == len(text)
    assert printable(shown) == shown
