"""lbm.sock: the local users' side. Raw sockets, because descriptors come along (SCM_RIGHTS)."""

import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from lbd.errors import PeerError
from lbd.lbm.core.journey import JourneyPhase
from lbd.lbm.core.journey_events import CommandEnd
from lbd.lbm.core.slots import NOTHING, Grant
from lbd.lbm.handover.codec import Fd
from lbd.lbm.handover.fds import NotNow
from lbd.lbm.handover.records import ClientState
from lbd.lbm.link import wire as stream
from lbd.lbm.link.user_threads import StdFds
from lbd.lbm.outbound.command import Command
from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.outbound.remote_command import Talks
from lbd.lbm.owner.accounts import NAMES, user_name
from lbd.lbm.queue.submit import read_queued, serve_queued
from lbd.lbm.session.client import Attending, CallerStdio, Pipes, pack_end, pack_place
from lbd.lbm.session.local_cpu import LocalCpu
from lbd.lbm.session.peer_process import PeerProcess
from lbd.lbm.session.request import (
    LONG,
    REPORTS,
    ClientRequest,
    complaint,
    read_request,
    turns_of_request,
)
from lbd.lbm.session.socket_question import JsonHandler, SocketQuestion
from lbd.local import client_tags as tags
from lbd.local import frames
from lbd.local.budget import Share
from lbd.local.caller import caller_of
from lbd.local.client_frames import ClientFrames, latest
from lbd.local.json_socket import Json, decode
from lbd.model import JobId
from lbd.text.one_line import one_line

FIRST_FRAME_S, FOR_EVER_S = 10.0, float("inf")
IDLE_QUESTIONER_S = 60.0
RESTORED_WITHIN_S = 1.0  # after its end, by a client that is not stopped
MANY_BYTES = 1 << 14  # longer requests are read outside the event loop
# Messages passed on to the other host unchanged, with their tags there.
PASSED_ON = {
    tags.FORCE: stream.FORCE, tags.RESIZE: stream.RESIZE, tags.SET_MODES: stream.MODES,
    tags.GROUND: stream.GROUND,
}  # fmt: skip
NOTICES = {stream.STOPPED: tags.STOPPED, stream.WANTED: tags.WANTED, stream.SCREEN: tags.SCREEN}
Read = TypeVar("Read")


