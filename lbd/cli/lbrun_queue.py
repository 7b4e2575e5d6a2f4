"""`lbrun -q` and `-d`: through the dispatcher's queue."""

import posix
import stat

from lbd.cli import lbrun_caller as caller
from lbd.cli.lbrun_caller import LBM_SILENT_S, encode, read_fields, say, tell_end
from lbd.cli.lbrun_options import FAILED, Options, Trouble
from lbd.jobs_named import jobs_do
from lbd.rpc import client_tags as tags
from lbd.rpc.frames import Splitter, field, pack

TYPE_CHECKING = False  # typing's own would cost a millisecond
if TYPE_CHECKING:
    from _socket import socket

REPLY_LIMIT_BYTES = 4 << 20
HEARD_S = 10.0  # for the LBM to say that it has read it; nothing could run here instead
ACCEPT_S = 30.0  # for the dispatcher to have it on disk
POLL_S = 0.5
PIECE_BYTES = 1 << 16
INPUT_LIMIT_BYTES = 11 << 20
REMARK_AFTER_S = 2.0
INT, PIPE = 2, 13
FORWARDED = (1, 2, 3, 10, 12, 15)  # HUP INT QUIT USR1 USR2 TERM
FORCE_WITHIN_S = 1.0
SLOTS_MAX = 65536
INDEX_DIGITS = 18  # of an array's indices: they fit 64 bits
ARRAY_MAX = 10_000_000  # jobs: the most that dispatch.max_array can be


def check_queued(options: Options) -> None:
    """What goes with the queue. Raises Trouble."""
    plain, values = options.plain, options.values
    if not plain & {"queue", "detach"}:
        raise Trouble(
            "--array, --priority, --checkpoint, --output, --error and --idempotency-key"
            " go with -q or -d"
        )
    if {"queue", "detach"} <= plain:
        raise Trouble("-q waits for the end and -d does not: give one of them")
    for option in ("local", "remote", "explain", "tty"):
        if option in plain:
            raise Trouble(f"--{option} does not go with the queue")
    if options.send or options.fetch:
        check_staged(options)
    if "output" in values and "queue" in plain:
        raise Trouble("-o goes with -d; with -q redirect the output of lbrun")
    if "error" in values and "queue" in plain:
        raise Trouble("--error goes with -d; with -q redirect the errors of lbrun")
    if "status_file" in values and "detach" in plain:
        raise Trouble("--status-file goes with -q; of a job of -d `lbctl job ID --json` tells")
    if "array" in values:
        first, last = read_range("--array", values["array"], "FIRST-LAST, like 1-10")
        if last - first >= ARRAY_MAX:
            raise Trouble(f"--array {values['array']}: {last - first + 1} jobs are more than any "
                          f"queue takes at once ({ARRAY_MAX}; dispatch.max_array)")  # fmt: skip
        values["array"] = f"{first}-{last}"
    if "checkpoint" in values:
        values["checkpoint"] = directory_at(values["checkpoint"])
    if "priority" in values:
        check_priority(values["priority"])
    if "key" in values:
        check_key(values["key"])
    options.run_queued = run_queued


def check_slots(values: dict[str, str]) -> None:
    """Raises Trouble."""
    how = "how many, or LEAST-MOST, like 4 or 2-8"
    text = values["slots"]
    least, most = read_range("--slots", text, how, one_will_do=True)
    if least < 1:
        raise Trouble(f"--slots {text}: a job needs at least one")
    if most > SLOTS_MAX:
        raise Trouble(f"--slots {text}: no host has more than {SLOTS_MAX}")
    values["slots"] = f"{least}-{most}"


def check_staged(options: Options) -> None:
    """Raises Trouble for what would be lost with the private directory, or overwritten."""
    values = options.values
    for name in ("output", "error"):
        if not values.get(name, "/").startswith("/") and values[name] not in options.fetch:
            raise Trouble(
                f"--{name} {values[name]}: --fetch it, too, or it is lost with the directory in "
                "which the job runs"
            )
    for path in options.fetch if "array" in values else ():
        if "%a" not in path and "%j" not in path:
            raise Trouble(
                f"--fetch {path}: each job of the array would overwrite it; name it by %a, the "
                "index, or %j, the job's id"
            )


