"""What `lbrun` finds where it is called, and what of it goes to the LBM."""

import posix
import sys

from lbd.cli.lbrun_options import Options, Trouble, depth
from lbd.rpc import client_tags as tags
from lbd.rpc.frames import Splitter, field, fields, pack

TYPE_CHECKING = False  # typing's own would cost a millisecond
if TYPE_CHECKING:
    from _socket import socket

    from lbd.cli.lbrun_terminal import Terminal

BASIC = (b"PATH", b"HOME", b"USER", b"LOGNAME", b"SHELL", b"TERM", b"LANG", b"TZ")
LBM_SILENT_S = 3.0
REPLY_LIMIT_BYTES = 1 << 20
COERCED = (b"C.UTF-8", b"C.utf8", b"UTF-8")


def encode(text: str) -> bytes:
    return text.encode(sys.getfilesystemencoding(), "surrogateescape")


def say(text: str, name: str = "lbrun") -> None:
    """One line on standard error, if the caller has one."""
    from lbd.one_line import one_line

    if not CLOSED & 4:
        try:
            posix.write(2, encode(f"{name}: {one_line(text, SAID_CHARS_MAX)}\n"))
        except OSError:
            pass


SAID_CHARS_MAX = 8000
CLOSED = 0
EMPTY_INPUT = False  # standard input is /dev/null: nobody need carry nothing
NULL_OUTPUTS = 0  # bits 1 and 2: those that are /dev/null, which every host has
JOINED = False  # standard output and error are one file: what goes to both is to stay in order
NULL_DEVICE = 0x103
PIPE, XFSZ = 13, 25
SOL_SOCKET, SO_PEERCRED = 1, 17
FILE_TYPE, DIRECTORY, STICKY = 0o170000, 0o040000, 0o1000  # of modes, as `stat` has them


def closed_descriptors() -> int:
    """Bits 0..2: descriptors the caller has closed. Before any other is opened in their place."""
    global CLOSED, EMPTY_INPUT, JOINED, NULL_OUTPUTS
    files: list[tuple[int, int] | None] = [None, None, None]
    for number in (0, 1, 2):
        try:
            status = posix.fstat(number)
        except OSError:
            CLOSED |= 1 << number
            continue
        files[number] = status.st_dev, status.st_ino
        if status.st_rdev == NULL_DEVICE and number == 0:
            EMPTY_INPUT = True
        elif status.st_rdev == NULL_DEVICE and may_write(number):
            NULL_OUTPUTS |= 1 << number
    JOINED = files[1] is not None and files[1] == files[2]
    return CLOSED


def may_write(number: int) -> bool:
    try:
        return posix.write(number, b"") == 0
    except OSError:
        return False


def make_environment(options: Options) -> dict[bytes, bytes]:
    environment: dict[bytes, bytes] = posix.environ.copy()
    if environment.get(b"LC_CTYPE") in COERCED and b"\0LC_CTYPE=" not in read_environ():
        del environment[b"LC_CTYPE"]  # Python's doing (PEP 538), not the caller's
    everything = environment
    if "clean_env" in options.plain:
        environment = {name: text for name, text in everything.items() if is_basic(name)}
    for item in options.variables:
        name, equals, value = item.partition("=")
        if not name:
            raise Trouble(f"--env {item!r} has no name")
        if equals:
            environment[encode(name)] = encode(value)
        elif encode(name) in everything:
            environment[encode(name)] = everything[encode(name)]
    if "slots" in options.values:
        environment[b"LBD_SLOTS"] = encode(options.values["slots"].partition("-")[0])
    return environment


