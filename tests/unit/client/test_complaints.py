"""Messages on standard error: one line, broken at words only where a terminal would break it."""

import os
import sys
import termios

import pytest

from lbd.cli.complaints import complain
from lbd.client import complaints

TEXT = "no host takes it now; see `lbctl doctor` for more"


@pytest.fixture
def terminal():
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 40))
    yield master, slave
    os.close(master)
    os.close(slave)


def shown(master):
    """Returns what the terminal shows up to the last line break of the message."""
    said = ""
    while said.count("\n") < 2:  # the kernel may hand it over in parts
        said += os.read(master, 1000).decode().replace("\r", "")
    return said


def test_lbrun_breaks_its_messages_at_words_on_a_terminal(terminal, monkeypatch):
    master, slave = terminal
    monkeypatch.setattr(complaints, "ERROR", slave)
    complaints.say(TEXT)
    assert shown(master) == "lbrun: no host takes it now; see\n  `lbctl doctor` for more\n"


def test_lbctl_breaks_its_messages_at_words_on_a_terminal(terminal, monkeypatch):
    master, slave = terminal
    with os.fdopen(os.dup(slave), "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        complain("lbctl", TEXT)
        stream.flush()
        said = shown(master)
    assert said == "lbctl: no host takes it now; see\n  `lbctl doctor` for more\n"


def test_messages_that_are_not_for_a_terminal_are_one_line(monkeypatch, capsys):
    reader, writer = os.pipe()
    monkeypatch.setattr(complaints, "ERROR", writer)
    complaints.say(TEXT)
    assert os.read(reader, 1000).decode() == f"lbrun: {TEXT}\n"
    complain("lbctl", TEXT)
    assert capsys.readouterr().err == f"lbctl: {TEXT}\n"
    os.close(reader)
    os.close(writer)
