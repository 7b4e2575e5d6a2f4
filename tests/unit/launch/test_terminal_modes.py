"""Terminal modes and sizes over the wire, and what raw mode makes of them."""

import os
import termios

import pytest

from lbd.launch.terminal_modes import (
    pack_modes,
    pack_size,
    raw_modes,
    read_modes,
    read_size,
    same_flags,
)
from lbd.lbm.link.pty import Pty
from lbd.lbm.link.user_threads import Threads
from lbd.net.gen import lbm_pb2


@pytest.fixture
def terminal():
    """A real terminal, with flags and characters that are not the usual ones."""
    master, slave = os.openpty()
    modes = termios.tcgetattr(slave)
    modes[3] &= ~termios.ECHOK
    modes[6][termios.VINTR] = b"\x18"
    modes[6][termios.VSUSP] = b"\0"
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    yield slave
    os.close(master)
    os.close(slave)


def test_modes_arrive_as_they_were_sent(terminal):
    modes = termios.tcgetattr(terminal)
    assert read_modes(pack_modes(modes)) == modes


def test_raw_modes_arrive_too(terminal):
    """Two of the characters are numbers in that mode."""
    termios.tcsetattr(terminal, termios.TCSANOW, raw_modes(termios.tcgetattr(terminal)))
    modes = termios.tcgetattr(terminal)
    assert read_modes(pack_modes(modes)) == modes


def test_raw_is_distinguished_from_any_other(terminal):
    modes = termios.tcgetattr(terminal)
    raw = raw_modes(modes)
    assert not same_flags(modes, raw)
    termios.tcsetattr(terminal, termios.TCSANOW, raw)
    assert same_flags(termios.tcgetattr(terminal), raw)
    assert raw_modes(raw)[:4] == raw[:4]


@pytest.mark.parametrize("text", [b"", b"1 2 3", b"x " * 38, b"-1 " + b"1 " * 37, b"256 " * 38])
def test_malformed_modes_are_refused(text):
    with pytest.raises((ValueError, OverflowError)):
        read_modes(text)


@pytest.mark.parametrize("text", [b"", b"24 80", b"24 80 0 x", b"-1 80 0 0", b"65536 80 0 0"])
def test_malformed_sizes_are_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011
        read_size(text)


def test_sizes():
    assert read_size(pack_size((24, 80, 640, 480))) == (24, 80, 640, 480)


# What counts as two interrupts in a row

CASES = [
    ([(0.0, b"\x03")], False),
    ([(0.0, b"\x03"), (0.9, b"\x03")], True),
    ([(0.0, b"\x03"), (1.1, b"\x03")], False),
    ([(0.0, b"a\x03b\x03")], True),
    ([(0.0, b"\x03"), (0.5, b"x"), (0.9, b"\x03")], True),
    ([(0.0, b"x"), (0.1, b"")], False),
]


@pytest.mark.parametrize(("typed", "expected"), CASES)
async def test_two_interrupts_within_a_second(typed, expected):
    pty = Pty(lbm_pb2.Terminal(size=b"24 80 0 0"), Threads())
    try:
        assert [pty.typed(data, now_s) for now_s, data in typed][-1] == expected
    finally:
        pty.close()
        os.close(pty.slave)


async def test_no_character_means_interrupt():
    """If it is switched off it is NUL, which is then a byte like any other."""
    pty = Pty(lbm_pb2.Terminal(size=b"24 80 0 0"), Threads())
    try:
        modes = termios.tcgetattr(pty.slave)
        modes[6][termios.VINTR] = b"\0"
        termios.tcsetattr(pty.slave, termios.TCSANOW, modes)
        assert not pty.typed(b"\0\0\0", 0.0)
    finally:
        pty.close()
        os.close(pty.slave)
