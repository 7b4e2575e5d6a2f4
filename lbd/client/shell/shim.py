"""A shim of `lbsh` in Python: does the same as the compiled front, more slowly, where that is
missing.

Called by a command's name, it asks the LBM whether that command should leave, and where to. A
command that stays becomes the real program, found on PATH behind the directory of shims
(LBD_SHIMS), with its original environment, so that the commands it starts are shared in turn. The
user only typed a command's name, so if anything is wrong before the command has begun, it just runs
here and nothing is printed.

It is called by the command's name (a link to `lbrun`), or as `lbrun --shim NAME [ARG…]`.
"""

import posix
import sys

from lbd.client.complaints import Trouble, encode, say
from lbd.client.lbm_socket import connect, find_runtime_dirs
from lbd.client.options import Options, depth
from lbd.client.surroundings import (
    Surroundings,
    find_terminal,
    make_environment,
    make_request,
    working_directory,
)
from lbd.launch.exec import DEFAULT_PATH, become_file, exit_status_of, let_pipes_break
from lbd.local import client_tags as tags
from lbd.local.frames import field, pack

TYPE_CHECKING = False  # importing typing would cost a millisecond
if TYPE_CHECKING:
    from _socket import socket

NOT_FOUND = 127
# Set by lbrun.c, which has asked the LBM: "DESCRIPTOR JOB HOST", its connection and the answer.
MEASURE_FOR = b"LBD_MEASURE"
# Many programs search PATH for themselves to find their parts (gcc, Python, TeX), and behind a shim
# they would find the shim. So they are called by their full path. These are exceptions: they have
# no parts, and would print the path before each message.
NAMELY = """
    ar b2sum base32 base64 bison bunzip2 bzcat bzip2 cksum comm cpio csplit diff3 expand factor flex
    fmt fold join lzma m4 md5sum numfmt od patch pr ptx ranlib sdiff sha1sum sha224sum sha256sum
    sha384sum sha512sum shuf size sort split strings strip sum tac tar tsort unexpand unxz xz xzcat
    """
REGULAR, KIND_MASK = 0o100000, 0o170000


class Shim:
    """One command under its own name."""

    is_silent = True

    def __init__(self, name: str, words: list[str]) -> None:
        self.options = Options()
        self.options.plain.add("shim")
        self.options.command = [name, *words]
        self.around = Surroundings()
        self.around.command = [encode(word) for word in self.options.command]
        self.around.environment = make_environment(self.options)
        self.as_given = self.around.environment.copy()
        self.real = find_behind_shims(self.around.command[0], self.as_given)
        self.sock: socket | None = None  # of the LBM that has said "here"

    def run(self) -> int:
        """Returns the exit status, unless this process becomes the command."""
        if not self.real:
            return not_found(self.options.command[0])
        if depth(self.as_given) != b"0":  # a command moved once does not move again
            return self.become_it()
        try:
            self.around.directory = working_directory(self.options)
            sock = connect(find_runtime_dirs(None))
        except (Trouble, OSError):
            sock = None
        if sock is None:
            return self.become_it()
        from lbd.client.session import Session

        terminal = find_terminal(self.options, self.around)
        body = make_request(self.options, self.around, terminal)
        session = Session(sock, self.options, self.around, terminal, self)
        try:
            session.ask(pack(tags.RUN, body))
        except OSError:
            return session.without_answer()
        return session.until_done()

    def without_lbm(self, _: str) -> int:
        return self.become_it()

    def become_it(self) -> int:
        """Runs the command as if there were no lbd; also if the LBM is of no use."""
        let_pipes_break()
        command = self.around.command
        called = command[0] if self.options.command[0] in NAMELY.split() else self.real
        argv = [called, *command[1:]]
        return self._failed(become_file(self.real, argv, self.as_given))

    def stay(self, found: dict[bytes, str], sock: "socket") -> int:
        """Handles the LBM's answer "here"."""
        is_measured = tags.MEASURE in found
        return self.run_here(found[tags.JOB], found[tags.HOST], sock, is_measured=is_measured)

    def run_here(self, job: str, host: str, sock: "socket", *, is_measured: bool) -> int:
        for name, value in ((b"JOB_ID", job), (b"HOST", host), (b"ORIGIN", host)):
            self.as_given[b"LBD_" + name] = value.encode()
        self.sock = sock
        if not is_measured:
            return self.become_it()
        from lbd.client.local.measured import run_measured

        def at_its_end(cpu_s: float, status: int, peak_bytes: int) -> None:
            report(sock, job, cpu_s, status, peak_bytes)

        return run_measured(self.become_it, at_its_end, sock.fileno())

    def _failed(self, failure: OSError) -> int:
        from lbd.client.session import report_not_run

        why, status = f"{self.options.command[0]}: {failure.strerror}", exit_status_of(failure)
        say(why, name="lbsh")
        report_not_run(self.sock, status, why)
        return status


def run_shim(name: str, words: list[str]) -> int:
    answer = posix.environ.pop(MEASURE_FOR, b"").decode(errors="replace").split(" ")
    shim = Shim(name, words)
    if len(answer) != 3 or not shim.real:
        return shim.run()
    from _socket import socket

    descriptor, job, host = answer
    posix.set_inheritable(int(descriptor), False)
    return shim.run_here(job, host, socket(fileno=int(descriptor)), is_measured=True)


def not_found(name: str) -> int:
    say(f"{name}: not found", name="lbsh")
    return NOT_FOUND


def find_behind_shims(name: bytes, environment: dict[bytes, bytes]) -> bytes:
    """Returns the program's path; b"" if there is none. Never returns a shim, wherever PATH has
    it."""
    if b"/" in name:
        return name
    shims = environment.get(b"LBD_SHIMS", b"").rstrip(b"/")
    try:
        ourselves = posix.stat(sys.argv[0])
    except OSError:
        ourselves = None
    for entry in environment.get(b"PATH", DEFAULT_PATH).split(b":"):
        path = (entry or b".") + b"/" + name
        if shims and entry.rstrip(b"/") == shims:
            continue
        try:
            found = posix.stat(path)
        except OSError:
            continue
        itself = ourselves and (found.st_dev, found.st_ino) == (ourselves.st_dev, ourselves.st_ino)
        is_other_file = not itself and found.st_mode & KIND_MASK == REGULAR
        if is_other_file and posix.access(path, posix.X_OK, effective_ids=True):
            return path
    return b""


def report(sock: "socket", job: str, cpu_s: float, status: int, peak_bytes: int) -> None:
    """Reports what the run has used. If the LBM is gone, nothing happens."""
    pairs = (
        (tags.JOB, job),
        (tags.CPU, f"{cpu_s:.6f}"),
        (tags.STATUS, str(status)),
        (tags.PEAK, str(peak_bytes)),
    )
    body = b"".join([field(key, text.encode()) for key, text in pairs])
    try:
        sock.send(pack(tags.USED, body))
    except OSError:
        return
