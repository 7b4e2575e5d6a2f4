"""Quantities on command lines."""

import argparse

import pytest

from lbd.cli.complaints import complain
from lbd.cli.program import Parser
from lbd.cli.quantities import duration, signal_named


@pytest.mark.parametrize(("text", "number"), [("9", 9), ("kill", 9), ("SIGTERM", 15), ("Cont", 18)])
def test_signals(text, number):
    assert signal_named(text) == number


@pytest.mark.parametrize("text", ["", "0", "999", "²", "-9", "SIG", "SIGNAL"])
def test_invalid_signals(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a signal"):
        signal_named(text)


def test_durations():
    assert duration("1m30s") == 90.0
    with pytest.raises(argparse.ArgumentTypeError):
        duration("soon")


def test_a_complaint_is_one_line_without_terminal_sequences(capsys):
    complain("lbctl", "h2 says \x1b[2J\nand more")
    with pytest.raises(SystemExit):
        Parser("lbctl", "").parse_args(["\x1b]0;title\a"])
    first, second, end = capsys.readouterr().err.split("\n")
    assert first.removeprefix("<3>") == "lbctl: h2 says ?[2J and more"
    assert "\x1b" not in second
    assert end == ""
