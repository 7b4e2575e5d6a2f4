"""The exchange between `lbrun` and the LBM from the request to the end of the command."""

import posix
import sys
from time import monotonic

from lbd.client.complaints import Trouble, encode, say
from lbd.client.lbm_socket import is_restarting
from lbd.client.options import Options
from lbd.client.signals import give_back
from lbd.client.surroundings import Surroundings
from lbd.local import client_tags as tags
from lbd.local.frames import Splitter, fields, pack, pack_fields

TYPE_CHECKING = False  # importing typing would cost a millisecond
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Container
    from typing import Protocol

    from lbd.client.terminal import Terminal

    class Locally(Protocol):
        """What to do with a command that does not leave. Each method returns its exit status."""

        is_silent: bool  # the user did not call lbrun, so it prints nothing

        def stay(self, found: dict[bytes, str], sock: "socket") -> int: ...

        def without_lbm(self, what: str) -> int: ...


INT, STOP, TSTP, CONT = 2, 19, 20, 18
HUP, QUIT, USR1, USR2, TERM, WINCH = 1, 3, 10, 12, 15, 28
BLOCK, UNBLOCK = 0, 1
OF_COMMANDS = (HUP, INT, QUIT, USR1, USR2, TERM)  # the others are the terminal's
FORWARDED = (*OF_COMMANDS, TSTP, CONT, WINCH)
FORCE_WITHIN_S = 1.0
FORCED_S = float("inf")  # the time of an interrupt, once it has forced an end
LBM_SILENT_S = 3.0
REPLY_LIMIT_BYTES = 1 << 20
REPORTED_BYTES = 4000
MSG_NOSIGNAL = 0x4000  # a command that could not begin has restored SIGPIPE
# Waiting is done in steps: if a signal comes just before a blocking call, Python runs its handler
# only when that call returns.
POLL_S = 0.5
NEVER_S = float("-inf")
INVALID = 22
RESET = 104  # it ended and left something unread: if we sent nothing else, it was our request
ENDED = "this host's LBM has ended; nothing was run"
LOST = "lost contact with this host's LBM; the command, if it had started, has been ended"


