"""`lbrun`: run one command on the best host.

Start-up time is the product, so the common path imports built-in modules only (`posix` for `os`,
`_socket`, `_signal`); whatever else an option needs is imported when it is used. The protocol is
described in rpc/client_tags.py.
"""

import posix
import sys

from lbd.cli import lbrun_caller as caller
from lbd.cli.lbrun_caller import (
    LBM_SILENT_S,
    REPLY_LIMIT_BYTES,
    encode,
    local_job,
    make_notice,
    make_request,
    read_fields,
    say,
    tell_end,
)
from lbd.cli.lbrun_options import FAILED, Options, Trouble, depth, read_options
from lbd.lbm.launch import become, exit_status_of
from lbd.rpc import client_tags as tags
from lbd.rpc.frames import Splitter, pack

TYPE_CHECKING = False  # typing's own would cost a millisecond
if TYPE_CHECKING:
    from _socket import socket

    from lbd.cli.lbrun_terminal import Terminal
    from lbd.cli.shim import Shim

INT, QUIT, STOP, TSTP, CONT, PIPE, XFSZ = 2, 3, 19, 20, 18, 13, 25
HUP, USR1, USR2, TERM, WINCH = 1, 10, 12, 15, 28
BLOCK, UNBLOCK = 0, 1
ENDING = (HUP, INT, QUIT, TERM)
FORWARDED = (HUP, INT, QUIT, USR1, USR2, TERM, TSTP, CONT, WINCH)
FORCE_WITHIN_S = 1.0
# Waiting is done in pieces: for a signal that comes just before a blocking call, Python runs the
# handler only when that call returns.
POLL_S = 0.5
NEVER_S = float("-inf")
OWN_NAMES = ("lbrun", "lbrun-python", "lbrun.py")  # called by another, it is a shim for that one
UNANSWERED = b"LBD_UNANSWERED"  # from front.c, which has asked in vain: why the LBM is of no use
LOST = "lost contact with the lbm of this host; the command, if it had begun, is ended"


def main(arguments: list[str] | None = None) -> None:
    """Never returns."""
    options = Options()
    words = sys.argv[1:] if arguments is None else arguments
    name = sys.argv[0].rpartition("/")[2] if arguments is None else "lbrun"
    try:
        if name not in OWN_NAMES or words[:1] == ["--shim"]:
            status = run_as_shim(name, words)
        else:
            options = read_options(words)
            status = run(options)
    except (Trouble, OSError) as problem:
        say(str(problem))
        status = FAILED
        if "status_file" in options.values:
            from lbd.cli.status_file import write_failure

            write_failure(options.values["status_file"], str(problem))
    except KeyboardInterrupt:
        status = 128 + INT
    posix._exit(status)


def run_as_shim(name: str, words: list[str]) -> int:
    from lbd.cli.shim import run_shim

    if name in OWN_NAMES:
        name, words = words[1] if words[1:] else "", words[2:]
    return run_shim(name, words)


def run(options: Options) -> int:
    """The exit status, unless this process becomes the command."""
    if options.plain & {"help", "version", "explain"}:
        from lbd.cli.lbrun_info import show

        return show(options)
    closed = caller.closed_descriptors()
    unanswered = posix.environ.pop(UNANSWERED, b"")
    environment = caller.make_environment(options)
    command = [encode(word) for word in options.command]
    directory = caller.working_directory(options)
    if options.send or options.fetch:
        from lbd.cli.lbrun_stage import Staging

        options.staging = Staging(options, directory)
    if options.run_queued is not None:
        return options.run_queued(options, command, environment, directory)
    if unanswered:
        what = unanswered.decode(errors="replace")
        return without_daemon(options, command, environment, directory, what)
    runtime_dirs = caller.find_runtime_dirs(options.values.get("config"))
    sock = caller.connect(runtime_dirs)
    if sock is None:
        what = f"no lbm is running here (looked in {' or '.join(runtime_dirs)})"
        return without_daemon(options, command, environment, directory, what)
    if "local" in options.plain:
        job = local_job(sock, make_notice(options, command), environment)
        return run_here(options, command, environment, directory, job, "asked-to-stay")
    terminal = caller.find_terminal(options, closed)
    body = make_request(options, command, environment, directory, closed, terminal)
    waiting = Waiting(sock, options, closed, terminal)
    try:
        waiting.ask(pack(tags.RUN, body))
    except TimeoutError:
        return waiting.without_answer(command, environment, directory)
    except OSError as problem:
        raise Trouble(f"the lbm did not take the request: {problem.strerror}") from None
    return waiting.until_done(command, environment, directory)


