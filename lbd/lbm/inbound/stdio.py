"""A foreign job's standard input, output and error, the command's end and ours: pipes or a pty."""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace

from lbd.keeper.stdin_watch import IsRead, pipe_of
from lbd.launch.terminal_modes import read_modes
from lbd.lbm.handover.records import SinkState, SourceState, StdioState
from lbd.lbm.link import wire as tags
from lbd.lbm.link.conversation import Conversation
from lbd.lbm.link.nonblocking_fd import Descriptor
from lbd.lbm.link.pty import Pty
from lbd.lbm.link.pump import Sink, Source
from lbd.lbm.link.user_threads import Threads
from lbd.lbm.link.window import AShare, Window
from lbd.net.gen import lbm_pb2

LINGER_S = 0.002  # how long the end of an output waits for the end of the command
JUDGED_AFTER_S = 0.5  # from the second interrupt: time to react even on a busy host
LAYOUT = b"\n\r\t"  # characters that a terminal may change
LOOK_S = 0.25  # between two looks whether a command behind its terminal reads it


class LineEnds:
    """Output without the far terminal's line ends: the caller's terminal makes them.

    So the caller's terminal need not be switched to raw output, and what its other programs print
    meanwhile looks as usual. An editor that takes the whole screen does not want that: then the
    terminal is switched.
    """

    def __init__(self, pty: Pty, state: StdioState, talk: Conversation) -> None:
        self._pty, self._state, self._talk = pty, state, talk
        self.look = pty.look

    def needs_look(self, data: bytes) -> bool:
        """Whether the terminal's modes matter for this data. Most echoes are a letter."""
        return not self._state.is_screen and any(code in data for code in LAYOUT)

    def treat(self, data: bytes) -> bytes:
        if self._state.is_screen:
            return data
        if self._pty.still_ends_lines():
            return data.replace(b"\r\n", b"\n")
        self._state.is_screen = True
        self._talk.put(tags.SCREEN)
        return data


