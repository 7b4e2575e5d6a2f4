"""`lbrun`: run one command on the best host.

Start-up time is the product, so the common path imports built-in modules only (`posix` for `os`,
`_socket`, `_signal`); whatever else an option needs is imported when it is used. The protocol is
described in rpc/client_tags.py. It is one file because every module more costs a tenth of a
millisecond at each start.
"""

import posix
import sys

from lbd.lbm.launch import become, exit_status_of
from lbd.rpc import client_tags as tags
from lbd.rpc.frames import Splitter, field, pack

TYPE_CHECKING = False  # typing's own would cost a millisecond
if TYPE_CHECKING:
    from _socket import socket

FAILED = 125
EBADF, EEXIST = 9, 17
INT, QUIT, STOP, TSTP, CONT, PIPE, XFSZ = 2, 3, 19, 20, 18, 13, 25
FORWARDED = (
    1,
    INT,
    QUIT,
    10,
    12,
    15,
    TSTP,
    CONT,
    28,
)  # HUP INT QUIT USR1 USR2 TERM TSTP CONT WINCH
COERCED = (b"C.UTF-8", b"C.utf8", b"UTF-8")
FORCE_WITHIN_S = 1.0
LBM_SILENT_S = 3.0
DEPTH_MAX = 32
REPLY_LIMIT_BYTES = 1 << 20

WITH_VALUE = {
    "-H": "host", "--host": "host", "-x": "exclude", "--exclude": "exclude",
    "-C": "chdir", "--chdir": "chdir", "-e": "env", "--env": "env", "--name": "name",
    "--timeout": "timeout", "--mem": "mem", "--status-file": "status_file", "--config": "config",
}  # fmt: skip
PLAIN = {
    "--local": "local", "--remote": "remote", "--explain": "explain", "--json": "json",
    "--no-fallback": "no_fallback", "--no-stdin": "no_stdin", "-v": "verbose",
    "--verbose": "verbose", "--help": "help", "-h": "help", "--version": "version",
    "-T": "no_tty", "--no-tty": "no_tty", "--no-restart": "no_restart",
}  # fmt: skip
LATER = {
    "-q": "the queue", "--queue": "the queue", "-d": "the queue", "--detach": "the queue",
    "-n": "the queue", "--slots": "the queue", "--array": "the queue", "-o": "the queue",
    "--output": "the queue", "--error": "the queue", "--idempotency-key": "the queue",
    "-t": "terminals", "--tty": "terminals",
}  # fmt: skip


class Trouble(Exception):
    """lbrun itself failed: one line, exit 125."""


