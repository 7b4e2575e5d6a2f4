"""`lbrun -q` and `-d`: submission to the dispatcher's queue."""

import posix
import stat

from lbd.client.complaints import ERROR, FAILED, Trouble, Voice, encode, say
from lbd.client.lbm_socket import connect, find_runtime_dirs, is_restarting
from lbd.client.options import Options
from lbd.client.output_names import check_place, doubt
from lbd.client.progress import Progress, has_terminal
from lbd.client.queue_rules import all_tasks_write
from lbd.client.session import LBM_SILENT_S, end_as, read_fields
from lbd.client.surroundings import Surroundings, make_request
from lbd.local import client_tags as tags
from lbd.local.frames import Splitter, field, pack
from lbd.text.job_phrases import jobs_do

TYPE_CHECKING = False  # importing typing would cost a millisecond
if TYPE_CHECKING:
    from _socket import socket

REPLY_LIMIT_BYTES = 4 << 20
HEARD_S = 10.0  # for the LBM to confirm that it read the request; nothing can run here instead
ACCEPT_S = 30.0  # for the dispatcher to have it on disk
POLL_S = 0.5
PIECE_BYTES = 1 << 16
INPUT_LIMIT_BYTES = 11 << 20
REMARK_AFTER_S = 2.0
INT, PIPE = 2, 13
FORWARDED = (1, 2, 3, 10, 12, 15)  # HUP INT QUIT USR1 USR2 TERM
FORCE_WITHIN_S = 1.0


def run_queued(options: Options, around: Surroundings) -> int:
    """Returns the exit status."""
    if around.closed:
        fill_closed()
    runtime_dirs = find_runtime_dirs(options.values.get("config"))
    sock = connect(runtime_dirs)
    if sock is None:
        from lbd.client.start_wait import connect_once_started, remedy

        sock, what = connect_once_started(runtime_dirs)
        if sock is None:
            raise Trouble(f"{what}, so there is no queue{remedy(what, runtime_dirs)}")
    body = make_request(options, around, None)
    flags = {"detach": tags.FLAG_DETACH, "no_restart": tags.FLAG_NO_RESTART,
             "gang": tags.FLAG_GANG, "append": tags.FLAG_APPEND}  # fmt: skip
    pairs = [(tags.FLAGS, flag) for name, flag in flags.items() if name in options.plain]
    progress = Progress("queue" in options.plain and "array" in options.values and has_terminal())
    if progress.is_on:
        pairs.append((tags.FLAGS, tags.FLAG_PROGRESS))
    pairs.append((tags.INPUT_DATA, read_input(options, around)))
    names = {"array": tags.ARRAY, "key": tags.KEY, "output": tags.OUTPUT_FILE,
             "error": tags.ERROR_FILE, "priority": tags.PRIORITY,
             "checkpoint": tags.CHECKPOINT, "speedup": tags.SPEEDUP, "work": tags.WORK,
             "target": tags.TARGET, "deadline": tags.DEADLINE, "after": tags.AFTER,
             "begin": tags.BEGIN, "notify": tags.NOTIFY}  # fmt: skip
    check_outputs(options, around.directory)
    pairs += [(tag, encode(options.values[name])) for name, tag in names.items()
              if name in options.values]  # fmt: skip
    body += b"".join([field(key, value) for key, value in pairs])
    sock.settimeout(LBM_SILENT_S)
    is_read = True
    try:
        sock.sendall(pack(tags.QUEUE, body))
    except (BrokenPipeError, ConnectionResetError):
        is_read = False  # the LBM has said why, or has ended
    except OSError as problem:
        raise Trouble(f"cannot send the request to the LBM: {problem}") from None
    return Queued(sock, options, progress).until_done(is_read=is_read)


def check_outputs(options: Options, directory: bytes) -> None:
    """Warns of names of output files that are probably mistakes. Raises Trouble for those that no
    job could write."""
    values, remark = options.values, ""
    for name in ("output", "error"):
        if name in values:
            one = options.typed[name], encode(values[name]), directory
            check_place(*one)
            remark = remark or doubt(*one, values.get("array", ""))
    if remark := remark or all_tasks_write(values):
        say(remark)


def fill_closed() -> None:
    """Opens /dev/null for each of 0 to 2 that the caller has closed. Otherwise our socket could get
    such a number, and the job's output would be written to the LBM."""
    while (number := posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)) <= ERROR:
        pass
    posix.close(number)