class Session:
    """One request, up to its answer: "here", or the end of the command elsewhere."""

    def __init__(
        self,
        sock: "socket",
        options: Options,
        around: Surroundings,
        terminal: "Terminal | None",
        locally: "Locally",
    ) -> None:
        self.sock, self.options, self.around = sock, options, around
        self.terminal, self.locally = terminal, locally
        self.split = Splitter(REPLY_LIMIT_BYTES)
        self.interrupted_s = self.silent_s = 0.0
        self.early: list[bytes] | None = []  # signals received while the request is being sent
        self.sent: dict[int, None] = {}  # signals sent, in order, but for stops
        sock.settimeout(LBM_SILENT_S)
        self.begun = self.stop_asked = self.continued = False  # `begun`: elsewhere
        # Done before the request is sent: from then on signals are for the command.
        import _signal  # type: ignore[import-not-found]  # `signal` without its enums

        self.set_signal, self.set_mask = _signal.signal, _signal.pthread_sigmask
        heeded = [n for n in FORWARDED if _signal.getsignal(n) != _signal.SIG_IGN]
        self.restore = [(number, self.set_signal(number, self.forward)) for number in heeded]

    def heed_no_more(self) -> None:
        """Restores the handlers and raises the signals sent for a command that begins here."""
        give_back(self.restore)
        for number in self.sent:
            posix.kill(posix.getpid(), number)

    def ask(self, request: bytes) -> None:
        """Sends the request, with signals held back until it is complete. Raises OSError."""
        self.sock.sendall(request)
        self.sock.settimeout(POLL_S)
        early, self.early = self.early or [], None
        for message in early:
            self.sock.send(message)

    def until_done(self) -> int:
        """Returns the exit status, unless this process becomes the command."""
        try:
            return self.hear_out()
        finally:
            if self.terminal is not None:
                self.terminal.leave_raw()

    def hear_out(self) -> int:
        while True:
            if self.terminal is not None and not self.terminal.wait(self.sock):
                continue
            try:
                data = self.sock.recv(65536)
            except TimeoutError:
                self.silent_s += POLL_S
                if self.silent_s < LBM_SILENT_S or is_restarting(self.sock):
                    continue
                return self.without_answer()
            except OSError as problem:
                if problem.errno == RESET and self.silent_s >= 0.0 and not self.sent:
                    return self.without_answer(ENDED)
                data = b""
            self.silent_s = NEVER_S  # it has answered, so it may be silent from now on
            if not data:
                give_back(self.restore)  # nobody may read what is said now: then signals end us
                raise Trouble(LOST)
            for tag, body in self.split.feed(data):
                if tag == tags.HERE:
                    self.heed_no_more()
                    return self.locally.stay(read_fields(body), self.sock)
                if tag == tags.UNFIT:
                    return self.without_answer(body.decode(errors="replace"))
                if (status := self.heard(tag, body)) is not None:
                    return status

    def without_answer(self, what: str = "this host's LBM does not answer (stopped?)") -> int:
        """The LBM does not answer: hang up, so that it will not act on the request."""
        self.sock.close()
        self.heed_no_more()
        return self.locally.without_lbm(what)

    def heard(self, tag: bytes, body: bytes) -> int | None:
        """Returns the exit status if that was the end."""
        if tag == tags.WARN and not self.locally.is_silent:
            say(body.decode(errors="replace"))
        elif tag == tags.PLACED:
            if "verbose" in self.options.plain:
                say_where(self.options.command[0], read_fields(body))
        elif tag == tags.GIVE:
            self.give()
        elif tag in (tags.PACK, tags.UNPACK) and self.around.staging is not None:
            self.around.staging.heard(self.sock, tag, body)
        elif tag == tags.INPUT_TAKEN and self.terminal is not None:
            self.terminal.taken()
        elif tag == tags.STOPPED:
            self.stop()
        elif tag == tags.SCREEN and self.terminal is not None:
            self.terminal.leave_output_alone()
        elif tag == tags.WANTED and self.terminal is not None:
            self.terminal.stop_reading()
        elif tag == tags.DONE:
            return self.end(read_fields(body))
        return None

    def give(self) -> None:
        """Gives our descriptors to the command, which has begun elsewhere."""
        terminal = self.terminal
        typing = terminal is not None and terminal.typing
        # Until now a stop is for us alone, from now on for the command: none may get lost.
        self.set_mask(BLOCK, (TSTP,))
        try:
            give_descriptors(self.sock, self.around, typing)
        except OSError as problem:
            give_back(self.restore)
            raise Trouble(why_not_given(problem)) from None
        self.begun = True
        self.set_mask(UNBLOCK, (TSTP,))
        if terminal is not None:
            # From now on the LBM restores it if we are killed. No output comes before READY, so a
            # program that reacts to output finds the terminal ready.
            terminal.attach(self.send_frame, self.set_signal)
            self.send_frame(tags.READY)

    def end(self, found: dict[bytes, str]) -> int:
        terminal = self.terminal
        if terminal is not None:
            terminal.give_back()
        if self.around.copies is not None:
            self.around.copies.finish(
                self.sock, self.restore, is_forced=self.interrupted_s == FORCED_S
            )
        return end_as(found, self.options, self.sent, bool(terminal and terminal.interrupting))

    def stop(self) -> None:
        """Stops, since the command has stopped, as it would if it ran here."""
        from lbd.client.signals import stop_by

        number, with_group = (TSTP if self.stop_asked else STOP), False
        terminal = self.terminal
        if terminal is not None and terminal.attached:
            number, with_group = terminal.how_to_stop()
        self.stop_asked = self.continued = False
        stop_by(number, with_group)
        if not self.continued:  # not really stopped, so the command continues, too
            if terminal is not None and terminal.behind:
                self.forward(HUP, None)
            self.forward(CONT, None)

    def send_frame(self, tag: bytes, body: bytes = b"") -> None:
        if self.early is not None:
            self.early.append(pack(tag, body))
            return
        try:
            self.sock.sendall(pack(tag, body))
        except OSError:  # the command has ended; the pending frames say how
            pass

    def forward(self, number: int, _frame: object) -> None:
        """Passes a signal on; a second interrupt within a second kills the command."""
        if number == INT:
            now_s = monotonic()
            is_forced = now_s - self.interrupted_s < FORCE_WITHIN_S
            if is_forced:
                self.send_frame(tags.FORCE)
            self.interrupted_s = FORCED_S if is_forced else now_s
        if number != TSTP:
            self.sent[number] = None
        else:
            self.stop_asked = True  # we stop once the command has stopped
            if not self.begun:
                posix.kill(posix.getpid(), STOP)
                return
        if number == CONT:
            self.continued = True
        terminal = self.terminal
        if terminal is not None and terminal.attached:
            if number == CONT:
                terminal.come_back()
            if number == WINCH and terminal.resized():
                return
        self.send_frame(tags.SIGNAL, bytes((number,)))