class Waiting:
    """From the request to its answer: "here", or the end of the command elsewhere."""

    def __init__(
        self, sock: "socket", options: Options, closed: int, terminal: "Terminal | None"
    ) -> None:
        self.sock = sock
        self.options = options
        self.shim: Shim | None = None
        self.closed = closed
        self.terminal = terminal
        self.split = Splitter(REPLY_LIMIT_BYTES)
        self.interrupted_s = self.silent_s = 0.0
        self.early: list[bytes] | None = []  # signals while the request is on its way
        self.ended_by = 0  # the last of them that ends a command
        sock.settimeout(LBM_SILENT_S)
        self.begun = False  # elsewhere
        self.stop_asked = self.continued = False
        # Before the request is sent: from then on a signal is for the command.
        import _signal  # type: ignore[import-not-found]  # `signal` without its enums

        self.set_signal, self.set_mask = _signal.signal, _signal.pthread_sigmask
        heeded = [n for n in FORWARDED if _signal.getsignal(n) != _signal.SIG_IGN]
        self.restore = [(number, self.set_signal(number, self.forward)) for number in heeded]

    def heed_no_more(self) -> None:
        for number, handler in self.restore:
            self.set_signal(number, handler)

    def ask(self, request: bytes) -> None:
        """Send it; signals that come meanwhile must not get into the middle. Raises OSError."""
        self.sock.sendall(request)
        self.sock.settimeout(POLL_S)
        early, self.early = self.early or [], None
        for message in early:
            self.sock.send(message)

    def until_done(
        self, command: list[bytes], environment: dict[bytes, bytes], directory: bytes
    ) -> int:
        """The exit status, unless this process becomes the command."""
        try:
            return self.hear_out(command, environment, directory)
        finally:
            if self.terminal is not None:
                self.terminal.leave_raw()

    def hear_out(
        self, command: list[bytes], environment: dict[bytes, bytes], directory: bytes
    ) -> int:
        terminal = self.terminal
        while True:
            if terminal is not None and not terminal.wait(self.sock):
                continue
            try:
                data = self.sock.recv(65536)
            except TimeoutError:
                self.silent_s += POLL_S
                if self.silent_s < LBM_SILENT_S:
                    continue
                return self.without_answer(command, environment, directory)
            except OSError:
                data = b""
            self.silent_s = NEVER_S  # it has said its first word
            if not data:
                raise Trouble(LOST)
            for tag, body in self.split.feed(data):
                if tag == tags.HERE:
                    self.heed_no_more()
                    found = read_fields(body)
                    job, reason = found[tags.JOB], found[tags.REASON]
                    if self.shim:
                        measure = tags.MEASURE in found
                        return self.shim.stay(job, found[tags.HOST], self.sock, measure=measure)
                    caller.note_place(environment, found)
                    return run_here(self.options, command, environment, directory, job, reason)
                if tag == tags.UNFIT:
                    what = body.decode(errors="replace")
                    return self.without_answer(command, environment, directory, what)
                status = self.heard(tag, body)
                if status is not None:
                    return status

    def without_answer(
        self,
        command: list[bytes],
        environment: dict[bytes, bytes],
        directory: bytes,
        what: str = "the lbm of this host does not answer (stopped?)",
    ) -> int:
        """The LBM is stopped. Hung up on before it read the request, it will not act on it."""
        self.sock.close()
        self.heed_no_more()
        if self.ended_by:
            posix.kill(posix.getpid(), self.ended_by)
        if self.shim:
            return self.shim.become_it()
        return without_daemon(self.options, command, environment, directory, what)

    def heard(self, tag: bytes, body: bytes) -> int | None:
        """The exit status, if that was the end."""
        if tag == tags.WARN and not self.shim:
            say(body.decode(errors="replace"))
        elif tag == tags.PLACED:
            if "verbose" in self.options.plain:
                found = read_fields(body)
                say(f"{self.options.command[0]}: on {found[tags.HOST]} ({found[tags.REASON]})")
        elif tag == tags.GIVE:
            self.give()
        elif tag in (tags.PACK, tags.UNPACK) and self.options.staging is not None:
            self.options.staging.heard(self.sock, tag, body)
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
        """The command has begun elsewhere: our descriptors are to be its own."""
        terminal = self.terminal
        typing = terminal is not None and terminal.typing
        # A stop is for us alone before, and for the command from then on: never lost in between.
        self.set_mask(BLOCK, (TSTP,))
        try:
            caller.give_descriptors(self.sock, self.closed, typing)
        except (BrokenPipeError, ConnectionResetError):
            raise Trouble(LOST) from None
        self.begun = True
        self.set_mask(UNBLOCK, (TSTP,))
        if terminal is not None:
            # From now on the LBM restores it if we are killed; there is no output before READY,
            # so who answers that finds the terminal as it should be.
            terminal.attach(self.tell, self.set_signal)
            self.tell(tags.READY)

    def end(self, found: dict[bytes, str]) -> int:
        terminal = self.terminal
        if terminal is not None:
            terminal.give_back()
        return tell_end(found, self.options, terminal is not None and terminal.interrupting)

    def stop(self) -> None:
        """The command has stopped, and so do we, as it would if it ran here."""
        from lbd.cli.lbrun_signals import stop_by

        number, with_group = (TSTP if self.stop_asked else STOP), False
        terminal = self.terminal
        if terminal is not None and terminal.attached:
            number, with_group = terminal.how_to_stop()
        self.stop_asked = self.continued = False
        stop_by(number, with_group)
        if not self.continued:  # it was no stop at all, and is to be none elsewhere
            if terminal is not None and terminal.behind:
                self.forward(HUP, None)
            self.forward(CONT, None)

    def tell(self, tag: bytes, body: bytes = b"") -> None:
        if self.early is not None:
            self.early.append(pack(tag, body))
            return
        try:
            self.sock.sendall(pack(tag, body))
        except OSError:  # it has ended; what there is to read says how
            pass

    def forward(self, number: int, _frame: object) -> None:
        """Pass a signal on; a second interrupt within a second ends the command by force."""
        if number == INT:
            from time import monotonic

            now_s = monotonic()
            if now_s - self.interrupted_s < FORCE_WITHIN_S:
                self.tell(tags.FORCE)
            self.interrupted_s = now_s
        if number in ENDING:
            self.ended_by = number
        elif number == TSTP:
            self.stop_asked = True  # once it has stopped, we do
            if not self.begun:
                posix.kill(posix.getpid(), STOP)
                return
        elif number == CONT:
            self.continued = True
        terminal = self.terminal
        if terminal is not None and terminal.attached:
            if number == CONT:
                terminal.come_back()
            if number == WINCH and terminal.resized():
                return
        self.tell(tags.SIGNAL, bytes((number,)))


