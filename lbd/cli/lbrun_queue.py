"""`lbrun -q` and `-d`: through the dispatcher's queue."""

import posix
import stat

from lbd.cli import lbrun_caller as caller
from lbd.cli.lbrun_caller import LBM_SILENT_S, encode, read_fields, say
from lbd.cli.lbrun_options import FAILED, Options, Trouble
from lbd.rpc import client_tags as tags
from lbd.rpc.frames import Splitter, field, pack

TYPE_CHECKING = False  # typing's own would cost a millisecond
if TYPE_CHECKING:
    from _socket import socket

REPLY_LIMIT_BYTES = 4 << 20
ACCEPT_S = 30.0  # for the dispatcher to have it on disk
POLL_S = 0.5
PIECE_BYTES = 1 << 16
INPUT_LIMIT_BYTES = 11 << 20
REMARK_AFTER_S = 2.0
INT, PIPE = 2, 13
FORWARDED = (1, 2, 3, 10, 12, 15)  # HUP INT QUIT USR1 USR2 TERM
FORCE_WITHIN_S = 1.0


def check_queued(options: Options) -> None:
    """What goes with the queue. Raises Trouble."""
    plain, values = options.plain, options.values
    if not plain & {"queue", "detach"}:
        raise Trouble("--array, --output, --error and --idempotency-key go with -q or -d")
    if {"queue", "detach"} <= plain:
        raise Trouble("-q waits for the end and -d does not: give one of them")
    for option in ("local", "remote", "explain", "tty"):
        if option in plain:
            raise Trouble(f"--{option} does not go with the queue")
    if options.send or options.fetch:
        raise Trouble("--send and --fetch do not go with the queue yet")
    if "output" in values and "queue" in plain:
        raise Trouble("-o goes with -d; with -q redirect the output of lbrun")
    if "array" in values:
        first, dash, last = values["array"].partition("-")
        if not (first.isdecimal() and last.isdecimal() and dash) or int(first) > int(last):
            raise Trouble(f"--array {values['array']}: write FIRST-LAST, like 1-10")
    options.run_queued = run_queued


def run_queued(
    options: Options, command: list[bytes], environment: dict[bytes, bytes], directory: bytes
) -> int:
    """The exit status."""
    runtime_dirs = caller.find_runtime_dirs(options.values.get("config"))
    sock = caller.connect(runtime_dirs)
    if sock is None:
        raise Trouble(
            f"no lbm is running here (looked in {' or '.join(runtime_dirs)}), so no queue"
        )
    body = caller.make_request(options, command, environment, directory, 0, None)
    flags = {"detach": tags.FLAG_DETACH, "no_restart": tags.FLAG_NO_RESTART}
    pairs = [(tags.FLAGS, flag) for name, flag in flags.items() if name in options.plain]
    pairs.append((tags.INPUT_DATA, read_input(options)))
    names = {"array": tags.ARRAY, "key": tags.KEY, "output": tags.OUTPUT_FILE,
             "error": tags.ERROR_FILE}  # fmt: skip
    pairs += [(tag, encode(options.values[name])) for name, tag in names.items()
              if name in options.values]  # fmt: skip
    body += b"".join([field(key, value) for key, value in pairs])
    sock.settimeout(LBM_SILENT_S)
    try:
        sock.sendall(pack(tags.QUEUE, body))
    except OSError as problem:
        raise Trouble(f"the lbm did not take the request: {problem}") from None
    return Queued(sock, options).until_done()


def read_input(options: Options) -> bytes:
    """All of our standard input, unless it is a terminal or there is none."""
    if "no_stdin" in options.plain or caller.EMPTY_INPUT or caller.CLOSED & 1 or posix.isatty(0):
        return b""
    kind = posix.fstat(0).st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        return b""
    from select import select

    if not select([0], [], [], REMARK_AFTER_S)[0]:
        say("reading standard input, which goes along with the job (--no-stdin: none)")
    pieces, size = [], 0
    while data := posix.read(0, PIECE_BYTES):
        pieces.append(data)
        size += len(data)
        if size > INPUT_LIMIT_BYTES:
            raise Trouble(
                f"standard input has more than {INPUT_LIMIT_BYTES >> 20} MiB, too much for the "
                "queue; let the command read a file, or give --no-stdin"
            )
    return b"".join(pieces)


