"""Tables that fit: which columns stay, what is cut, and how wide a text is."""

import pytest

from lbd.console.output import Cell, Paint, cut, fit, folded, lay_out, width, wrapped

HEADER = ("ID", ">AGE", "NOTE", "COMMAND")
ROWS = [("1", "12s", "–", "make all"), ("2", "3m05s", "–", "x" * 50)]


def test_empty_columns_go_first_then_optional_ones():
    titles, rows = fit(HEADER, ROWS, 200, (">AGE", "NOTE"))
    assert titles == ("ID", ">AGE", "COMMAND")
    titles, rows = fit(HEADER, ROWS, 23, (">AGE", "NOTE"))
    assert titles == ("ID", "COMMAND")
    assert [row[-1].text for row in rows] == ["make all", "x" * 18 + "…"]


def test_of_several_columns_that_may_be_cut_the_last_gets_the_room():
    rows = [("1", "c" * 40, "w" * 40)]
    _, (row,) = fit(("ID", "COMMAND", "WAITS"), rows, 60, (), ("COMMAND", "WAITS"))
    assert [width(item.text) for item in row] == [1, 14, 40]


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("été", 3), ("e\u0301te\u0301", 3), ("計算", 4), ("…▏", 2)]
)
def test_width(text, columns):
    assert width(text) == columns


@pytest.mark.parametrize(
    ("line", "columns", "left"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 4, "abc…"),
        ("計算機", 5, "計算…"),
        ("計算機", 4, "計…"),
        ("\x1b[31mabcdef\x1b[0m", 4, "\x1b[31mabc…\x1b[0m"),
        ("\x1b[31mabcdef\x1b[0m", 6, "\x1b[31mabcdef\x1b[0m"),
        ("abcdef", None, "abcdef"),
    ],
)
def test_a_cut_line_is_marked_and_closes_its_colours(line, columns, left):
    assert cut(line, columns) == left


def test_columns_of_wide_letters_are_aligned():
    rows = [("計算", "1"), (Cell("ab"), "2")]
    assert lay_out(("N", "X"), rows, Paint(on=False)) == ["N     X", "計算  1", "ab    2"]


def test_parts_of_a_line_wrap_where_they_must():
    assert folded(["aaaa", "bbbb", "cc"], None) == ["aaaa   bbbb   cc"]
    assert folded(["aaaa", "bbbb", "cc"], 11) == ["aaaa   bbbb", "cc"]
    assert folded(["a" * 20], 5) == ["aaaa…"]


def test_sentences_break_between_words():
    assert wrapped("one two three", 8, "  ") == ["one two", "  three"]
    assert wrapped("one two three", None) == ["one two three"]


def test_a_short_form_is_shown_only_where_the_whole_would_be_cut():
    whole, short = "293 pending, 4 running, 3 done", "3/300, 4 running"
    header, rows = ("ID", "STATE", "COMMAND"), [("48", Cell(whole, "", short), "x" * 60)]
    shown = {}
    for columns in (45, 70, 100, 200):
        _, ((_, state, _),) = fit(header, rows, columns, (), ("STATE", "COMMAND"))
        shown[columns] = state.text
    assert shown == {45: short, 70: whole, 100: whole, 200: whole}


def test_a_short_form_takes_no_room_from_the_reason():
    whole, short = "293 pending, 4 running, 3 done", "3/300, 4 running"
    rows = [("48", Cell(whole, "", short), "render", "8 slots needed on one host; 4 at most")]
    header = ("ID", "STATE", "COMMAND", "WAITS")
    for columns in (50, 64, 65, 72, 90, 120):
        _, ((_, state, _, why),) = fit(header, rows, columns, (), ("STATE", "COMMAND", "WAITS"))
        assert state.text in (whole, short)
        assert state.text == short or width(why.text) >= 26