class Options:
    """The command line, read."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.excluded: list[str] = []
        self.variables: list[str] = []
        self.plain: set[str] = set()
        self.command: list[str] = []
        self.timeout_s = 0.0
        self.memory_bytes = 0


def main(arguments: list[str] | None = None) -> None:
    """Never returns."""
    try:
        status = run(read_options(sys.argv[1:] if arguments is None else arguments))
    except Trouble as trouble:
        say(str(trouble))
        status = FAILED
    except KeyboardInterrupt:
        status = 128 + INT
    posix._exit(status)


def read_options(arguments: list[str]) -> Options:
    """Raises Trouble for anything that is not in the contract."""
    options = Options()
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        value: str | None = None
        if word.startswith("--"):
            name, equals, text = word.partition("=")
            value = text if equals else None
        else:
            name, text = word[:2], word[2:]
            if text and name in WITH_VALUE:
                value = text
            elif text:
                rest.insert(0, "-" + text)
        take_option(options, name, value, rest)
    options.command = rest
    check(options)
    return options


def take_option(options: Options, name: str, value: str | None, rest: list[str]) -> None:
    if name in PLAIN and value is None:
        options.plain.add(PLAIN[name])
    elif name in WITH_VALUE:
        if value is None:
            if not rest:
                raise Trouble(f"{name} needs a value")
            value = rest.pop(0)
        key = WITH_VALUE[name]
        if key == "exclude":
            options.excluded.append(value)
        elif key == "env":
            options.variables.append(value)
        else:
            options.values[key] = value
    elif name in LATER:
        raise Trouble(f"{name}: {LATER[name]} is not in this version yet")
    elif name in PLAIN:
        raise Trouble(f"{name} takes no value")
    else:
        raise Trouble(f"unknown option {name}{nearest(name)}; see lbrun --help")


def nearest(name: str) -> str:
    from lbd.spelling import hint

    return f"; {hint(name, [*PLAIN, *WITH_VALUE])}"


def check(options: Options) -> None:
    """What goes together, and what the values mean. Raises Trouble."""
    plain, values = options.plain, options.values
    if plain & {"help", "version"}:
        return
    if "timeout" in values or "mem" in values:
        from lbd.units import duration_s, size_bytes

        try:
            options.timeout_s = duration_s(values.get("timeout", "0"))
            options.memory_bytes = size_bytes(values.get("mem", "0"))
        except ValueError as problem:
            raise Trouble(str(problem)) from None
    if "local" in plain and ("remote" in plain or "host" in values):
        raise Trouble("--local contradicts --remote and --host")
    if values.get("host") in options.excluded and "host" in values:
        raise Trouble(f"host {values['host']} is both asked for and excluded")
    if "status_file" in values:
        values["status_file"] = writable_path(values["status_file"])
    if "json" in plain and "explain" not in plain:
        raise Trouble("--json goes with --explain")
    if int(depth(posix.environ)) >= DEPTH_MAX:
        raise Trouble(
            f"{DEPTH_MAX} lbruns inside each other; does a script of its command's name call lbrun?"
        )
    if not options.command:
        raise Trouble("no command given; see lbrun --help")


def writable_path(path: str) -> str:
    """Absolute, since -C may take us elsewhere. Raises Trouble if no file can be made there."""
    directory, _, name = path.rpartition("/")
    if not path.startswith("/"):
        directory = posix.getcwd() + "/" + directory
    if not name or not posix.access(directory or "/", posix.W_OK | posix.X_OK):
        raise Trouble(f"--status-file {path}: no file can be made there")
    return f"{directory}/{name}"


def run(options: Options) -> int:
    """The exit status, unless this process becomes the command."""
    if options.plain & {"help", "version", "explain"}:
        from lbd.cli.lbrun_info import show

        return show(options)
    closed = closed_descriptors()
    environment = make_environment(options)
    runtime_dirs = find_runtime_dirs(options.values.get("config"))
    command = [encode(word) for word in options.command]
    directory = working_directory(options)
    sock = connect(runtime_dirs)
    if sock is None:
        what = f"no lbm is running here (looked in {' or '.join(runtime_dirs)})"
        return without_daemon(options, command, environment, directory, what)
    if "local" in options.plain:
        job = local_job(sock, make_notice(options, command), environment)
        return run_here(options, command, environment, directory, job, "asked-to-stay")
    body = make_request(options, command, environment, directory, closed)
    waiting = Waiting(sock, options, closed)
    try:
        sock.sendall(pack(tags.RUN, body))
    except OSError as problem:
        raise Trouble(f"the lbm did not take the request: {problem.strerror}") from None
    return waiting.until_done(command, environment, directory)


def encode(text: str) -> bytes:
    return text.encode(sys.getfilesystemencoding(), "surrogateescape")


def say(text: str) -> None:
    """One line on standard error, if the caller has one."""
    if not CLOSED & 4:
        try:
            posix.write(2, encode(f"lbrun: {' '.join(text.split())}\n"))
        except OSError:
            pass


CLOSED = 0
EMPTY_INPUT = False  # standard input is /dev/null: nobody need carry nothing
NULL_DEVICE = 0x103


def closed_descriptors() -> int:
    """Bits 0..2: descriptors the caller has closed. Before any other is opened in their place."""
    global CLOSED, EMPTY_INPUT
    for number in (0, 1, 2):
        try:
            status = posix.fstat(number)
        except OSError:
            CLOSED |= 1 << number
            continue
        if number == 0:
            EMPTY_INPUT = status.st_rdev == NULL_DEVICE
    return CLOSED


def make_environment(options: Options) -> dict[bytes, bytes]:
    environment: dict[bytes, bytes] = posix.environ.copy()
    if environment.get(b"LC_CTYPE") in COERCED and b"\0LC_CTYPE=" not in read_environ():
        del environment[b"LC_CTYPE"]  # Python's doing (PEP 538), not the caller's
    for item in options.variables:
        name, equals, value = item.partition("=")
        if not name:
            raise Trouble(f"--env {item!r} has no name")
        if equals:
            environment[encode(name)] = encode(value)
    return environment


def read_environ() -> bytes:
    """The environment as this process was given it."""
    try:
        with open("/proc/self/environ", "rb") as file:
            return b"\0" + file.read()
    except OSError:
        return b"\0LC_CTYPE="


def working_directory(options: Options) -> bytes:
    """The directory as the shell spells it (`$PWD`), if that is where we are; -C on top."""
    try:
        actual = posix.getcwdb()
        spelled = posix.environ.get(b"PWD", b"")
        if spelled.startswith(b"/") and spelled != actual:
            here, there = posix.stat("."), posix.stat(spelled)
            if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
                actual = spelled
    except OSError:
        actual = actual if "actual" in locals() else b"/"
    wanted = encode(options.values.get("chdir", ""))
    if not wanted:
        return actual
    return wanted if wanted.startswith(b"/") else actual.rstrip(b"/") + b"/" + wanted


def find_runtime_dirs(config: str | None) -> list[str]:
    """Where lbm.sock may be. Only `runtime_dir` is read from lbd.toml, without a TOML parser."""
    environment: dict[bytes, bytes] = posix.environ
    home = environment.get(b"HOME", b"")
    given = encode(config) if config is not None else environment.get(b"LBD_CONFIG", b"")
    for path in [given] if given else [home + b"/.config/lbd/lbd.toml", b"/etc/lbd/lbd.toml"]:
        try:
            with open(path, "rb") as file:
                text = b"\n" + file.read()
        except OSError as problem:
            if given:
                raise Trouble(f"{path.decode(errors='replace')}: {problem.strerror}") from None
            continue
        _, found, rest = text.partition(b'\nruntime_dir = "')
        if found and b"\\" not in rest.partition(b'"')[0]:
            return [rest.partition(b'"')[0].decode(errors="surrogateescape")]
        if b"runtime_dir" in text:
            from lbd.cli.lbrun_info import runtime_dir_of

            return [runtime_dir_of(path)]
        break
    uid = posix.geteuid()
    if uid == 0:
        return ["/run/lbd"]
    base = environment.get(b"XDG_RUNTIME_DIR", b"").decode(errors="surrogateescape")
    return [f"{base}/lbd" if base else f"/tmp/lbd-{uid}", "/run/lbd"]


def connect(runtime_dirs: list[str]) -> "socket | None":
    """A connection to this host's LBM, or None. A directory of somebody else's is not trusted."""
    from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socket

    for directory in runtime_dirs:
        sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
        try:
            if (
                posix.stat(directory).st_uid not in (0, posix.geteuid())
                and "/run/" not in directory
            ):
                continue
            sock.connect(directory + "/lbm.sock")
        except OSError:
            sock.close()
            continue
        return sock
    return None


def make_notice(options: Options, command: list[bytes]) -> bytes:
    """For `--local`: nobody need decide, but the job should be seen."""
    body = b"".join([field(tags.ARGUMENT, word) for word in command])
    return body + field(tags.NAME, encode(options.values.get("name", "")))


def local_job(sock: "socket", notice: bytes, environment: dict[bytes, bytes]) -> str:
    """The id of a job that stays here, "" if the LBM does not answer."""
    sock.settimeout(LBM_SILENT_S)
    try:
        sock.send(pack(tags.LOCAL, notice))
        ((_, body),) = Splitter(REPLY_LIMIT_BYTES).feed(sock.recv(4096))
        found = read_fields(body)
        environment[b"LBD_HOST"] = environment[b"LBD_ORIGIN"] = found[tags.HOST].encode()
        return found[tags.JOB]
    except (OSError, ValueError, KeyError):
        return ""


def make_request(
    options: Options,
    command: list[bytes],
    environment: dict[bytes, bytes],
    directory: bytes,
    closed: int,
) -> bytes:
    plain, values = options.plain, options.values
    umask = posix.umask(0)
    posix.umask(umask)
    mode = "remote" if "remote" in plain else "host" if "host" in values else "auto"
    flags = b""
    if "no_fallback" in plain:
        flags += tags.FLAG_NO_FALLBACK
    if EMPTY_INPUT or "no_stdin" in plain:
        flags += tags.FLAG_NO_STDIN
    elif not closed & 1 and posix.isatty(0):
        flags += tags.FLAG_TERMINAL_INPUT
    if "verbose" in plain or "status_file" in values:
        flags += tags.FLAG_TELL
    pairs = [
        (tags.DIRECTORY, directory),
        (tags.UMASK, b"%d" % umask),
        (tags.MODE, mode.encode()),
        (tags.FLAGS, flags),
        (tags.CLOSED_FDS, b"%d" % closed),
        (tags.DEPTH, depth(environment)),
    ]
    if "host" in values:
        pairs.append((tags.HOST, encode(values["host"])))
    if "name" in values:
        pairs.append((tags.NAME, encode(values["name"])))
    if options.timeout_s:
        pairs.append((tags.TIMEOUT, b"%f" % options.timeout_s))
    if options.memory_bytes:
        pairs.append((tags.MEMORY, b"%d" % options.memory_bytes))
    pairs += [(tags.EXCLUDED, encode(name)) for name in options.excluded]
    pairs += [(tags.ARGUMENT, word) for word in command]
    pairs += [(tags.ENVIRONMENT, name + b"=" + text) for name, text in environment.items()]
    return b"".join([field(key, value) for key, value in pairs])


def depth(environment: dict[bytes, bytes]) -> bytes:
    text = environment.get(b"LBD_DEPTH", b"0")
    return text if text.isdigit() and len(text) < 4 else b"0"


def give_descriptors(sock: "socket", closed: int, typing: bool) -> None:
    """The open ones of descriptors 0, 1, 2."""
    numbers = [number for number in (0, 1, 2) if not closed >> number & 1]
    packed = b"".join([number.to_bytes(4, sys.byteorder) for number in numbers])
    attached = [(1, 1, packed)] if numbers else []  # SOL_SOCKET, SCM_RIGHTS
    sock.sendmsg([pack(tags.DESCRIPTORS)], attached)
    # They are the command's now: kept here too, they would hide from the other ends of its pipes
    # that it has closed them. Only errors are still ours to print.
    null = posix.open("/dev/null", posix.O_RDWR)
    for number in numbers:
        if number == 1 or (number == 0 and not typing):
            posix.dup2(null, number)
    posix.close(null)


class Waiting:
    """From the request to its answer: "here", or the end of the command elsewhere."""

    def __init__(self, sock: "socket", options: Options, closed: int) -> None:
        self.sock = sock
        self.options = options
        self.closed = closed
        self.typing = not closed & 1 and "no_stdin" not in options.plain and posix.isatty(0)
        self.split = Splitter(REPLY_LIMIT_BYTES)
        self.interrupted_s = 0.0
        sock.settimeout(LBM_SILENT_S)  # until its first word
        self.may_type = False
        # Before the request is sent: from then on a signal is for the command.
        import _signal  # type: ignore[import-not-found]  # `signal` without its enums

        self.restore = [(number, _signal.signal(number, self.forward)) for number in FORWARDED]
        self.set_signal = _signal.signal

    def until_done(
        self, command: list[bytes], environment: dict[bytes, bytes], directory: bytes
    ) -> int:
        if self.typing:
            from select import select
        while True:
            if self.may_type:
                watched: list[socket | int] = [self.sock, 0]
                ready, _, _ = select(watched, [], [])
                if 0 in ready:
                    self.type_in()
                if self.sock not in ready:
                    continue
            try:
                data = self.sock.recv(65536)
            except TimeoutError:
                return self.without_answer(command, environment, directory)
            except OSError:
                data = b""
            self.sock.settimeout(None)
            if not data:
                raise Trouble(
                    "lost contact with the lbm of this host; the command, if it had begun, is ended"
                )
            for tag, body in self.split.feed(data):
                if tag == tags.HERE:
                    for number, handler in self.restore:
                        self.set_signal(number, handler)
                    found = read_fields(body)
                    job, reason = found[tags.JOB], found[tags.REASON]
                    environment[b"LBD_HOST"] = environment[b"LBD_ORIGIN"] = found[
                        tags.HOST
                    ].encode()
                    return run_here(self.options, command, environment, directory, job, reason)
                status = self.heard(tag, body)
                if status is not None:
                    return status

    def without_answer(
        self, command: list[bytes], environment: dict[bytes, bytes], directory: bytes
    ) -> int:
        """The LBM is stopped. Hung up on before it read the request, it will not act on it."""
        self.sock.close()
        for number, handler in self.restore:
            self.set_signal(number, handler)
        what = "the lbm of this host does not answer (stopped?)"
        return without_daemon(self.options, command, environment, directory, what)

    def heard(self, tag: bytes, body: bytes) -> int | None:
        """The exit status, if that was the end."""
        if tag == tags.WARN:
            say(body.decode(errors="replace"))
        elif tag == tags.PLACED:
            if "verbose" in self.options.plain:
                found = read_fields(body)
                say(f"{self.options.command[0]}: on {found[tags.HOST]} ({found[tags.REASON]})")
        elif tag == tags.GIVE:
            give_descriptors(self.sock, self.closed, self.typing)
        elif tag == tags.INPUT_TAKEN:
            self.may_type = self.typing
        elif tag == tags.DONE:
            found = read_fields(body)
            if found[tags.REASON]:
                say(found[tags.REASON])
            if "status_file" in self.options.values:
                from lbd.cli.status_file import write_status

                write_status(self.options.values["status_file"], found)
            return int(found[tags.STATUS])
        return None

    def type_in(self) -> None:
        """Typed input goes along one piece at a time: the next when the last has been consumed."""
        try:
            data = posix.read(0, 65536)
        except OSError:
            data = b""
        self.may_type = False
        self.typing = bool(data)
        self.sock.sendall(pack(tags.INPUT, data))

    def tell(self, tag: bytes, body: bytes = b"") -> None:
        try:
            self.sock.send(pack(tag, body))
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
        self.tell(tags.SIGNAL, bytes((number,)))
        if number == TSTP:
            posix.kill(posix.getpid(), STOP)


def read_fields(body: bytes) -> dict[bytes, str]:
    from lbd.rpc.frames import fields

    return {key: value.decode(errors="replace") for key, value in fields(body)}


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
        raise Trouble(f"{what}; start one with: lbd up")
    from lbd.cli.fallback import take_turn

    take_turn(int(depth(environment)), find_runtime_dirs(options.values.get("config"))[0], say)
    say(f"{what}; running here")
    return run_here(options, command, environment, directory, "", "no-lbm")
