"""The circumstances in which `lbrun` is called, and the part of them that goes to the LBM."""

import posix

from lbd.client.complaints import REMOVED, Trouble, Voice, encode, say
from lbd.client.lbm_socket import is_kept_here
from lbd.client.options import Options, depth
from lbd.local import client_tags as tags
from lbd.local.frames import field

TYPE_CHECKING = False  # importing typing would cost a millisecond
if TYPE_CHECKING:
    from lbd.client.output_copies import OutputCopies
    from lbd.client.staging import Staging
    from lbd.client.terminal import Terminal

BASIC = (b"PATH", b"HOME", b"USER", b"LOGNAME", b"SHELL", b"TERM", b"LANG", b"TZ")
COERCED = (b"C.UTF-8", b"C.utf8", b"UTF-8")


NULL_DEVICE = 0x103
FILE_TYPE, SOCKET, REGULAR = 0o170000, 0o140000, 0o100000  # of a mode
PIPE, XFSZ = 13, 25


class Surroundings:
    """One call of `lbrun`: its descriptors 0 to 2, the command, its environment and directory.

    Must be created before any descriptor is opened, which could get the number of a closed one.
    """

    def __init__(self) -> None:
        self.closed = 0  # bits 0 to 2: closed by the caller
        self.empty_input = False  # standard input is /dev/null, so there is nothing to forward
        self.null_outputs = 0  # bits 1 and 2: outputs to /dev/null, which every host has
        self.may_be_copied = False  # an output is a socket or a file
        self.copies: OutputCopies | None = None
        self.joined = False  # standard output and error are one file, so their order must be kept
        self.command: list[bytes] = []
        self.environment: dict[bytes, bytes] = {}
        self.directory = b""
        self.staging: Staging | None = None  # files to send and fetch
        self._look_at_descriptors()

    def _look_at_descriptors(self) -> None:
        files: list[tuple[int, int] | None] = [None, None, None]
        for number in (0, 1, 2):
            try:
                status = posix.fstat(number)
            except OSError:
                self.closed |= 1 << number
                continue
            files[number] = status.st_dev, status.st_ino
            if number and status.st_mode & FILE_TYPE in (SOCKET, REGULAR):
                self.may_be_copied = True
            if status.st_rdev == NULL_DEVICE and number == 0:
                self.empty_input = True
            elif status.st_rdev == NULL_DEVICE and may_write(number):
                self.null_outputs |= 1 << number
        self.joined = files[1] is not None and files[1] == files[2]
        Voice.is_there = not self.closed & 4


def may_write(number: int) -> bool:
    try:
        return posix.write(number, b"") == 0
    except OSError:
        return False


def make_environment(options: Options) -> dict[bytes, bytes]:
    environment: dict[bytes, bytes] = posix.environ.copy()
    if environment.get(b"LC_CTYPE") in COERCED and b"\0LC_CTYPE=" not in read_environ():
        del environment[b"LC_CTYPE"]  # set by Python (PEP 538), not by the caller
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
        elif options.queued and not name.replace("_", "a").isalnum():  # of Slurm's -e FILE
            raise Trouble(f"-e {name}: there is no such variable here; for a file of standard "
                          "error use --error")  # fmt: skip
        elif "verbose" in options.plain:
            say(f"-e {name}: there is no such variable here")
    if "slots" in options.values:
        environment[b"LBD_SLOTS"] = encode(options.values["slots"].partition("-")[0])
    return environment


def is_basic(name: bytes) -> bool:
    """Returns whether --clean-env keeps a variable: user, place and language, and lbd's own."""
    return name in BASIC or name.startswith((b"LC_", b"LBD_"))


def read_environ() -> bytes:
    """Returns the environment as this process was given it."""
    try:
        with open("/proc/self/environ", "rb") as file:
            return b"\0" + file.read()
    except OSError:
        return b"\0LC_CTYPE="


def working_directory(options: Options) -> bytes:
    """Returns the directory as the shell spells it (`$PWD`), if that is where we are; with -C
    applied."""
    try:
        actual = posix.getcwdb()
    except OSError:  # removed: no other host can enter what the kernel now calls it
        if options.queued and not options.values.get("chdir", "").startswith("/"):
            raise Trouble(f"{REMOVED}, or use -C DIR") from None
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


def make_notice(options: Options, command: list[bytes]) -> bytes:
    """Returns the notice for `--local`: nothing is decided, but the job should be visible."""
    body = b"".join([field(tags.ARGUMENT, word) for word in command])
    return body + field(tags.NAME, encode(options.values.get("name", "")))