class Connection:
    """One client: a command (`lbrun`) or questions (`lbctl`)."""

    def __init__(self, sock: socket.socket, home: OutboundContext, answer: JsonHandler) -> None:
        self._socket = sock
        self._home = home
        self._answer = answer
        self.command: Command | None = None
        self._asked_to_report = False
        self._types = False
        self.caller = caller_of(sock)
        self._threads = home.threads.of(self.caller.uid)
        lbm, share = home.config.lbm, Share(home.long_requests, self.caller.person)
        split = frames.Splitter(lbm.max_question_bytes, LONG, lbm.max_request_bytes)
        self._frames = ClientFrames(sock, split, share, lbm.max_question_bytes, self._threads)
        self.pipes = Pipes(self._frames.send, self._threads)
        self._sent_end = False
        self._restored = False
        self.stdio = CallerStdio(
            self._threads, self.caller.uid, partial(self._frames.send, tags.GIVE)
        )
        self._run_body = b""  # the request as received
        self._early: list[tuple[bytes, bytes]] = []  # frames before the request
        self._unheard: list[tuple[bytes, bytes]] = []
        self._is_answering = False
        self._attending: Attending | None = None
        self._stays = False  # the client is the command
        self.peer = PeerProcess(sock, self.caller)

    async def serve(self) -> None:
        """Serves the client until it is gone, or has become its command and that has ended."""
        try:
            first, early, self._frames.split.long = await self._first(), self._early, b""
            if first and first[0][0] in (tags.RUN, tags.LOCAL):
                self._unheard = first  # kept for an LBM that may follow us
                await self._turn(first[0][1])
                request = await self._read_long(read_request, first[0][1])
                self._unheard = []
            if first and first[0][0] == tags.RUN:
                self._run_body, self._unheard = first[0][1], [*early, *first[1:]]
                await self._serve_command(request)
            elif first and first[0][0] == tags.QUEUE:
                self._is_answering = True
                await self._turn(first[0][1])
                if has_hung_up(
                    self._socket
                ):  # or while we were stopped: the client was told that it failed
                    return
                asked = await self._read_long(read_queued, first[0][1])
                ends, more = (self._socket, self._read), [*early, *first[1:]]
                client, first = (self.caller, self.peer), []
                taken = self._frames.share.give_back
                await serve_queued(self._home, client, ends, asked, more, taken)
            elif first and first[0][0] == tags.LOCAL:
                self._run_body = first[0][1]
                await self._note_local(request)
            else:
                await self._serve_json(first)
        except (ValueError, PeerError) as problem:
            most_input_bytes = self._home.config.dispatch.max_input_bytes
            self._frames.send(*complaint(problem, most_input_bytes))
        except (TimeoutError, OSError):
            pass
        finally:
            self.close()

    async def _first(self) -> list[tuple[bytes, bytes]]:
        """The request, usually here already. Raises ValueError, OSError, TimeoutError."""
        first, self._unheard = self._unheard or self._frames.at_hand(), []
        if first and first[0][0] != tags.SIGNAL:
            return first
        async with asyncio.timeout(FIRST_FRAME_S):
            first = first or await self._read()
            self._early = [frame for frame in first if frame[0] == tags.SIGNAL]
            while first and first[0][0] == tags.SIGNAL:  # signalled while the request was sent
                first = [f for f in first if f[0] != tags.SIGNAL] or await self._read()
        return first

    def close(self) -> None:
        """Also lets go of what refers to it, so that all of it is freed at once: cycles are
        collected only after very many commands, and that takes a while."""
        self.pipes.close()
        self._frames.close()
        self.stdio.close()
        self.peer.close()
        self.command = self._attending = None

    async def _read(self) -> list[tuple[bytes, bytes]]:
        """The next whole frames; none at the end of the connection. Raises ValueError, OSError."""
        again, self._unheard = self._unheard, []
        return again or await self._frames.read()

    async def _read_long(self, read: Callable[[bytes], Read], body: bytes) -> Read:
        """Reads a request without blocking other clients. Raises ValueError."""
        return read(body) if len(body) <= MANY_BYTES else await asyncio.to_thread(read, body)

    async def _turn(self, body: bytes, *, tells: bool = True) -> None:
        """Waits before a request is read, if its user asks faster than allowed. `tells`: its client
        expects to be told that this takes a while."""
        turns = turns_of_request(body)
        wait_s = self._home.rates.turn_s(self.caller.person, time.monotonic(), FOR_EVER_S, turns)
        if wait_s:
            if tells:
                self._frames.send(tags.TAKEN)
            await asyncio.sleep(wait_s)
        await NAMES.learn(self.caller.uid)

    async def _serve_json(self, received: list[tuple[bytes, bytes]]) -> None:
        while received:
            self._is_answering = True
            for frame in received:
                await self._turn(frame[1], tells=False)
                asked = SocketQuestion(decode(*frame), self.caller, self._socket)
                if not await asked.is_answered(self._answer, self._home.long_answers, self._gone):
                    return
            self._is_answering = False
            async with asyncio.timeout(IDLE_QUESTIONER_S):
                received = await self._read()

    async def _gone(self) -> None:
        """Returns once the client has hung up. What it asks before is kept for its turn."""
        self._unheard = await self._read()
        if self._unheard:
            await asyncio.get_running_loop().create_future()

    async def _serve_command(self, request: ClientRequest) -> None:
        self.command = command = self._new_command(request)
        if not has_hung_up(self._socket):  # while we were stopped: then it runs without us
            await self._attend(command)

    def _new_command(self, request: ClientRequest) -> Command:
        self._asked_to_report = request.has(tags.FLAG_TELL)
        self._types = request.has(tags.FLAG_TERMINAL_INPUT)
        self._request, uid = request, self.caller.uid
        return Command(self._home, self, request, user_name(uid), uid)

    async def _attend(self, command: Command) -> None:
        listen, taken = partial(self._listen, command), partial(self._frames.send, tags.TAKEN)
        self._attending = attending = Attending(listen, taken)
        try:
            if await attending.run(command.run()):
                beside = attending.listen() if command.journey.stay.is_measured else None
                await self._see_out(command, beside)
        finally:
            await attending.end()
            if command.journey.phase is JourneyPhase.HERE:  # the client disconnected at that moment
                command.ended_here()
            if (terminal := self.stdio.terminal) is not None:
                terminal.close(restore=not await self._has_restored())

    async def _has_restored(self) -> bool:
        """Whether it has restored its terminal. If killed it has not; if stopped it will."""
        if not self._sent_end:
            return False
        try:
            async with asyncio.timeout(RESTORED_WITHIN_S):
                while not self._restored and (received := await self._read()):
                    self._restored = any(tag == tags.RESTORED for tag, _ in received)
        except (OSError, ValueError) as problem:
            return isinstance(problem, TimeoutError)
        return self._restored

    async def _see_out(self, command: Command, until: "asyncio.Task[None] | None" = None) -> None:
        """Waits for the end of the command that the client has become, without being its parent.

        Or the client stays beside the command to measure it, and sends messages `until` it ends.
        """
        job = command.job
        is_new = not job.pid  # otherwise an earlier LBM has looked
        self._home.staying[job.id], job.pid = self.peer, self.caller.pid
        where: Json = {"host": job.host, "pid": job.pid or None, "foreign": False}
        self._home.notes.started(job.id, {**where, "cgroup": None})
        age_s = time.time() - (job.started or time.time())
        cpu = LocalCpu(job, age_s, self._threads, is_new=is_new)
        try:
            if until is not None:
                await asyncio.wait((until,))
            if self.peer.pidfd is not None and command.journey.stay.used is None:
                await cpu.watch(self.peer.pidfd)
        finally:
            del self._home.staying[job.id]
            with contextlib.suppress(ValueError, OSError):
                for tag, body in self._frames.at_hand():
                    self._hear(command, tag, body)
            command.ended_here(cpu.ended(), cpu.status)

    async def _note_local(self, request: ClientRequest) -> None:
        self.command = command = self._new_command(request)
        if command.stay():
            await self._see_out(command)

    async def _listen(self, command: Command) -> None:
        """Handles the client's messages while its command is elsewhere, until it is gone."""
        while received := await self._read():
            for tag, body in latest(received):
                self._hear(command, tag, body)
            if command.far is not None:
                await command.far.flush()  # so no client can send faster than that

    def _hear(self, command: Command, tag: bytes, body: bytes) -> None:
        """Raises ValueError."""
        far = command.far
        if tag == tags.SIGNAL and len(body) == 1 and 0 < body[0] < signal.NSIG:
            command.signal(body[0])
        elif tag in PASSED_ON:
            if far is not None:
                far.send(PASSED_ON[tag], body)
            if tag == tags.SET_MODES and self.stdio.terminal is not None:
                self.stdio.terminal.follow(body)
        elif tag == tags.DESCRIPTORS and not self.stdio.have_come:
            self.stdio.came(self._request, self._frames.descriptors)
            self._frames.descriptors = []
        elif tag == tags.READY:
            self.stdio.is_ready()
        elif tag == tags.PIPE and self._frames.descriptors:
            self.pipes.came(self._frames.descriptors.pop())
        elif tag == tags.STAGED:
            self.pipes.ended(body.decode(errors="replace"))
        elif tag == tags.INPUT and far is not None:
            far.typed(body)
        elif tag == tags.RESTORED:
            self._restored = True
        elif tag in REPORTS:
            command.said(REPORTS[tag](body))

    # To the next LBM: what the kernel knows about the client stays with the socket

    @property
    def is_moving_files(self) -> bool:
        remote = self.command.remote if self.command is not None else None
        return remote is not None and remote.is_moving_files

    def left(self) -> ClientState | None:
        """The state for another LBM; no further step of the event loop follows. None: the client
        has its answer, or is gone. Raises NotNow."""
        command = self.command
        if self._sent_end or self._socket.fileno() < 0:
            return None
        if self._is_answering or self.is_moving_files:
            raise NotNow
        is_begun = command is not None and (self._stays or command.journey.is_irrevocable)
        again = [(tags.RUN, self._run_body)] if self._run_body and not is_begun else []
        unheard = [*again, *(self._early if command is None else ()), *self._unheard]
        if not self._stays and (is_begun or any(tag == tags.RUN for tag, _ in unheard)):
            # The next LBM may take longer to start than a client waits for a first answer.
            self._frames.send(tags.TAKEN)
        received = b"".join((*(frames.pack(*one) for one in unheard), self._frames.split.rest))
        given = tuple(map(Fd, self._frames.descriptors))
        left = ClientState(Fd(self._socket.fileno()), received, given)
        if command is not None and is_begun:
            left.request, left.command, left.stays = self._run_body, command.left(), self._stays
            left.caller = self.stdio.left()
            left.process = Fd(self.peer.pidfd if self.peer.pidfd is not None else -1)
        elif command is not None:
            command.withdraw()
        return left

    def take_up(self, left: ClientState, talks: Talks) -> None:
        """Call `go_on` after it. Raises PeerError, OSError, DecodeError, ValueError."""
        self._frames.descriptors = list(left.descriptors)
        self._unheard = self._frames.split.feed(left.received)
        if left.command is not None:
            self._run_body, self._stays = left.request, left.stays
            run = left.command.run
            self.stdio.restore(left.caller, are_taken=run is not None and run.is_following)
            self.command = self._new_command(read_request(left.request))
            self.command.take_up(left.command, talks)
        if left.process >= 0:
            self.peer.replace_pidfd(left.process)
        self._frames.share.add(len(left.received) + len(left.request))

    async def go_on(self) -> None:
        """Continues what `take_up` has restored, in place of `serve`."""
        command = self.command
        if command is None:  # its request had no effect yet: it is read again
            return await self.serve()
        try:
            if self._stays:
                self._home.jobs.add(command.job)
                await self._see_out(command)
            else:
                await self._attend(command)
        except (ValueError, PeerError, TimeoutError, OSError):
            pass
        finally:
            self.close()

    # client.Client

    def here(
        self, job: JobId, reason: str, slots: int = 0, *, measure: bool = False,
        grant: Grant = NOTHING,
    ) -> None:  # fmt: skip
        self._stays = True
        host = self._home.config.host.name
        self._frames.send(
            tags.HERE, pack_place(job, host, reason, slots, measure=measure, grant=grant)
        )

    def away(self) -> None:
        self._sent_end = True
        self._frames.send(tags.AWAY)

    async def descriptors(self, *, keep: bool) -> StdFds:
        if self._attending is not None:
            self._attending.listen()
        return await self.stdio.take(keep=keep)

    def placed(self, job: JobId, host: str, reason: str) -> None:
        if self._asked_to_report:
            pairs = (tags.JOB, job), (tags.HOST, host), (tags.REASON, reason)
            self._frames.send(tags.PLACED, frames.pack_fields((k, v.encode()) for k, v in pairs))

    def warn(self, text: str) -> None:
        self._frames.send(tags.WARN, one_line(text).encode())

    def input_taken(self) -> None:
        if self._types:
            self._frames.send(tags.INPUT_TAKEN)

    def notice(self, tag: bytes) -> None:
        if tag == stream.SCREEN and (terminal := self.stdio.terminal) is not None:
            terminal.leave_output_alone()
        self._frames.send(NOTICES[tag])

    def done(self, end: CommandEnd) -> None:
        self._sent_end = True
        self.stdio.close()
        self._frames.send(tags.DONE, pack_end(end))


def has_hung_up(sock: socket.socket) -> bool:
    """Whether the other end of a socket that does not block is closed, and all is read."""
    try:
        return sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
