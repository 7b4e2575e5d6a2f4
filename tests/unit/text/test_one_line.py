"""Text from others is shown in one line, and does nothing to a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from lbd.text.one_line import INDENT, at_words, one_line, printable


@given(st.text(), st.integers(1, 50))
def test_one_line(text, limit):
    shown = one_line(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit


@given(st.text(st.sampled_from("ab `")), st.integers(4, 30))
def test_lines_are_broken_only_at_words(text, columns):
    text = " ".join(text.split())
    lines = at_words(text, columns)
    assert " ".join(line.removeprefix(INDENT) for line in lines) == text
    for line in lines:
        assert len(line) <= columns or " " not in line.removeprefix(INDENT)


def test_a_command_to_copy_stays_on_one_line_if_it_fits():
    said = "lbctl: 3 of 9 failed; see them: `lbctl jobs --state failed,cancelled 12`, all of them"
    assert at_words(said, 60) == [
        "lbctl: 3 of 9 failed; see them:",
        "  `lbctl jobs --state failed,cancelled 12`, all of them",
    ]
    assert at_words(said, 30) == [
        "lbctl: 3 of 9 failed; see",
        "  them: `lbctl jobs --state",
        "  failed,cancelled 12`, all of",
        "  them",
    ]
    assert at_words(said, 90) == [said]


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