def is_basic(name: bytes) -> bool:
    """What --clean-env leaves: who and where one is, in what language; and what is ours."""
    return name in BASIC or name.startswith((b"LC_", b"LBD_"))


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
    except OSError:  # it was removed: what the kernel calls it now, no other host can enter
        actual = posix.readlink(b"/proc/self/cwd")
    spelled = posix.environ.get(b"PWD", b"")
    if spelled.startswith(b"/") and spelled != actual:
        try:
            here, there = posix.stat("."), posix.stat(spelled)
            if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
                actual = spelled
        except OSError:
            pass
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
        if 0 < text.count(b"\n[") == text.count(b"\n[eligibility]"):
            continue  # as `config_file.load`: it says nothing of hosts
        break
    uid = posix.geteuid()
    if uid == 0:
        return ["/run/lbd"]
    base = environment.get(b"XDG_RUNTIME_DIR", b"").decode(errors="surrogateescape")
    own = f"{base}/lbd" if base else f"/tmp/lbd-{uid}"  # noqa: S108  # `may_be_at` looks
    return [own, "/run/lbd"]


def connect(runtime_dirs: list[str]) -> "socket | None":
    """A connection to this host's LBM, or None.

    What somebody else has put there is not trusted: neither a directory (before we wait for
    whoever is in it) nor who listens.
    """
    from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socket

    for directory in runtime_dirs:
        sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
        try:
            owner = posix.lstat(directory).st_uid
            if may_be_at(directory, owner):
                sock.connect(directory + "/lbm.sock")
                listener = listener_of(sock)
                if listener == owner or may_be_at(directory, listener):
                    return sock
        except OSError:
            pass
        sock.close()
    return None


def listener_of(sock: "socket") -> int:
    """The user at the other end."""
    credentials: bytes = sock.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def may_be_at(path: str, user: int) -> bool:
    """Whether what `user` has at `path` is there because root or we wanted it: the directories
    above it are root's or ours, and nobody else can put anything in them in its place.

    So the daemons' account may have /run/lbd, which root alone can make. Another user may have
    neither /run/user/UID/lbd, which lies in a directory of theirs, nor /run/lock/lbd, which anybody
    can make. Raises OSError.
    """
    ours = (0, posix.geteuid())
    if user in ours:
        return True
    shared = False  # in /tmp, say, anybody makes what is not there yet
    end = path.find("/")
    while end >= 0 and path[end:].strip("/"):
        above = path[: end or 1]
        status = posix.stat(above)
        if status.st_uid not in ours or posix.lstat(above).st_uid not in ours:
            return False
        shared = bool(status.st_mode & 0o022)
        if shared and not status.st_mode & STICKY:
            return False
        end = path.find("/", end + 1)
    status = posix.stat(path)
    if shared and posix.lstat(path).st_uid not in ours:
        return False
    is_closed = status.st_mode & FILE_TYPE == DIRECTORY and not status.st_mode & 0o002
    return path.startswith("/") and is_closed and status.st_uid in (user, 0)


def make_notice(options: Options, command: list[bytes]) -> bytes:
    """For `--local`: nobody need decide, but the job should be seen."""
    body = b"".join([field(tags.ARGUMENT, word) for word in command])
    return body + field(tags.NAME, encode(options.values.get("name", "")))


