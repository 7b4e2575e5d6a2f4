"""A foreign job's standard input, output and error, the command's end and ours: pipes or a pty."""

import asyncio
import os
import time
from collections.abc import Callable

from lbd.lbm.bundle import Bundle, Given
from lbd.lbm.conversation import Conversation
from lbd.lbm.descriptor import Descriptor
from lbd.lbm.modes import read_modes
from lbd.lbm.readers import IsRead, pipe_of
from lbd.lbm.streams import Sink, Source
from lbd.lbm.terminal import Pty
from lbd.rpc import job_stream as tags
from lbd.rpc.gen import lbm_pb2
from lbd.rpc.gen.handover_pb2 import HeldEnds

LINGER_S = 0.002  # the end of an output waits that long for the end of the command
JUDGED_AFTER_S = 0.5  # from the second interrupt: time to react even on a busy host
LOOK_S = 0.25  # between two looks whether a command behind its terminal reads it


class JobEnds:
    """Made before the command; `hear` takes what the origin sends for them."""

    def __init__(self, request: lbm_pb2.RunRequest, talk: Conversation, chunk_bytes: int) -> None:
        self._request = request
        self._talk = talk
        self._chunk_bytes = chunk_bytes
        self._stdin: Sink | None = None
        self._outputs: dict[int, Source] = {}
        self._input: tuple[int, int] | None = None
        self._behind = False
        self._looking: asyncio.Task[None] | None = None
        self._judging: asyncio.Task[None] | None = None
        self._leader = 0
        self._screen = False
        self._heard = False
        self.childs: list[int] = []
        self.pty: Pty | None = None

    def make(self) -> None:
        """Raises OSError, ValueError."""
        if self._request.HasField("terminal"):
            self.pty = Pty(self._request.terminal)
        try:
            self._make()
        except BaseException:
            self.close()
            self.close_childs()
            raise
        finally:
            if self.pty is not None:  # what is in use was duplicated
                os.close(self.pty.slave)

    def _make(self) -> None:
        """Our ends become `_stdin` and `_outputs`, the command's go to `childs`."""
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
            self._input = pipe_of(child)
        self._stdin = self._sink(Descriptor(ours))

    def _sink(self, descriptor: Descriptor) -> Sink:
        return Sink(
            descriptor,
            lambda count: self._talk.put(tags.DELIVERED, tags.delivered(0, count)),
            lambda: self._talk.put(tags.STDIN_GONE),
            of_command=self.pty is None,
        )

    def _make_output(self, number: int, pty: Pty | None) -> None:
        if pty is None:
            ours, child = os.pipe2(os.O_CLOEXEC)
            self.childs.append(child)
        else:
            self.childs.append(os.dup(pty.slave))
            if number == 2 and 1 in self._outputs:
                return  # both are one and the same
            ours = os.dup(pty.master)
        self._outputs[number] = self._source(number, Descriptor(ours), pty)

    def _source(self, number: int, descriptor: Descriptor, pty: Pty | None) -> Source:
        tag = tags.STDOUT if number == 1 else tags.STDERR
        window_bytes = tags.WINDOW_BYTES if pty is None else tags.SCREEN_BYTES
        if pty is not None and self._request.terminal.ends_lines:
            descriptor.treat = lambda data: self._treat(pty, data)
        return Source(
            descriptor,
            # The end of an output may wait for the end of the command, which is near as a rule.
            lambda data: self._talk.put(tag, data, 0.0 if data else LINGER_S),
            self._talk.flush,
            window_bytes,
            self._chunk_bytes,
            at_once=pty is not None,
        )

    def _treat(self, pty: Pty, data: bytes) -> bytes:
        """Output as it would be without the far terminal's line ends: the caller's makes them.

        So ours need not be told to leave output alone, and what others of its programs print
        meanwhile looks as ever. An editor that takes the screen does not want that: then it is.
        """
        if self._screen:
            return data
        if pty.still_ends_lines():
            return data.replace(b"\r\n", b"\n")
        self._screen = True
        self._talk.put(tags.SCREEN)
        return data

    def save(self, bundle: Bundle) -> HeldEnds:
        """As that of a `Source`. Raises NotNow."""
        device, inode = self._input or (0, 0)
        return HeldEnds(
            input=self._stdin.save(bundle) if self._stdin is not None else None,
            outputs=[source.save(bundle, number) for number, source in self._outputs.items()],
            pty=self.pty.save(bundle) if self.pty is not None and self.pty.master >= 0 else None,
            screen=self._screen,
            behind=self._behind,
            input_device=device,
            input_inode=inode,
        )

    def restore(self, held: HeldEnds, given: Given) -> None:
        """In place of `make`. Raises OSError, ValueError, KeyError."""
        if held.HasField("pty"):
            self.pty = Pty.restored(held.pty, given.take(held.pty.master))
        if held.HasField("input"):
            sink = self._sink(Descriptor.given(given, held.input.descriptor))
            self._stdin = sink.restore(held.input)
        for output in held.outputs:
            apart = output.number == 2 and self._request.terminal.stderr_apart
            descriptor = Descriptor.given(given, output.descriptor)
            source = self._source(output.number, descriptor, None if apart else self.pty)
            self._outputs[output.number] = source.restore(output)
        self._screen = held.screen
        self._behind = held.behind
        if held.input_inode:
            self._input = held.input_device, held.input_inode

    @property
    def is_untouched(self) -> bool:
        """Has nothing come in or gone out? Then another could take its place unnoticed."""
        return not self._heard and not any(s.read_bytes for s in self._outputs.values())

    def close_childs(self) -> None:
        """The command has its own by now."""
        for descriptor in self.childs:
            os.close(descriptor)
        self.childs = []

    def close(self) -> None:
        """In place of `pump`."""
        for end in (self._stdin, *self._outputs.values()):
            if end is not None:
                end.close()
        if self.pty is not None:
            self.pty.close()

    def pump(
        self, leader: int, force: Callable[[], object], is_read: IsRead
    ) -> "tuple[asyncio.Task[None], ...]":
        """One task for each output; input goes along until `stop`. `force` ends the command;
        `is_read`: whether one in the job waits to read one of these."""
        self._leader, self._force, self._is_read = leader, force, is_read
        self._typing = self._stdin.start() if self._stdin is not None else None
        if self._behind:
            self._look_while(behind=True)
        return tuple(source.start() for source in self._outputs.values())

    def stopped(self) -> None:
        """The command has: tell it, after all that it has printed."""
        for source in self._outputs.values():
            source.read_what_is_there()
        self._talk.put(tags.STOPPED)

    def input_taken_bytes(self) -> int | None:
        """How much of what came for it the command, which has ended, has read."""
        if self._stdin is None or self.pty is not None:
            return None
        return self._stdin.taken_bytes()

    def writers_gone(self) -> None:
        for source in self._outputs.values():
            source.writers_gone()

    def stop(self) -> None:
        for task in (self._typing, self._looking, self._judging):
            if task is not None:
                task.cancel()
        if self._stdin is not None:
            self._stdin.close()
        if self.pty is not None:
            self.pty.close()

    def hear(self, tag: bytes, body: memoryview) -> None:
        """What the origin sent. Raises ValueError."""
        self._heard = self._heard or (tag == tags.STDIN and len(body) > 0)
        if tag == tags.STDIN and self._stdin is not None:
            self._typed(self._stdin, body)
        elif tag == tags.DELIVERED:
            number, count = tags.read_delivered(bytes(body))
            if number in self._outputs:
                self._outputs[number].delivered(count)
        elif tag == tags.OUTPUT_GONE and len(body) == 1 and body[0] in self._outputs:
            self._outputs[body[0]].reader_gone()
            apart = body[0] == 2 and self._request.terminal.stderr_apart
            if self.pty is not None and not apart:
                self._hang_up(self.pty)
        elif tag == tags.RESIZE and self.pty is not None and self.pty.master >= 0:
            self.pty.resize(bytes(body))
        elif tag == tags.MODES and self.pty is not None and self.pty.master >= 0:
            self.pty.follow(read_modes(bytes(body)))
        elif tag == tags.GROUND and self._input is not None:
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
        """Whether interrupts seem to have no effect. A command that takes keys one by one (an
        editor, a pager, the prompt of a shell or Python), that waits for input, or that has put
        jobs of its own in front, is alive and does with ^C what it likes, as often as it comes."""
        await asyncio.sleep(JUDGED_AFTER_S)
        self._judging = None
        takes_lines = pty.master >= 0 and pty.hands_lines_on(self._leader)
        if takes_lines and not await self._is_read(pty.devices):
            self._force()

    def _hang_up(self, pty: Pty) -> None:
        """Nobody sees the terminal any more: it vanishes, as the caller's has."""
        if self._typing is not None:
            self._typing.cancel()
        pty.close()

    def _look_while(self, behind: bool) -> None:
        """A caller behind its terminal reads it for us only if somebody here wants to read."""
        self._behind = behind
        if behind and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        assert self._input is not None
        while self._behind:
            if await self._is_read({self._input}):
                self._talk.put(tags.WANTED)
                return
            await asyncio.sleep(LOOK_S)
