"""The standard input, output and error of a command of ours on another host: its caller's end."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import replace

from lbd.lbm.handover.codec import NO_FD, Fd
from lbd.lbm.handover.records import FarRun, SinkState, SourceState
from lbd.lbm.link import wire as tags
from lbd.lbm.link.conversation import Conversation
from lbd.lbm.link.descriptor_kinds import DescriptorKind, kind_of
from lbd.lbm.link.nonblocking_fd import Descriptor
from lbd.lbm.link.pump import Sink, Source
from lbd.lbm.link.user_threads import StdFds, Threads
from lbd.lbm.link.window import Shares, Window

PUT_BACK_S = 2.0  # for a file server that may not answer
DRAIN_S = 1.0  # for output that nobody reads, of a command that its caller has ended
SHOWN_WITHIN_S = 1.0  # for output printed before a stop, if its reader reads


class RemoteStdio:
    """Moves the bytes of the caller's descriptors, between `start` and `close`. The other end is
    `JobStdio` (lbm/inbound)."""

    def __init__(
        self,
        threads: Threads,
        windows: Shares,
        state: FarRun,
        talk: Conversation,
    ) -> None:
        """`threads`, `windows`: those of the user whose descriptors it gets."""
        self._state, self._talk = state, talk
        self._threads, self._windows = threads, windows
        self._sinks: dict[int, Sink] = {}
        self._output: Descriptor | None = None
        self._stdin: Source | None = None
        self._taken_bytes = 0  # of the input
        self._stdin_task: asyncio.Task[None] | None = None
        self._writing: dict[int, asyncio.Task[None]] = {}

    def attach(self, ends: StdFds) -> None:
        """Takes the caller's descriptors."""
        for number, output in ((1, ends.stdout), (2, ends.stderr)):
            if output is not None:
                self._sinks[number] = self._sink(number, Descriptor(output, self._threads))
        if ends.stdin is not None:
            if kind_of(ends.stdin) is DescriptorKind.REGULAR:
                self._state.input_file = Fd(os.dup(ends.stdin))
            self._stdin = self._source(Descriptor(ends.stdin, self._threads))

    def restore(self) -> None:
        """Takes the descriptors that an earlier LBM has left, in place of `attach`."""
        for output in self._state.outputs:
            descriptor = Descriptor.given(output.descriptor, self._threads)
            self._sinks[output.number] = self._sink(output.number, descriptor, output)
        if (left := self._state.stdin) is not None:
            self._stdin = self._source(Descriptor.given(left.descriptor, self._threads), left)

    def left(self) -> FarRun:
        """The state for another LBM; no further step of the event loop follows. Raises NotNow."""
        return replace(
            self._state,
            stdin=self._stdin.left() if self._stdin is not None else None,
            outputs=tuple(sink.left(number) for number, sink in self._sinks.items()),
        )

    def _sink(self, number: int, descriptor: Descriptor, left: SinkState | None = None) -> Sink:
        window = Window(
            self._windows(),
            tags.SCREEN_BYTES if self._state.has_terminal else tags.WINDOW_BYTES,
            left_bytes=left.window_bytes if left is not None else 0,
        )
        if number == 1:
            self._output = descriptor
        talk = self._talk  # nothing here refers to us: cycles are collected late
        return Sink(
            descriptor,
            lambda *counts: talk.put(tags.DELIVERED, tags.delivered(number, *counts)),
            lambda: talk.put(tags.OUTPUT_GONE, bytes((number,))),
            window,
            left=left,
        )

    def _source(self, descriptor: Descriptor, left: SourceState | None = None) -> Source:
        talk = self._talk
        return Source(
            descriptor,
            lambda data: talk.put(tags.STDIN, data),
            talk.flush,
            is_full=lambda: talk.is_full,
            left=left,
        )

    def start(self) -> None:
        self._writing = {number: sink.start() for number, sink in self._sinks.items()}
        if self._stdin is not None:
            self._stdin_task = self._stdin.start()

    def close(self) -> None:
        for number, sink in self._sinks.items():
            if number in self._writing:
                self._writing[number].cancel()
            else:  # it was not started
                sink.close()
        if self._stdin is not None and self._stdin_task is None:
            self._stdin.close()
        self.stop_input()
        file, self._state.input_file = self._state.input_file, NO_FD
        if file >= 0:
            self._threads.close(file)

    def printed(self, number: int, data: memoryview) -> None:
        """Writes output of the command. Raises ValueError beyond the window."""
        self._state.has_printed = self._state.has_printed or bool(data)
        if number in self._sinks:
            self._sinks[number].put(data)

    def once_shown(self, call: Callable[[], None]) -> None:
        """Calls it once what was printed so far is written, or soon."""
        if 1 in self._sinks:
            self._sinks[1].then(call, SHOWN_WITHIN_S)
        else:
            call()

    def end_outputs(self) -> None:
        for sink in self._sinks.values():
            sink.put(b"")

    async def written(self) -> None:
        """Waits until all output is written, or given up."""
        if self._writing:
            await asyncio.wait(self._writing.values())

    def give_up_soon(self) -> None:
        """Gives up unread output soon: the command has ended as its caller wanted."""
        for number, task in self._writing.items():
            asyncio.get_running_loop().call_later(DRAIN_S, self._give_up, number, task)

    def _give_up(self, number: int, task: asyncio.Task[None]) -> None:
        if task.cancel():
            self._talk.put(tags.OUTPUT_GONE, bytes((number,)))

    def delivered(self, number: int, count: int, granted_bytes: int) -> bool:
        """Notes that the command's host has written so much input more, and which window it grants.
        Returns whether the caller may type on. Raises ValueError if fewer bytes were sent."""
        if number == 0 and self._stdin is not None:
            self._stdin.delivered(count, granted_bytes)
            self._taken_bytes += count
        elif number == 0:
            self._state.typed_bytes = max(0, self._state.typed_bytes - count)
            return True
        return False

    def typed(self, data: bytes) -> bool:
        """Sends terminal input that the client has read; b"" is the end of file. Returns whether
        more may come. Raises ValueError if more comes than was asked for."""
        self._state.typed_bytes += len(data)
        if self._state.typed_bytes > 2 * tags.FIRST_WINDOW_BYTES:
            raise ValueError("input without waiting until it is taken")
        self._talk.put(tags.STDIN, data)
        return self._state.typed_bytes < tags.FIRST_WINDOW_BYTES // 2

    def stop_input(self) -> None:
        """The command reads no more."""
        if self._stdin_task is not None:
            self._stdin_task.cancel()

    async def put_back(self, taken_bytes: int) -> None:
        """Leaves what was read from a file beyond what the command has taken to its next reader."""
        file = self._state.input_file
        if file < 0 or self._stdin is None:
            return
        self.stop_input()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(PUT_BACK_S):
                if self._stdin_task is not None:
                    await asyncio.wait((self._stdin_task,))
                read = self._stdin.read_bytes + await self._stdin.lost_bytes()
                if (left := read - taken_bytes) > 0:
                    await self._threads.run(lambda: os.lseek(file, -left, os.SEEK_CUR))

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was printed by the command or read for it."""
        is_read = self._stdin is not None and self._stdin.read_bytes
        return not self._state.has_printed and not is_read

    @property
    def is_unread(self) -> bool:
        """Whether a reader has not taken yet what has arrived of the output."""
        return any(sink.behind.is_set() for sink in self._sinks.values())

    @property
    def movement(self) -> tuple[int, bool]:
        """How much the command has taken of its input, or a reader of its standard output; and
        whether the next thing must come from the other host: that it has taken input, or output."""
        if self._stdin is not None:
            is_over = self._stdin_task is not None and self._stdin_task.done()
            return self._taken_bytes, is_over or self._stdin.read_bytes > self._taken_bytes
        written = self._output.written_bytes if self._output is not None else 0
        return written, not self.is_unread

    def trouble(self) -> str:
        """Why not all of the input or output was moved; "" if it was."""
        ends = (("standard input", self._stdin), ("standard output", self._sinks.get(1)))
        troubles = [(name, end.trouble) for name, end in ends if end is not None]
        return "; ".join(f"{name}: {found.strerror}" for name, found in troubles if found)
