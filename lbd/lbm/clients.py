"""lbm.sock: the local users' side. Raw sockets, because descriptors come along (SCM_RIGHTS)."""

import asyncio
import contextlib
import json
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lbd.errors import PeerError, Unavailable
from lbd.lbm.account_cache import NAMES, user_name
from lbd.lbm.bundle import Bundle
from lbd.lbm.caller import PeerProcess, wait_for_process
from lbd.lbm.client import CommandEnd, Ends
from lbd.lbm.descriptor import settle
from lbd.lbm.home import Home
from lbd.lbm.local_cpu import LocalCpu
from lbd.lbm.origin import Command
from lbd.lbm.queued import read_queued, serve_queued
from lbd.lbm.request import ClientRequest, read_request, read_used
from lbd.lbm.staging import Pipes
from lbd.lbm.terminal import CallersTerminal
from lbd.model import HostId, JobId
from lbd.one_line import one_line
from lbd.rates import turns_of
from lbd.rpc import client_tags as tags
from lbd.rpc import frames
from lbd.rpc import job_stream as stream
from lbd.rpc.client_frames import ClientFrames, Share
from lbd.rpc.gen.handover_pb2 import HeldClient
from lbd.rpc.local import Caller, Json, caller_of, decode, reply_to
from lbd.rpc.long_answers import encode

FIRST_FRAME_S, FOR_EVER_S = 10.0, float("inf")
IDLE_QUESTIONER_S = 60.0
TAKEN_AFTER_S = 0.3
RESTORED_WITHIN_S = 1.0  # after its end, by a client that is not stopped
LISTEN_AFTER_S = 0.005  # most commands that are over sooner have nothing to say
LONG = tags.RUN + tags.QUEUE + tags.LOCAL  # what holds a command, and that only once
MANY_BYTES = 1 << 16  # to be read beside the event loop
# What goes to the other host as it is, and by what name.
PASSED_ON = {
    tags.FORCE: stream.FORCE, tags.RESIZE: stream.RESIZE, tags.SET_MODES: stream.MODES,
    tags.GROUND: stream.GROUND,
}  # fmt: skip
NOTICES = {
    stream.STOPPED: tags.STOPPED, stream.WANTED: tags.WANTED, stream.SCREEN: tags.SCREEN
}  # fmt: skip
Read = TypeVar("Read")
JsonHandler = Callable[[Json, Caller], Awaitable[Json]]