def directory_at(path: str) -> str:
    """Absolute. Raises Trouble."""
    try:
        if not stat.S_ISDIR(posix.stat(path).st_mode):
            raise NotADirectoryError(20, "not a directory")
    except OSError as problem:
        raise Trouble(f"--checkpoint {path}: {problem.strerror}") from None
    return path if path.startswith("/") else f"{posix.getcwd()}/{path}"


def check_key(text: str) -> None:
    """Raises Trouble."""
    if not text:
        raise Trouble("--idempotency-key is empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Trouble(f"--idempotency-key {text!r} is no UTF-8") from None


def check_place(option: str, path: bytes, directory: bytes) -> None:
    """Where output is to go, as far as that can be seen from here. Raises Trouble."""
    parent, _, name = (path if path.startswith(b"/") else directory + b"/" + path).rpartition(b"/")
    try:
        if b"%" not in parent and not stat.S_ISDIR(posix.stat(parent or b"/").st_mode):
            raise NotADirectoryError(20, "not a directory")
        if b"%" not in path and stat.S_ISDIR(posix.stat(parent + b"/" + name).st_mode):
            raise IsADirectoryError(21, "it is a directory")
    except FileNotFoundError as problem:
        if problem.filename == parent + b"/" + name:
            return  # it will be made
        raise Trouble(f"{option} {path.decode(errors='replace')}: {problem.strerror}") from None
    except OSError as problem:
        raise Trouble(f"{option} {path.decode(errors='replace')}: {problem.strerror}") from None


def check_priority(text: str) -> None:
    """Raises Trouble."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 4):
        raise Trouble(f"--priority {text}: write a whole number from -999 to 999")


def read_range(option: str, text: str, how: str, *, one_will_do: bool = False) -> tuple[int, int]:
    """Raises Trouble."""
    first, dash, last = text.partition("-")
    if one_will_do and not dash:
        dash, last = "-", first
    for end in (first, last):
        if not (dash and end.isascii() and end.isdecimal()):
            raise Trouble(f"{option} {text}: write {how}")
        if len(end) > INDEX_DIGITS:
            raise Trouble(f"{option} {text}: {end} is too large")
    if int(first) > int(last):
        raise Trouble(f"{option} {text}: the range runs backwards; write {how}")
    return int(first), int(last)


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
             "error": tags.ERROR_FILE, "priority": tags.PRIORITY,
             "checkpoint": tags.CHECKPOINT}  # fmt: skip
    for name in ("output", "error"):
        if name in options.values:
            check_place(f"--{name}", encode(options.values[name]), directory)
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
        give_up_s, spoken = monotonic() + HEARD_S, False
        while True:
            try:
                data = self.sock.recv(REPLY_LIMIT_BYTES)
                give_up_s, spoken = monotonic() + ACCEPT_S, True
            except TimeoutError:
                if not self.jobs and monotonic() > give_up_s:
                    if not spoken:
                        raise Trouble("the lbm of this host does not answer (stopped?), "
                                      "so no queue") from None  # fmt: skip
                    raise Trouble("no answer from the queue; it may have the job: see "
                                  "lbctl jobs, or give an --idempotency-key") from None  # fmt: skip
                continue
            except OSError:
                data = b""
            if not data:
                if not self.jobs:
                    raise Trouble("lost contact with the lbm; the queue may have the job")
                raise Trouble(f"lost contact with the lbm; {jobs_do(self.jobs, 'goes', 'go')} "
                              f"on: lbctl wait {self.jobs}")  # fmt: skip
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
                say(jobs_do(self.jobs))
        elif tag == tags.WAITS:
            if "verbose" in self.options.plain or (not caller.CLOSED & 4 and posix.isatty(2)):
                say(f"{jobs_do(self.jobs, 'waits', 'wait')}: {body.decode(errors='replace')}")
        elif tag in (tags.OUTPUT, tags.ERRORS):
            write_all(1 if tag == tags.OUTPUT else 2, body)
        elif tag in (tags.WARN, tags.UNFIT):
            say(body.decode(errors="replace"))
            return FAILED if tag == tags.UNFIT else None
        elif tag == tags.DONE:
            return tell_end(read_fields(body), self.options)
        return None

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