class Queued:
    """From the request to the job's id, and with -q to its end."""

    def __init__(self, sock: "socket", options: Options) -> None:
        self.sock = sock
        self.options = options
        self.split = Splitter(REPLY_LIMIT_BYTES)
        self.jobs = ""
        self.interrupted_s = 0.0
        import _signal  # type: ignore[import-not-found]  # `signal` without its enums

        for number in FORWARDED:
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, self.forward)

    def until_done(self) -> int:
        from time import monotonic

        self.sock.settimeout(POLL_S)
        give_up_s = monotonic() + ACCEPT_S
        while True:
            try:
                data = self.sock.recv(REPLY_LIMIT_BYTES)
            except TimeoutError:
                if not self.jobs and monotonic() > give_up_s:
                    raise Trouble("no answer from the queue; it may have the job: see "
                                  "lbctl jobs, or give an --idempotency-key") from None  # fmt: skip
                continue
            except OSError:
                data = b""
            if not data:
                if not self.jobs:
                    raise Trouble("lost contact with the lbm; the queue may have the job")
                raise Trouble(f"lost contact with the lbm; job {self.jobs} goes on: "
                              f"lbctl wait {self.jobs}")  # fmt: skip
            for tag, body in self.split.feed(data):
                status = self.heard(tag, body)
                if status is not None:
                    return status

    def heard(self, tag: bytes, body: bytes) -> int | None:
        """The exit status, if that was the end."""
        if tag == tags.QUEUED:
            self.jobs = body.decode()
            if "detach" in self.options.plain:
                write_all(1, body + b"\n")
                return 0
            if "verbose" in self.options.plain:
                say(f"job {self.jobs}")
        elif tag == tags.WAITS:
            if "verbose" in self.options.plain or (not caller.CLOSED & 4 and posix.isatty(2)):
                say(f"job {self.jobs} waits: {body.decode(errors='replace')}")
        elif tag in (tags.OUTPUT, tags.ERRORS):
            write_all(1 if tag == tags.OUTPUT else 2, body)
        elif tag in (tags.WARN, tags.UNFIT):
            say(body.decode(errors="replace"))
            return FAILED if tag == tags.UNFIT else None
        elif tag == tags.DONE:
            return self.end(read_fields(body))
        return None

    def end(self, found: dict[bytes, str]) -> int:
        if found[tags.REASON]:
            say(found[tags.REASON])
        if "status_file" in self.options.values:
            from lbd.cli.status_file import write_status

            write_status(self.options.values["status_file"], found)
        status, number = int(found[tags.STATUS]), int(found[tags.SIGNAL_NUMBER] or 0)
        if number and status == 128 + number:
            from lbd.cli.lbrun_signals import die_of

            die_of(number)
        return status

    def forward(self, number: int, _frame: object) -> None:
        """To the job; a second interrupt within a second ends it by force."""
        from time import monotonic

        force = number == INT and monotonic() - self.interrupted_s < FORCE_WITHIN_S
        if number == INT:
            self.interrupted_s = monotonic()
        try:
            if force:
                self.sock.sendall(pack(tags.FORCE))
            self.sock.sendall(pack(tags.SIGNAL, bytes((number,))))
        except OSError:  # it has ended; what there is to read says how
            pass


def write_all(descriptor: int, data: bytes) -> None:
    """To our own output; when nobody reads it any more we die of that, and the job with us."""
    view = memoryview(data)
    try:
        while view:
            view = view[posix.write(descriptor, view) :]
    except BrokenPipeError:
        from lbd.cli.lbrun_signals import die_of

        die_of(PIPE)
    except OSError as problem:
        raise Trouble(f"descriptor {descriptor}: {problem.strerror}") from None
