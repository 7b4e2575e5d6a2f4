"""What is sent to the journal, and how."""

import logging
import os
import socket
import struct
import sys

from lbd.cli.daemons.journal import JournalHandler, OneLine, is_journal, packed


def record(text, level=logging.INFO, **extra):
    logger = logging.Logger("lbd.lim")
    found = []
    logger.addHandler(handler := logging.Handler())
    handler.emit = found.append
    logger.log(level, "%s", text, extra=extra)
    return found[0]


def listening(tmp_path):
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(str(tmp_path / "journal"))
    receiver.settimeout(5)
    return receiver


def test_a_record_becomes_fields(tmp_path):
    with listening(tmp_path) as receiver:
        handler = JournalHandler("lbd lim", "h1", logging.NullHandler(), str(tmp_path / "journal"))
        handler.handle(record("host h2 is here", logging.WARNING, peer="h2", action=""))
        handler.close()
        lines = receiver.recv(4096).decode().splitlines()
    found = dict(line.split("=", 1) for line in lines)
    assert found["MESSAGE"] == "host h2 is here"
    assert found["PRIORITY"] == "4"
    assert (found["LBD_HOST"], found["LBD_PEER"]) == ("h1", "h2")
    assert found["SYSLOG_IDENTIFIER"] == "lbd-lim"
    assert found["LOGGER"] == "lbd.lim"
    assert "LBD_ACTION" not in found


def test_a_line_about_a_job_carries_its_id(tmp_path):
    said = record("its lease has expired", job="12_7")
    with listening(tmp_path) as receiver:
        handler = JournalHandler("lbd lbm", "h1", logging.NullHandler(), str(tmp_path / "journal"))
        handler.handle(said)
        handler.close()
        lines = receiver.recv(4096).decode().splitlines()
    found = dict(line.split("=", 1) for line in lines)
    assert found["LBD_JOB"] == "12_7"
    assert found["MESSAGE"] == "job 12_7: its lease has expired"
    assert OneLine("lbd lbm: %(message)s").format(said) == f"lbd lbm: {found['MESSAGE']}"
    assert OneLine("lbd lbm: %(message)s").format(record("ready")) == "lbd lbm: ready"


def test_what_others_say_is_printable_in_every_field(tmp_path):
    try:
        raise ValueError("\x1b[2J\nPRIORITY=0")
    except ValueError:
        said = record("no", peer="h\x1b[2J\n2")
        said.exc_info = sys.exc_info()
    with listening(tmp_path) as receiver:
        handler = JournalHandler("lbd lim", "h1", logging.NullHandler(), str(tmp_path / "journal"))
        handler.handle(said)
        handler.close()
        found = receiver.recv(1 << 16)
    assert b"LBD_PEER=h?[2J 2\n" in found
    assert b"\x1b" not in found


def test_a_value_of_several_lines_comes_with_its_length():
    assert packed({"A": "x=y", "B": "1\n2"}) == b"A=x=y\nB\n" + struct.pack("<Q", 3) + b"1\n2\n"


def test_what_the_journal_does_not_accept_is_logged_as_a_line(tmp_path):
    seen = []
    otherwise = logging.Handler()
    otherwise.emit = seen.append
    handler = JournalHandler("lbd lim", "h1", otherwise, str(tmp_path / "nobody"))
    handler.handle(record("x"))
    handler.close()
    assert [item.getMessage() for item in seen] == ["x"]


def test_stderr_is_the_journal_only_if_it_is_the_stream_that_was_named(tmp_path, monkeypatch):
    path = tmp_path / "stderr"
    with path.open("w") as file:
        about = os.fstat(file.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{about.st_dev}:{about.st_ino}")
        assert is_journal(file.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{about.st_dev}:{about.st_ino + 1}")
        assert not is_journal(file.fileno())
        monkeypatch.delenv("JOURNAL_STREAM")
        assert not is_journal(file.fileno())