class Connection:
    """One client: a command (`lbrun`) or questions (`lbctl`)."""

    def __init__(self, sock: socket.socket, home: Home, answer: JsonHandler) -> None:
        self._socket = sock
        self._home = home
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self.command: Command | None = None
        self._asked_to_tell = False
        self._types = False
        self._taken = False
        self.caller = caller_of(sock)
        self._threads = home.threads.of(self.caller.uid)
        self.pipes = Pipes(self._send, self._threads)
        self._told_end = False
        self._restored = False
        self._terminal: CallersTerminal | None = None
        self._run_body = b""  # the request as it came
        self._early: list[tuple[bytes, bytes]] = []  # before the request
        self._unheard: list[tuple[bytes, bytes]] = []
        self._is_answering = False
        self._asked_for_ends = False
        self._to_listen: asyncio.Future[None] = self._loop.create_future()
        self._stays = False  # the client is the command
        self._ends: asyncio.Future[Ends] = self._loop.create_future()
        self._ready = asyncio.Event()
        self.peer = PeerProcess(sock, self.caller)
        lbm, share = home.config.lbm, Share(home.long_requests, self.caller.uid)
        split = frames.Splitter(lbm.max_question_bytes, LONG, lbm.max_request_bytes)
        self._frames = ClientFrames(sock, split, share, lbm.max_question_bytes, self._threads)

    async def serve(self) -> None:
        """Until the client is gone, or has become its command and that has ended."""
        try:
            await NAMES.learn(self.caller.uid)
            async with asyncio.timeout(FIRST_FRAME_S):
                first = await self._read()
                self._early = early = [frame for frame in first if frame[0] == tags.SIGNAL]
                while first and first[0][0] == tags.SIGNAL:  # it came as the request was sent
                    first = [f for f in first if f[0] != tags.SIGNAL] or await self._read()
            self._frames.split.long = b""
            if first and first[0][0] in (tags.RUN, tags.LOCAL):
                self._unheard = first  # by then: for the LBM that may follow us
                await self._turn(first[0][1])
                request = await self._read_long(read_request, first[0][1])
                self._unheard = []
            if first and first[0][0] == tags.RUN:
                self._run_body, self._unheard = first[0][1], [*early, *first[1:]]
                await self._serve_command(request)
            elif first and first[0][0] == tags.QUEUE:
                self._is_answering = True
                if self._hung_up():  # while we were stopped: it has been told that it failed
                    return
                await self._turn(first[0][1])
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
        except frames.TooLong as problem:
            if problem.tag == frames.JSON:
                refusal: Json = {"ok": False, "error": f"too long a question: {problem}"}
                self._send(frames.JSON, json.dumps(refusal).encode())
            else:
                self._send(tags.UNFIT, f"the lbm cannot take this request: {problem}".encode())
        except (ValueError, PeerError) as problem:
            self._send(tags.UNFIT, f"the lbm cannot take this request: {problem}".encode())
        except (TimeoutError, OSError):
            pass
        finally:
            self.close()

    def close(self) -> None:
        self._close_descriptors()
        self.peer.close()

    async def _read(self) -> list[tuple[bytes, bytes]]:
        """The next whole frames; none at the end of the connection. Raises ValueError, OSError."""
        if self._unheard:
            again, self._unheard = self._unheard, []
            return again
        return await self._frames.read()

    async def _read_long(self, read: Callable[[bytes], Read], body: bytes) -> Read:
        """What a request says; it holds up nobody else. Raises ValueError."""
        return read(body) if len(body) <= MANY_BYTES else await asyncio.to_thread(read, body)

    async def _turn(self, body: bytes) -> None:
        """Before it is looked into. Who asks faster than a user may is answered later."""
        turns = turns_of(len(body))
        wait_s = self._home.rates.turn_s(self.caller.uid, time.monotonic(), FOR_EVER_S, turns)
        if wait_s:
            self._send(tags.TAKEN)
            await asyncio.sleep(wait_s)

    async def _serve_json(self, received: list[tuple[bytes, bytes]]) -> None:
        while received:
            self._is_answering = True
            for frame in received:
                await self._turn(frame[1])
                question = decode(*frame)
                uid, operation = self.caller.uid, str(question.get("op"))
                async with self._home.long_answers.turn(uid, operation):
                    reply = await reply_to(question, self._answer(question, self.caller))
                    if "id" in question:
                        message = await encode({"id": question["id"], **reply})
                        async with asyncio.timeout(FIRST_FRAME_S):
                            await self._loop.sock_sendall(self._socket, message)
            self._is_answering = False
            async with asyncio.timeout(IDLE_QUESTIONER_S):
                received = await self._read()

    async def _serve_command(self, request: ClientRequest) -> None:
        self._know(request)
        uid = self.caller.uid
        self.command = Command(self._home, self, request, user_name(uid), uid)
        if self._hung_up():  # while we were stopped: it has gone its own way
            return
        await self._attend(self.command)

    def _know(self, request: ClientRequest) -> None:
        self._asked_to_tell = request.has(tags.FLAG_TELL)
        self._types = request.has(tags.FLAG_TERMINAL_INPUT)
        self._request = request

    async def _attend(self, command: Command) -> None:
        taken = self._loop.call_later(TAKEN_AFTER_S, self._send, tags.TAKEN)
        listen = self._loop.call_later(LISTEN_AFTER_S, settle, self._to_listen)
        running, listening = asyncio.create_task(command.run()), None
        try:
            await asyncio.wait((running, self._to_listen), return_when=asyncio.FIRST_COMPLETED)
            if not running.done() or command.stayed.measured:
                listening = asyncio.create_task(self._listen(command))
                await asyncio.wait((running, listening), return_when=asyncio.FIRST_COMPLETED)
            if running.done() and running.result():
                await self._see_out(command, listening if command.stayed.measured else None)
        finally:
            taken.cancel()
            listen.cancel()
            for task in filter(None, (running, listening)):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, OSError, ValueError):
                    await task
            if self._terminal is not None:
                self._terminal.close(restore=not await self._has_restored())

    async def _has_restored(self) -> bool:
        """Its terminal, at the end. One that is killed has not; one that is stopped will yet."""
        if not self._told_end:
            return False
        try:
            async with asyncio.timeout(RESTORED_WITHIN_S):
                while not self._restored and (received := await self._read()):
                    self._restored = any(tag == tags.RESTORED for tag, _ in received)
        except TimeoutError:
            return True
        except (OSError, ValueError):
            return False
        return self._restored

    def _hung_up(self) -> bool:
        try:
            return self._socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False

    async def _see_out(self, command: Command, until: "asyncio.Task[None] | None" = None) -> None:
        """The client is the command now: wait for its end, without being its parent.

        Or it stays beside the command to measure it, and speaks `until` it ends.
        """
        job = command.job
        pid = self.caller.pid or None
        self._home.notes.started(
            job.id, {"host": job.host, "pid": pid, "foreign": False, "cgroup": None}
        )
        cpu = LocalCpu(self.caller.pid, time.time() - (job.started or time.time()))
        try:
            if until is not None:
                await asyncio.wait((until,))
            if self.peer.pidfd is not None and not command.stayed.told:
                await wait_for_process(self.peer.pidfd)
        finally:
            command.ended_here(cpu.ended())

    async def _note_local(self, request: ClientRequest) -> None:
        uid = self.caller.uid
        self.command = command = Command(self._home, self, request, user_name(uid), uid)
        self._home.jobs.add(command.job)
        command.job.pinned = True
        command.job.start(HostId(self._home.config.host.name), "asked-to-stay", time.time())
        self.here(command.job.id, command.job.reason)
        await self._see_out(command)

    async def _listen(self, command: Command) -> None:
        """What the client sends while its command runs elsewhere; returns when it is gone."""
        while True:
            received, self._unheard = self._unheard, []
            for tag, body in received:
                self._hear(command, tag, body)
            await command.flush()
            if not (received := await self._read()):
                return
            self._unheard = received

    def _hear(self, command: Command, tag: bytes, body: bytes) -> None:
        """Raises ValueError."""
        if tag == tags.SIGNAL and len(body) == 1 and 0 < body[0] < signal.NSIG:
            command.signal(body[0])
        elif tag in PASSED_ON:
            command.tell(PASSED_ON[tag], body)
            if tag == tags.SET_MODES and self._terminal is not None:
                self._terminal.follow(body)
        elif tag == tags.DESCRIPTORS and not self._ends.done():
            self._have_ends(self._request)
        elif tag == tags.READY:
            self._ready.set()
        elif tag == tags.PIPE and self._frames.descriptors:
            self.pipes.came(self._frames.descriptors.pop())
        elif tag == tags.STAGED:
            self.pipes.ended(body.decode(errors="replace"))
        elif tag == tags.INPUT:
            command.typed(body)
        elif tag == tags.RESTORED:
            self._restored = True
        elif tag == tags.USED:
            command.stayed.used(*read_used(body))

    def _have_ends(self, request: ClientRequest) -> None:
        """Raises ValueError."""
        ends = self._take_ends(request)
        if complaint := ends.why_not():
            ends.close(self._threads)
            self._ends.set_exception(Unavailable(complaint))
        else:
            self._ends.set_result(ends)

    def _take_ends(self, request: ClientRequest) -> Ends:
        """The descriptors that came along, by number. Raises ValueError if some are missing."""
        numbers = [n for n in (0, 1, 2) if not request.closed_fds >> n & 1]
        if len(numbers) != len(given := self._frames.descriptors):
            raise ValueError(f"{len(given)} descriptors came, not {len(numbers)}")
        by_number = dict(zip(numbers, given, strict=True))
        self._frames.descriptors = []
        stdin = by_number.get(0)
        if stdin is not None and request.has(tags.FLAG_TERMINAL_INPUT):
            self._terminal, stdin = CallersTerminal(stdin, request.modes, self._threads), None
        elif stdin is not None and request.has(tags.FLAG_NO_STDIN):
            self._threads.close(stdin)
            stdin = None
        stderr = by_number.get(2)
        if stderr is not None and request.has(tags.FLAG_JOINED):
            self._threads.close(stderr)  # all comes as standard output
            stderr = None
        return Ends(stdin, by_number.get(1), stderr)

    def _close_descriptors(self) -> None:
        """Those that nobody has taken."""
        self.pipes.close()
        left: list[int] = []
        self._frames.close()
        if (ends := self._ends_at_hand()) is not None:
            left += [fd for fd in (ends.stdin, ends.stdout, ends.stderr) if fd is not None]
        for descriptor in left:
            self._threads.close(descriptor)

    def _ends_at_hand(self) -> Ends | None:
        """Those that have come, and nobody has taken."""
        future = self._ends
        if self._taken or not future.done() or future.cancelled() or future.exception():
            return None
        return future.result()

    def _save_ends(self, held: HeldClient, bundle: Bundle) -> None:
        held.asked_for_ends, held.ready = self._asked_for_ends, self._ready.is_set()
        if self._terminal is not None:
            held.terminal, held.modes = self._terminal.save(bundle)
        if (ends := self._ends_at_hand()) is not None:
            held.has_ends = True
            for number in (ends.stdin, ends.stdout, ends.stderr):
                held.ends.append(bundle.add(-1 if number is None else number))

    # client.Client

    def here(self, job: JobId, reason: str, slots: int = 0, *, measure: bool = False) -> None:
        self._stays = True
        pairs = [(tags.JOB, job), (tags.HOST, self._home.config.host.name), (tags.REASON, reason)]
        pairs += [(tags.MEASURE, "1")] if measure else []
        pairs += [(tags.SLOTS, str(slots))] if slots else []
        self._send(tags.HERE, frames.pack_fields((k, v.encode()) for k, v in pairs))

    def away(self) -> None:
        self._told_end = True
        self._send(tags.AWAY)

    async def descriptors(self) -> Ends:
        """Asked for once; to be closed by who takes them."""
        settle(self._to_listen)
        if complaint := self._threads.why_stuck():
            raise Unavailable(complaint)
        if not self._asked_for_ends:
            self._asked_for_ends = True
            self._send(tags.GIVE)
        async with asyncio.timeout(FIRST_FRAME_S):
            ends = await asyncio.shield(self._ends)
            if self._terminal is not None:
                await self._ready.wait()
        self._taken = True
        return ends

    def placed(self, job: JobId, host: str, reason: str) -> None:
        if self._asked_to_tell:
            pairs = (tags.JOB, job), (tags.HOST, host), (tags.REASON, reason)
            self._send(tags.PLACED, frames.pack_fields((k, v.encode()) for k, v in pairs))

    def warn(self, text: str) -> None:
        self._send(tags.WARN, one_line(text).encode())

    def input_taken(self) -> None:
        if self._types:
            self._send(tags.INPUT_TAKEN)

    def notice(self, tag: bytes) -> None:
        if tag == stream.SCREEN and self._terminal is not None:
            self._terminal.leave_output_alone()
        self._send(NOTICES[tag])

    def done(self, end: CommandEnd) -> None:
        self._told_end = True
        self._send(tags.DONE, end.pack())

    def _send(self, tag: bytes, body: bytes = b"") -> None:
        """These frames are few and small: a client whose buffer they fill is not reading."""
        with contextlib.suppress(OSError):
            self._socket.send(frames.pack(tag, body))