def make_request(options: Options, around: Surroundings, terminal: "Terminal | None") -> bytes:
    plain, values = options.plain, options.values
    umask = posix.umask(0)
    posix.umask(umask)
    mode = "remote" if "remote" in plain else "host" if "host" in values else "auto"
    if "local" in plain:  # only with needs; otherwise the LBM is only notified
        mode = "local"
    closed = 0 if options.queued else around.closed  # each attempt of a queued job has all three
    flags = b""
    if "no_fallback" in plain:
        flags += tags.FLAG_NO_FALLBACK
    if "no_restart" in plain:
        flags += tags.FLAG_NO_RESTART
    if around.empty_input or "no_stdin" in plain:
        flags += tags.FLAG_NO_STDIN
    elif terminal is not None and terminal.typing:
        flags += tags.FLAG_TERMINAL_INPUT
    if "chdir" in values:
        flags += tags.FLAG_CHDIR
        flags += tags.FLAG_ROOTED if values["chdir"].startswith("/") else b""
    if around.joined:
        flags += tags.FLAG_JOINED
    if "verbose" in plain or ("status_file" in values and not options.queued):
        flags += tags.FLAG_TELL
    flags += tags.FLAG_PAUSES if "verbose" in plain or posix.isatty(2) else b""
    if "shim" in plain:
        flags += tags.FLAG_SHELL
    elif is_kept_here(values.get("config"), around.command):
        flags += tags.FLAG_KEPT
    pairs = []
    if terminal is not None:
        flags += terminal.flags()
        pairs = terminal.fields()
    pairs += [
        (tags.DIRECTORY, around.directory),
        (tags.UMASK, b"%d" % umask),
        (tags.MODE, mode.encode()),
        (tags.FLAGS, flags),
        (tags.CLOSED_FDS, b"%d" % closed),
        (tags.NULL_OUTPUTS, b"%d" % around.null_outputs),
        (tags.DEPTH, depth(around.environment)),
        (tags.IGNORED, b"%d" % ignored_signals()),
    ]
    named = ("host", tags.HOST), ("slots", tags.SLOTS), ("name", tags.NAME)
    pairs += [(tag, encode(values[name])) for name, tag in named if name in values]
    if options.timeout_s:
        pairs.append((tags.TIMEOUT, b"%f" % options.timeout_s))
    if options.needs:
        pairs.append((tags.NEEDS, options.needs.encode()))
    if options.memory_bytes:
        pairs.append((tags.MEMORY, b"%d" % options.memory_bytes))
    pairs += [(tags.EXCLUDED, encode(name)) for name in options.excluded]
    if around.staging is not None:
        pairs += [(tags.SEND, path) for path in around.staging.send]
        pairs += [(tags.FETCH, path) for path in around.staging.fetch]
    pairs += [(tags.LET_THROUGH, encode(item.partition("=")[0])) for item in options.variables]
    pairs += [(tags.ARGUMENT, word) for word in around.command]
    variables = around.environment.items()
    pairs += [(tags.ENVIRONMENT, name + b"=" + text) for name, text in variables]
    return b"".join([field(key, value) for key, value in pairs])


def ignored_signals() -> int:
    """Returns a mask of the ignored signals, which a command inherits. Omits the two that Python
    ignores itself, since their original state is unknown."""
    import _signal  # type: ignore[import-not-found]  # `signal` without its enums

    found = 0
    for number in range(1, 65):
        if number not in (PIPE, XFSZ) and _signal.getsignal(number) == _signal.SIG_IGN:
            found |= 1 << (number - 1)
    return found


def find_terminal(options: Options, around: Surroundings) -> "Terminal | None":
    """Returns the terminal that the command reads or is shown on, None if there is none."""
    plain, closed = options.plain, around.closed
    if "tty" in plain and "no_stdin" not in plain:
        around.empty_input = False  # its input is a terminal, from which it reads end of file
    reads = not around.empty_input and "no_stdin" not in plain
    typing = reads and not closed & 1 and posix.isatty(0)
    pty = "tty" in plain or (
        typing and "no_tty" not in plain and not closed & 2 and posix.isatty(1)
    )
    if pty and closed & 2 and (closed & 1 or not reads):
        raise Trouble("-t: neither standard input nor standard output is open")
    if not (typing or pty):
        return None
    from lbd.client.terminal import Terminal

    return Terminal(closed, typing, pty)