def give_descriptors(sock: "socket", around: Surroundings, typing: bool) -> None:
    """Sends those of descriptors 0, 1 and 2 that are open. Raises Trouble."""
    numbers = [number for number in (0, 1, 2) if not around.closed >> number & 1]
    given = numbers
    if around.may_be_copied:
        from lbd.client.output_copies import OutputCopies

        around.copies = OutputCopies(around.closed, joined=around.joined)
        given = [around.copies.given(number) for number in numbers]
    packed = b"".join([number.to_bytes(4, sys.byteorder) for number in given])
    attached = [(1, 1, packed)] if numbers else []  # SOL_SOCKET, SCM_RIGHTS
    sock.sendmsg([pack(tags.DESCRIPTORS)], attached)
    if around.copies is not None:
        around.copies.close_given()
    # They are the command's now. Open copies here would hide from its pipes that it has closed
    # them. Only standard error stays, for messages.
    null = posix.open("/dev/null", posix.O_RDWR)
    for number in numbers:
        if number == 1 or (number == 0 and not typing):
            posix.dup2(null, number)
    posix.close(null)


def why_not_given(problem: OSError) -> str:
    """Some descriptors (io_uring) are sent to nobody by the kernel, which does not say which."""
    for number, name in enumerate(("standard input", "standard output", "standard error")):
        try:
            found = posix.readlink(f"/proc/self/fd/{number}")
        except OSError:  # closed
            continue
        if problem.errno == INVALID and found.startswith("anon_inode:"):
            return f"{name} is not a file, pipe, socket or terminal, but {found}"
    return LOST


def read_fields(body: bytes) -> dict[bytes, str]:
    return {key: value.decode(errors="replace") for key, value in fields(body)}


def report_not_run(sock: "socket | None", status: int, why: str) -> None:
    """Tells the LBM, which would take our end for the command's."""
    pairs = (tags.STATUS, b"%d" % status), (tags.REASON, encode(why)[:REPORTED_BYTES])
    try:
        if sock is not None:
            sock.sendall(pack(tags.NOT_RUN, pack_fields(pairs)), MSG_NOSIGNAL)
    except OSError:  # it has gone, or is stopped
        pass


def end_as(
    found: dict[bytes, str], options: Options, sent: "Container[int]" = (), typed: bool = False
) -> int:
    """Returns the exit status, unless a signal ended the command: then it ends us, too. `sent`: the
    signals passed on to the command; `typed`: the fatal one came from our terminal."""
    if found[tags.REASON]:
        say(found[tags.REASON])
    if "status_file" in options.values:
        from lbd.client.status_file import write_status

        write_status(options.values["status_file"], found)
    status, number = int(found[tags.STATUS]), int(found[tags.SIGNAL_NUMBER] or 0)
    if number and status == 128 + number:
        from lbd.client.signals import die_of

        die_of(number, typed)
    for number in unheard(found, sent):
        from lbd.client.signals import die_of

        die_of(number)
    return status


def unheard(found: dict[bytes, str], sent: "Container[int]") -> list[int]:
    """Returns a ^C that the command did not receive because it was ending already, for example at
    the end of its input, whose writer died of the same ^C."""
    if tags.HEARD not in found:
        return []
    heard = int(found[tags.HEARD])
    return [number for number in (INT, QUIT) if number in sent and not heard >> number & 1]


def say_where(program: str, found: dict[bytes, str]) -> None:
    say(f"{program} runs on {found[tags.HOST]}: {found[tags.REASON]}")
