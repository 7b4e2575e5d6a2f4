"""What is printed about a plain command that an owner has suspended."""

from lbd.lbm.core.pauses import LINES_MAX, Pauses

WHY = "h3's owner came back at 14:02"


def test_there_is_a_line_when_it_is_suspended_and_one_when_it_continues():
    pauses = Pauses(are_wanted=True)
    assert pauses.line("h3", "") == "", "it has not stood still"
    assert pauses.line("h3", WHY) == f"h3: suspended: {WHY}"
    assert pauses.line("h3", f"{WHY}; waiting") == "", "another reason of the same pause"
    assert pauses.line("h3", "") == "h3: goes on"


def test_on_another_host_it_is_no_longer_suspended():
    pauses = Pauses(are_wanted=True)
    pauses.line("h2", WHY)
    assert pauses.line("h3", "") == ""
    assert pauses.line("h3", WHY) == f"h3: suspended: {WHY}"


def test_nothing_is_printed_where_nobody_would_read_it():
    assert Pauses().line("h3", WHY) == ""


def test_an_owner_who_comes_and_goes_does_not_fill_the_screen():
    pauses = Pauses(are_wanted=True)
    said = [pauses.line("h3", why) for why in (WHY, "") * LINES_MAX]
    lines = [line for line in said if line]
    assert len(lines) == LINES_MAX
    assert lines[-1].endswith("; no more of this is said")