def make_request(
    options: Options,
    command: list[bytes],
    environment: dict[bytes, bytes],
    directory: bytes,
    closed: int,
    terminal: "Terminal | None",
) -> bytes:
    plain, values = options.plain, options.values
    umask = posix.umask(0)
    posix.umask(umask)
    mode = "remote" if "remote" in plain else "host" if "host" in values else "auto"
    flags = b""
    if "no_fallback" in plain:
        flags += tags.FLAG_NO_FALLBACK
    if "no_restart" in plain:
        flags += tags.FLAG_NO_RESTART
    if EMPTY_INPUT or "no_stdin" in plain:
        flags += tags.FLAG_NO_STDIN
    elif terminal is not None and terminal.typing:
        flags += tags.FLAG_TERMINAL_INPUT
    if "chdir" in values:
        flags += tags.FLAG_CHDIR
        flags += tags.FLAG_ROOTED if values["chdir"].startswith("/") else b""
    if JOINED:
        flags += tags.FLAG_JOINED
    if "verbose" in plain or "status_file" in values:
        flags += tags.FLAG_TELL
    if "shim" in plain:
        flags += tags.FLAG_SHELL
    pairs = []
    if terminal is not None:
        flags += terminal.flags()
        pairs = terminal.fields()
    pairs += [
        (tags.DIRECTORY, directory),
        (tags.UMASK, b"%d" % umask),
        (tags.MODE, mode.encode()),
        (tags.FLAGS, flags),
        (tags.CLOSED_FDS, b"%d" % closed),
        (tags.NULL_OUTPUTS, b"%d" % NULL_OUTPUTS),
        (tags.DEPTH, depth(environment)),
        (tags.IGNORED, b"%d" % ignored_signals()),
    ]
    named = ("host", tags.HOST), ("slots", tags.SLOTS), ("name", tags.NAME)
    pairs += [(tag, encode(values[name])) for name, tag in named if name in values]
    if options.timeout_s:
        pairs.append((tags.TIMEOUT, b"%f" % options.timeout_s))
    if options.memory_bytes:
        pairs.append((tags.MEMORY, b"%d" % options.memory_bytes))
    pairs += [(tags.EXCLUDED, encode(name)) for name in options.excluded]
    if options.staging is not None:
        pairs += [(tags.SEND, path) for path in options.staging.send]
        pairs += [(tags.FETCH, path) for path in options.staging.fetch]
    pairs += [(tags.LET_THROUGH, encode(item.partition("=")[0])) for item in options.variables]
    pairs += [(tags.ARGUMENT, word) for word in command]
    pairs += [(tags.ENVIRONMENT, name + b"=" + text) for name, text in environment.items()]
    return b"".join([field(key, value) for key, value in pairs])


def ignored_signals() -> int:
    """As a mask; a command inherits them. Two Python ignores itself, and hides what it found."""
    import _signal  # type: ignore[import-not-found]  # `signal` without its enums

    found = 0
    for number in range(1, 65):
        if number not in (PIPE, XFSZ) and _signal.getsignal(number) == _signal.SIG_IGN:
            found |= 1 << (number - 1)
    return found


def find_terminal(options: Options, closed: int) -> "Terminal | None":
    """None if there is none that concerns the command: neither read for it nor shown to it."""
    plain = options.plain
    reads = not EMPTY_INPUT and "no_stdin" not in plain
    typing = reads and not closed & 1 and posix.isatty(0)
    pty = "tty" in plain or (
        typing and "no_tty" not in plain and not closed & 2 and posix.isatty(1)
    )
    if pty and closed & 2 and (closed & 1 or not reads):
        raise Trouble("-t: the command would have neither standard input nor output")
    if not (typing or pty):
        return None
    from lbd.cli.lbrun_terminal import Terminal

    return Terminal(closed, typing, pty)


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


def local_job(sock: "socket", notice: bytes, environment: dict[bytes, bytes]) -> str:
    """The id of a job that stays here, "" if the LBM does not answer."""
    sock.settimeout(LBM_SILENT_S)
    try:
        sock.sendall(pack(tags.LOCAL, notice))
        ((_, body),) = Splitter(REPLY_LIMIT_BYTES).feed(sock.recv(4096))
        found = read_fields(body)
        note_place(environment, found)
        return found[tags.JOB]
    except (OSError, ValueError, KeyError):
        return ""


def note_place(environment: dict[bytes, bytes], found: dict[bytes, str]) -> None:
    """Of a command that stays, by HERE."""
    environment[b"LBD_HOST"] = environment[b"LBD_ORIGIN"] = found[tags.HOST].encode()
    if tags.SLOTS in found:
        environment[b"LBD_SLOTS"] = found[tags.SLOTS].encode()


def read_fields(body: bytes) -> dict[bytes, str]:
    return {key: value.decode(errors="replace") for key, value in fields(body)}


def tell_end(found: dict[bytes, str], options: Options, typed: bool = False) -> int:
    """The exit status, unless a signal ended the command: then the same ends us. `typed`: that
    signal came from our terminal."""
    if found[tags.REASON]:
        say(found[tags.REASON])
    if "status_file" in options.values:
        from lbd.cli.status_file import write_status

        write_status(options.values["status_file"], found)
    status, number = int(found[tags.STATUS]), int(found[tags.SIGNAL_NUMBER] or 0)
    if number and status == 128 + number:
        from lbd.cli.lbrun_signals import die_of

        die_of(number, typed)
    return status
