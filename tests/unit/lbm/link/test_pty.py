"""The terminal of a command that came from another host."""

import asyncio
import os
import termios
import threading

import pytest

from lbd.launch.terminal_modes import raw_modes
from lbd.lbm.link.pty import Pty
from lbd.lbm.link.user_threads import Threads
from lbd.net.gen import lbm_pb2

EVENT_LOOP = threading.main_thread()


@pytest.fixture
async def pty():
    made = Pty(lbm_pb2.Terminal(size=b"24 80 0 0"), Threads())
    yield made
    made.close()
    os.close(made.slave)


async def test_its_modes_are_asked_for_and_set_in_threads_alone(pty, monkeypatch):
    """Its user can hold the lock of the terminal for as long as they like."""
    callers, raw = [], raw_modes(termios.tcgetattr(pty.slave))

    def recorded(call):
        def made(*words):
            callers.append(threading.current_thread())
            return call(*words)

        return made

    for name in ("tcgetattr", "tcsetattr"):
        monkeypatch.setattr(f"lbd.lbm.link.pty.termios.{name}", recorded(getattr(termios, name)))
    assert pty.end_of_file() == b"\x04"
    assert not pty.typed(b"\x03", 1.0)
    assert pty.typed(b"\x03", 1.5)
    assert pty.still_ends_lines()
    pty.hands_lines_on(os.getpid())
    pty.follow(raw)
    async with asyncio.timeout(10):
        while not await pty.looked() or pty.still_ends_lines():
            pass
    assert callers
    assert EVENT_LOOP not in callers


async def test_a_terminal_that_does_not_answer_is_not_waited_for(pty, monkeypatch):
    answers = threading.Event()
    monkeypatch.setattr(pty, "look", lambda _: answers.wait(10))
    async with asyncio.timeout(5):
        assert not await pty.looked()
        pty.typed(b"x", 1.0)
        pty.resize(b"30 90 0 0")
    answers.set()
    async with asyncio.timeout(10):
        while os.get_terminal_size(pty.slave).lines != 30:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_letters_are_typed_without_a_look_and_control_characters_with_one(pty, monkeypatch):
    looks = []
    monkeypatch.setattr(pty, "look", looks.append)
    pty.typed(b"letters, and a space", 1.0)
    assert pty._working is None
    for typed in (b"\r", b"\x03", b"\x7f", b"ab\x1b[A"):
        looks.clear()
        pty.typed(typed, 1.0)
        async with asyncio.timeout(10):
            while not looks:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