class JobStdio:
    """Made before the command; `hear` takes what the origin sends for it."""

    def __init__(
        self,
        request: lbm_pb2.RunRequest,
        talk: Conversation,
        threads: Threads,
        share: AShare,
    ) -> None:
        """`threads`: those of the command's user; `share`: for the window of its input."""
        self._threads = threads
        self._share = share
        self._request = request
        self._talk = talk
        self._stdin: Sink | None = None
        self._outputs: dict[int, Source] = {}
        self._state = StdioState()
        self._looking: asyncio.Task[None] | None = None
        self._judging: asyncio.Task[None] | None = None
        self._catching_up: asyncio.Task[None] | None = None
        self._leader = 0
        self.childs: list[int] = []
        self.pty: Pty | None = None

    def make(self) -> None:
        """Raises OSError, ValueError."""
        if self._request.HasField("terminal"):
            self.pty = Pty(self._request.terminal, self._threads)
        try:
            self._make()
        except BaseException:
            self.close()
            self.close_childs()
            raise
        finally:
            if self.pty is not None:  # descriptors in use were duplicated
                os.close(self.pty.slave)

    def _make(self) -> None:
        """Makes `_stdin` and `_outputs`, our ends, and `childs`, the command's."""
        closed, apart = self._request.closed_fds, self._request.terminal.stderr_apart
        if not closed & 1:
            self._make_input()
        for number in (1, 2):
            if number == 2 and self._request.joined_outputs and not closed & 6:
                self.childs.append(os.dup(self.childs[-1]))
            elif self.pty is None and self._request.null_outputs & ~closed & 1 << number:
                self.childs.append(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
            elif not closed >> number & 1:
                self._make_output(number, None if number == 2 and apart else self.pty)

    def _make_input(self) -> None:
        if not self._request.wants_stdin:
            self.childs.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            return
        if self.pty is not None:
            self.childs.append(os.dup(self.pty.slave))
            ours = os.dup(self.pty.master)
        else:
            child, ours = os.pipe2(os.O_CLOEXEC)
            self.childs.append(child)
            self._state.pipe = pipe_of(child)
        self._stdin = self._sink(Descriptor(ours, self._threads, ours=True))

    def _sink(self, descriptor: Descriptor, left: SinkState | None = None) -> Sink:
        talk = self._talk
        # What is typed needs no more than the first window.
        largest_bytes = tags.WINDOW_BYTES if self.pty is None else tags.FIRST_WINDOW_BYTES
        left_bytes = left.window_bytes if left is not None else 0
        return Sink(
            descriptor,
            lambda *counts: talk.put(tags.DELIVERED, tags.delivered(0, *counts)),
            lambda: talk.put(tags.STDIN_GONE),
            Window(self._share, largest_bytes, left_bytes=left_bytes),
            of_command=self.pty is None,
            left=left,
        )

    def _make_output(self, number: int, pty: Pty | None) -> None:
        if pty is None:
            ours, child = os.pipe2(os.O_CLOEXEC)
            self.childs.append(child)
        else:
            self.childs.append(os.dup(pty.slave))
            if number == 2 and 1 in self._outputs:
                return  # both are the same
            ours = os.dup(pty.master)
        self._outputs[number] = self._source(
            number, Descriptor(ours, self._threads, ours=True), pty
        )

    def _source(
        self, number: int, descriptor: Descriptor, pty: Pty | None, left: SourceState | None = None
    ) -> Source:
        tag, talk = tags.STDOUT if number == 1 else tags.STDERR, self._talk
        if pty is not None and self._request.terminal.ends_lines:
            descriptor.filter = LineEnds(pty, self._state, talk)
        return Source(
            descriptor,
            # The end of an output may wait for the end of the command, which is usually near.
            lambda data: talk.put(tag, data, 0.0 if data else LINGER_S),
            talk.flush,
            is_full=lambda: talk.is_full,
            at_once=pty is not None,
            left=left,
        )

    def left(self) -> StdioState:
        """Like `Source.left`. Raises NotNow."""
        left = replace(
            self._state,
            stdin=self._stdin.left() if self._stdin is not None else None,
            outputs=tuple(source.left(number) for number, source in self._outputs.items()),
            pty=self.pty.left() if self.pty is not None else None,
        )
        self._caught_up()
        return left

    def restore(self, left: StdioState) -> None:
        """Restores it, in place of `make`. Raises OSError, ValueError."""
        self._state = left
        if left.pty is not None:
            self.pty = Pty.restored(left.pty, self._threads)
        if left.stdin is not None:
            descriptor = Descriptor.given(left.stdin.descriptor, self._threads, ours=True)
            self._stdin = self._sink(descriptor, left.stdin)
        for output in left.outputs:
            apart = output.number == 2 and self._request.terminal.stderr_apart
            pty, number = None if apart else self.pty, output.number
            descriptor = Descriptor.given(output.descriptor, self._threads, ours=True)
            self._outputs[number] = self._source(number, descriptor, pty, output)

    @property
    def is_untouched(self) -> bool:
        """Whether nothing has come in or gone out: then another could take its place unnoticed."""
        is_read = any(source.read_bytes for source in self._outputs.values())
        return not self._state.was_heard and not is_read

    def close_childs(self) -> None:
        """Closes our copies of the command's descriptors, once the command has its own."""
        for descriptor in self.childs:
            os.close(descriptor)
        self.childs = []

    def close(self) -> None:
        """Closes our ends, in place of `pump`."""
        for end in (self._stdin, *self._outputs.values()):
            if end is not None:
                end.close()
        if self.pty is not None:
            self.pty.close()

    def begin(self, leader: int, force: Callable[[], object], is_read: IsRead) -> None:
        """Passes input along until `stop`. `force` ends the command; `is_read`: whether a process
        of the job waits to read one of these."""
        self._leader, self._force, self._is_read = leader, force, is_read
        self._typing = self._stdin.start() if self._stdin is not None else None
        if self._state.is_behind:
            self._look_while(behind=True)

    def pump(self) -> "tuple[asyncio.Task[None], ...]":
        """Starts one task for each output."""
        return tuple(source.start() for source in self._outputs.values())

    def drain(self) -> "tuple[asyncio.Task[None], ...]":
        """Used in place of `pump`, after `writers_gone`; most outputs need no task then."""
        return tuple(source.start() for source in self._outputs.values() if not source.drain())

    def stopped(self) -> None:
        """Reports that the command has stopped, after all that it has printed."""
        for source in self._outputs.values():
            source.read_what_is_there()
        if not any(source.is_behind for source in self._outputs.values()):
            self._talk.put(tags.STOPPED)
            return
        if self._catching_up is None:
            self._catching_up = asyncio.create_task(self._catch_up())

    async def _catch_up(self) -> None:
        """Waits while `Source.run` reads what is there, then calls `_caught_up`."""
        until_s = time.monotonic() + LOOK_S
        outputs = self._outputs.values()
        while time.monotonic() < until_s and any(s.is_behind for s in outputs):  # noqa: ASYNC110
            await asyncio.sleep(LINGER_S)
        self._caught_up()

    def _caught_up(self) -> None:
        if self._catching_up is not None:
            self._catching_up = None
            self._talk.put(tags.STOPPED)

    async def input_taken_bytes(self) -> int | None:
        """How much of its input the command, which has ended, has read."""
        if self._stdin is None or self.pty is not None:
            return None
        return await self._stdin.taken_bytes()

    def writers_gone(self) -> None:
        for source in self._outputs.values():
            source.writers_gone()

    def stop(self) -> None:
        for task in (self._typing, self._looking, self._judging, self._catching_up):
            if task is not None:
                task.cancel()
        if self._stdin is not None:
            self._stdin.close(has_ended=True)
        if self.pty is not None:
            self.pty.close()

    def hear(self, tag: bytes, body: memoryview) -> None:
        """Handles a message of the origin. Raises ValueError."""
        if tag == tags.STDIN and len(body):
            self._state.was_heard = True
        if tag == tags.STDIN and self._stdin is not None:
            self._typed(self._stdin, body)
        elif tag == tags.DELIVERED:
            number, count, granted_bytes = tags.read_delivered(bytes(body))
            if number in self._outputs:
                self._outputs[number].delivered(count, granted_bytes)
        elif tag == tags.OUTPUT_GONE and len(body) == 1 and body[0] in self._outputs:
            self._outputs[body[0]].reader_gone()
            apart = body[0] == 2 and self._request.terminal.stderr_apart
            if self.pty is not None and not apart:
                self._hang_up(self.pty)
        elif tag == tags.RESIZE and self.pty is not None and self.pty.master >= 0:
            self.pty.resize(bytes(body))
        elif tag == tags.MODES and self.pty is not None and self.pty.master >= 0:
            self.pty.follow(read_modes(bytes(body)))
        elif tag == tags.GROUND and self._state.pipe is not None:
            self._look_while(bool(body and body[0]))

    def _typed(self, stdin: Sink, data: memoryview) -> None:
        pty = self.pty
        if pty is None:
            stdin.put(data)
        elif pty.master >= 0:
            if pty.typed(bytes(data), time.monotonic()) and self._judging is None:
                loop = asyncio.get_running_loop()
                self._judging = loop.create_task(self._judge(pty))
            stdin.put(data or pty.end_of_file())

    async def _judge(self, pty: Pty) -> None:
        """Forces the end if interrupts seem to have no effect. A command that takes keys one by one
        (an editor, a pager, the prompt of a shell or Python), that waits for input, or that has put
        jobs of its own in the foreground, is alive and may treat ^C as it likes."""
        await asyncio.sleep(JUDGED_AFTER_S)
        self._judging = None
        takes_lines = pty.master >= 0 and await pty.looked() and pty.hands_lines_on(self._leader)
        if takes_lines and not await self._is_read(pty.devices):
            self._force()

    def _hang_up(self, pty: Pty) -> None:
        """Closes the terminal, because nobody sees it any more: it vanishes like the caller's."""
        if self._typing is not None:
            self._typing.cancel()
        pty.close()

    def _look_while(self, behind: bool) -> None:
        """Looks for readers: a caller behind its terminal reads it for us only if somebody here
        wants to read."""
        self._state.is_behind = behind
        if behind and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        pipe = self._state.pipe
        while self._state.is_behind and pipe is not None:
            if await self._is_read({pipe}):
                self._talk.put(tags.WANTED)
                return
            await asyncio.sleep(LOOK_S)