def read_input(options: Options, around: Surroundings) -> bytes:
    """Returns standard input, unless it is a terminal or missing: all of it, or a little more than
    any LBM takes, which then says why not."""
    if "no_stdin" in options.plain or around.empty_input or around.closed & 1 or posix.isatty(0):
        return b""
    kind = posix.fstat(0).st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        return b""
    from select import select

    if not select([0], [], [], REMARK_AFTER_S)[0]:
        say("reading standard input to send with the job (--no-stdin: do not)")
    pieces, size = [], 0
    while size <= INPUT_LIMIT_BYTES and (data := posix.read(0, PIECE_BYTES)):
        pieces.append(data)
        size += len(data)
    return b"".join(pieces)


class Queued:
    """Handles a queued command from the request to the job's id, and with -q to its end."""

    def __init__(self, sock: "socket", options: Options, progress: Progress) -> None:
        self.sock = sock
        self.progress = progress
        self.options = options
        self.split = Splitter(REPLY_LIMIT_BYTES)
        self.jobs = ""
        self.interrupted_s = 0.0
        import _signal  # type: ignore[import-not-found]  # `signal` without its enums

        for number in FORWARDED:
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, self.forward)

    def until_done(self, *, is_read: bool = True) -> int:
        """`is_read`: the LBM has read the whole request, as far as is known."""
        from time import monotonic

        self.sock.settimeout(POLL_S)
        give_up_s, spoken = monotonic() + HEARD_S, False
        while True:
            try:
                data = self.sock.recv(REPLY_LIMIT_BYTES)
                give_up_s, spoken = monotonic() + ACCEPT_S, True
            except TimeoutError:
                if not self.jobs and monotonic() > give_up_s:
                    if not spoken and is_restarting(self.sock):
                        continue
                    if not spoken:
                        raise Trouble("this host's LBM does not answer (stopped?), so the queue "
                                      "cannot be reached") from None  # fmt: skip
                    raise Trouble("no answer from the queue, which may have accepted the job: "
                                  "check lbctl jobs, or use "
                                  "--idempotency-key") from None  # fmt: skip
                continue
            except OSError:
                data = b""
            if not data:
                if not is_read:
                    raise Trouble("the LBM hung up while the request was sent; nothing was queued")
                if not self.jobs:
                    raise Trouble("lost contact with the LBM; the queue may have accepted the job")
                raise Trouble("lost contact with the LBM; "
                              f"{jobs_do(self.jobs, 'continues', 'continue')}: lbctl wait "
                              f"{self.jobs}")  # fmt: skip
            for tag, body in self.split.feed(data):
                status = self.heard(tag, body)
                if status is not None:
                    return status

    def heard(self, tag: bytes, body: bytes) -> int | None:
        """Returns the exit status if that was the end."""
        if tag == tags.PROGRESS:
            self.progress.show(body.decode(errors="replace"))
            return None
        self.progress.clear()
        if tag == tags.QUEUED:
            self.jobs = body.decode()
            if "detach" in self.options.plain:
                write_all(1, body + b"\n")
                return 0
            if "verbose" in self.options.plain:
                say(jobs_do(self.jobs))
        elif tag == tags.WAITS:
            if "verbose" in self.options.plain or (Voice.is_there and posix.isatty(2)):
                say(f"{jobs_do(self.jobs, 'waits', 'wait')}: {body.decode(errors='replace')}")
        elif tag in (tags.OUTPUT, tags.ERRORS):
            write_all(1 if tag == tags.OUTPUT else 2, body)
            self.progress.printed(body)
        elif tag in (tags.WARN, tags.UNFIT):
            say(body.decode(errors="replace"))
            return FAILED if tag == tags.UNFIT else None
        elif tag == tags.DONE:
            return end_as(read_fields(body), self.options)
        return None

    def forward(self, number: int, _frame: object) -> None:
        """Sends a signal to the job; a second interrupt within a second kills it."""
        from time import monotonic

        force = number == INT and monotonic() - self.interrupted_s < FORCE_WITHIN_S
        if number == INT:
            self.interrupted_s = monotonic()
        try:
            if force:
                self.sock.sendall(pack(tags.FORCE))
            self.sock.sendall(pack(tags.SIGNAL, bytes((number,))))
        except OSError:  # the job has ended; the pending frames say how
            pass


def write_all(descriptor: int, data: bytes) -> None:
    """Writes to our own output. When nobody reads it any more, SIGPIPE ends us, and with us the
    job."""
    view = memoryview(data)
    try:
        while view:
            view = view[posix.write(descriptor, view) :]
    except BrokenPipeError:
        from lbd.client.signals import die_of

        die_of(PIPE)
    except OSError as problem:
        name = "standard output" if descriptor == 1 else "standard error"
        raise Trouble(f"{name}: {problem.strerror}") from None