def run_here(
    options: Options,
    command: list[bytes],
    environment: dict[bytes, bytes],
    directory: bytes,
    job: str,
    reason: str,
) -> int:
    """Become the command; stay beside it only where an option needs somebody to watch."""
    host = environment.get(b"LBD_HOST", b"").decode() if job else ""
    if "remote" in options.plain:
        raise Trouble(f"it would have to run here, on {host}, and --remote forbids that")
    if host and host in options.excluded:
        raise Trouble(f"it would have to run here, on {host}, and --exclude forbids that")
    if job:
        environment[b"LBD_JOB_ID"] = job.encode()
    environment[b"LBD_DEPTH"] = b"%d" % (int(depth(environment)) + 1)
    if "chdir" in options.values:
        try:
            posix.chdir(directory)
        except OSError as problem:
            raise Trouble(f"{directory.decode(errors='replace')}: {problem.strerror}") from None
    if "verbose" in options.plain:
        say(f"{options.command[0]}: here ({reason})")
    if options.timeout_s or options.memory_bytes or "status_file" in options.values:
        from lbd.cli.supervised import run_supervised

        return run_supervised(options, command, environment)
    if "no_stdin" in options.plain:
        empty_input()
    let_pipes_break()
    failure = become(command, environment)
    say(f"{options.command[0]}: {failure.strerror}")
    return exit_status_of(failure)


def let_pipes_break() -> None:
    """Python ignores these two at its start, and what is ignored stays so through exec."""
    import _signal

    for number in (PIPE, XFSZ):
        _signal.signal(number, _signal.SIG_DFL)


def empty_input() -> None:
    null = posix.open("/dev/null", posix.O_RDONLY)
    if null:
        posix.dup2(null, 0)


def without_daemon(
    options: Options,
    command: list[bytes],
    environment: dict[bytes, bytes],
    directory: bytes,
    what: str,
) -> int:
    """No LBM answers: run here with one warning, unless the user's word forbids it."""
    if "local" in options.plain:
        return run_here(options, command, environment, directory, "", "asked-to-stay")
    if "host" in options.values or options.plain & {"remote", "no_fallback"}:
        raise Trouble(f"{what}; start one with: lbd up" if what.startswith("no lbm") else what)
    from lbd.cli.fallback import Home, take_turn

    home = Home.from_config(options.values.get("config"))
    what += home.fault
    if home.name in options.excluded:
        raise Trouble(f"{what}, and --exclude forbids to run here, on {home.name}")
    runtime_dir = caller.find_runtime_dirs(options.values.get("config"))[0]
    take_turn(int(depth(environment)), runtime_dir, home.slots, lambda how: say(f"{what}; {how}"))
    environment[b"LBD_HOST"] = environment[b"LBD_ORIGIN"] = encode(home.name)
    return run_here(options, command, environment, directory, "", "no-lbm")
