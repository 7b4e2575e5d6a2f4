"""The standard input and outputs of a command on the host where it runs."""

import asyncio
import contextlib
import os
import tty
from types import SimpleNamespace

import pytest

from lbd.lbm.inbound.stdio import JobStdio
from lbd.lbm.link import wire as tags
from lbd.lbm.link.user_threads import Threads
from lbd.lbm.link.window import budget_of_windows
from lbd.local.budget import Share
from lbd.net.gen import lbm_pb2


class Talk:
    is_full = False

    def __init__(self):
        self.sent = []

    def put(self, tag, body=b"", linger_s=0.0):
        self.sent.append((tag, bytes(body)))

    async def flush(self):
        pass


def share():
    return Share(budget_of_windows(), "h1")


@pytest.fixture
async def ends():
    made = JobStdio(lbm_pb2.RunRequest(wants_stdin=True), Talk(), Threads(), share())
    made.make()
    yield made
    made.close()
    made.close_childs()


async def test_later_messages_do_not_undo_that_input_has_arrived(ends):
    """When an owner returns, only a command without any input or output is moved."""
    ends.hear(tags.STDIN, memoryview(b""))
    assert ends.is_untouched
    ends.hear(tags.STDIN, memoryview(b"x"))
    assert not ends.is_untouched
    ends.hear(tags.GROUND, memoryview(b"\0"))
    assert not ends.is_untouched


class CountedThreads(Threads):
    """Counts its calls, and makes none while `are_held`."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.are_held = False

    def start(self, call):
        self.calls += 1
        if self.are_held:
            self.rest()
        return super().start(call)


@pytest.fixture
async def at_terminal():
    request = lbm_pb2.RunRequest(wants_stdin=True)
    request.terminal.size, request.terminal.ends_lines = b"24 80 0 0", True
    made = JobStdio(request, Talk(), CountedThreads(), share())
    made.make()
    made.begin(0, lambda: None, lambda _: asyncio.sleep(0, result=False))
    pumps = made.pump()
    yield made
    for task in pumps:
        task.cancel()
    await asyncio.wait(pumps)
    made.stop()
    made.close_childs()


async def printed(ends, data):
    async with asyncio.timeout(10):
        while (tags.STDOUT, data) not in ends._talk.sent:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_the_echo_of_a_letter_uses_no_thread(at_terminal):
    """Each change of threads costs more than everything else that a key needs here."""
    at_terminal.hear(tags.STDIN, memoryview(b"x"))
    await printed(at_terminal, b"x")
    assert at_terminal._threads.calls == 0


async def test_a_line_is_sent_as_the_terminal_treats_it_at_that_time(at_terminal):
    os.write(at_terminal.childs[1], b"line\n")
    await printed(at_terminal, b"line\n")
    assert at_terminal._threads.calls == 1
    tty.setraw(at_terminal.childs[1])
    os.write(at_terminal.childs[1], b"down\n")
    await printed(at_terminal, b"down\n")
    assert at_terminal._talk.sent[-2:] == [(tags.SCREEN, b""), (tags.STDOUT, b"down\n")]


async def test_a_line_that_no_thread_has_handled_is_sent_before_the_handover(
    at_terminal,
):
    at_terminal._threads.are_held = True
    os.write(at_terminal.childs[1], b"line\n")
    async with asyncio.timeout(10):
        while not at_terminal._threads.calls:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    at_terminal.left()
    assert at_terminal._talk.sent == [(tags.STDOUT, b"line\n")]


async def test_output_at_a_terminal_before_a_stop_is_reported_before_the_stop(at_terminal):
    """It is read when it is looked for: nothing announces it."""
    os.write(at_terminal.childs[1], b"printed")
    at_terminal.stopped()
    await printed(at_terminal, b"printed")
    assert at_terminal._talk.sent == [(tags.STDOUT, b"printed"), (tags.STOPPED, b"")]


async def test_output_before_a_stop_is_reported_before_the_stop(ends):
    ends.begin(0, lambda: None, lambda _: asyncio.sleep(0, result=False))
    pumps = ends.pump()
    os.write(ends.childs[1], b"printed")
    ends.stopped()
    async with asyncio.timeout(10):
        while (tags.STOPPED, b"") not in ends._talk.sent:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert ends._talk.sent == [(tags.STDOUT, b"printed"), (tags.STOPPED, b"")]
    for task in pumps:
        task.cancel()
    await asyncio.wait(pumps)
    ends.stop()


@pytest.mark.parametrize("is_read", [True, False])
async def test_interrupts_end_a_command_that_accepts_lines_and_reads_none(
    ends, monkeypatch, is_read
):
    """A command that waits for a line is alive: what ^C means to it is its own affair."""
    monkeypatch.setattr("lbd.lbm.inbound.stdio.JUDGED_AFTER_S", 0.0)
    forced, asked = [], []

    async def looked(devices):
        asked.append(devices)
        return is_read

    ends.begin(7, lambda: forced.append(True), looked)
    pumps = ends.pump()
    pty = SimpleNamespace(
        master=9,
        devices={(136, 4)},
        looked=lambda: asyncio.sleep(0, result=True),
        hands_lines_on=lambda leader: leader == 7,
    )
    await ends._judge(pty)
    assert asked == [{(136, 4)}]
    assert forced == ([] if is_read else [True])
    for task in pumps:
        task.cancel()
    await asyncio.wait(pumps)
    ends.stop()


async def test_the_output_of_a_command_that_ended_at_once_is_sent_without_a_task(ends):
    ends.begin(0, lambda: None, lambda _: asyncio.sleep(0, result=False))
    os.write(ends.childs[1], b"printed")
    ends.close_childs()
    ends.writers_gone()
    assert ends.drain() == ()
    assert ends._talk.sent == [(tags.STDOUT, b"printed")]


async def test_an_output_that_some_process_still_holds_is_left_to_a_task(ends):
    ends.begin(0, lambda: None, lambda _: asyncio.sleep(0, result=False))
    os.write(ends.childs[1], b"printed")
    ends.writers_gone()
    async with asyncio.timeout(20):
        await asyncio.wait(ends.drain())
    assert ends._talk.sent == [(tags.STDOUT, b"printed")]


async def test_unread_output_waits_where_it_was_printed():
    """No more is sent than the windows that are granted."""
    talk, closed = Talk(), 0b101
    request = lbm_pb2.RunRequest(closed_fds=closed)
    made = JobStdio(request, talk, Threads(), share())
    made.make()
    made.begin(0, lambda: None, lambda _: asyncio.sleep(0, result=False))
    (pump,) = made.pump()
    written, granted = 0, 1 << 20
    os.set_blocking(made.childs[0], False)

    async def prints_until(limit_bytes):
        nonlocal written
        for _ in range(2000):
            with contextlib.suppress(BlockingIOError):
                written += os.write(made.childs[0], bytes(1 << 16))
            await asyncio.sleep(0.001)
            if written > limit_bytes:
                break

    sent_bytes = lambda: sum(len(body) for tag, body in talk.sent if tag == tags.STDOUT)  # noqa: E731
    try:
        await prints_until(1 << 18)
        assert sent_bytes() <= 2 * tags.FIRST_WINDOW_BYTES
        made.hear(tags.DELIVERED, memoryview(tags.delivered(1, sent_bytes(), granted)))
        before = sent_bytes()
        await prints_until(before + granted)
        assert granted <= sent_bytes() - before <= 2 * granted
    finally:
        pump.cancel()
        made.stop()
        made.close_childs()
