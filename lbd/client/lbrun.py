"""`lbrun`: runs one command on the best host.

Start-up time matters most, so the common path imports built-in modules only (`posix` for `os`,
`_socket`, `_signal`); modules for other options are imported when used. The protocol is described
in local/client_tags.py.
"""

import posix
import sys

from lbd.client.complaints import FAILED, Trouble, encode, say
from lbd.client.lbm_socket import connect, find_runtime_dirs
from lbd.client.options import Options, depth, read_options
from lbd.client.session import (
    ENDED,
    INT,
    LBM_SILENT_S,
    REPLY_LIMIT_BYTES,
    Session,
    read_fields,
    report_not_run,
)
from lbd.client.surroundings import (
    Surroundings,
    find_terminal,
    make_environment,
    make_notice,
    make_request,
    working_directory,
)
from lbd.launch.exec import become, exit_status_of, let_pipes_break
from lbd.local import client_tags as tags
from lbd.local.frames import Splitter, pack

TYPE_CHECKING = False  # importing typing would cost a millisecond
if TYPE_CHECKING:
    from _socket import socket

UNANSWERED = b"LBD_UNANSWERED"  # set by lbrun.c after the LBM did not answer: the reason
# under any other name it is a shim for that command
OWN_NAMES = ("lbrun", "lbrun-python", "lbrun.py")


def main(arguments: list[str] | None = None) -> None:
    """Never returns."""
    options = Options()
    words = sys.argv[1:] if arguments is None else arguments
    name = sys.argv[0].rpartition("/")[2] if arguments is None else "lbrun"
    is_shim = name not in OWN_NAMES or words[:1] == ["--shim"]
    try:
        if is_shim:
            status = run_as_shim(name, words)
        else:
            options = read_options(words)
            status = run(options)
    except (Trouble, OSError) as problem:
        if is_shim or "--json" not in words:
            say(str(problem))
        else:
            from lbd.client.help import say_as_wanted

            say_as_wanted(problem, words)
        status = FAILED
        if "status_file" in options.values:
            from lbd.client.status_file import write_failure

            write_failure(options.values["status_file"], str(problem))
    except KeyboardInterrupt:
        status = 128 + INT
    posix._exit(status)


def run_as_shim(name: str, words: list[str]) -> int:
    from lbd.client.shell.shim import run_shim

    if name in OWN_NAMES:
        name, words = words[1] if words[1:] else "", words[2:]
    return run_shim(name, words)


def run(options: Options) -> int:
    """Returns the exit status, unless this process becomes the command."""
    if options.plain & {"help", "version", "explain"}:
        from lbd.client.help import show

        return show(options)
    around = Surroundings()
    unanswered = posix.environ.pop(UNANSWERED, b"")
    around.environment = make_environment(options)
    around.command = [encode(word) for word in options.command]
    around.directory = working_directory(options)
    if options.send or options.fetch:
        from lbd.client.staging import Staging

        around.staging = Staging(options, around.directory)
    if options.queued:
        from lbd.client.queue import run_queued

        return run_queued(options, around)
    if unanswered:
        return without_daemon(options, around, unanswered.decode(errors="replace"))
    runtime_dirs = find_runtime_dirs(options.values.get("config"))
    sock = connect(runtime_dirs)
    if sock is None:
        from lbd.client.start_wait import connect_once_started, none_found

        if may_not_stay(options) or options.needs:
            sock, what = connect_once_started(runtime_dirs)
        else:
            what = none_found(runtime_dirs)
    if sock is None:
        return without_daemon(options, around, what)
    if "local" in options.plain and not options.needs:
        job = local_job(sock, make_notice(options, around.command), around.environment)
        return run_here(options, around, job, "--local was given", sock)
    terminal = find_terminal(options, around)
    body = make_request(options, around, terminal)
    session = Session(sock, options, around, terminal, Here(options, around))
    try:
        session.ask(pack(tags.RUN, body))
    except TimeoutError:
        return session.without_answer()
    except (BrokenPipeError, ConnectionResetError):
        return session.without_answer(ENDED)
    except OSError as problem:
        raise Trouble(f"cannot send the request to the LBM: {problem.strerror}") from None
    return session.until_done()


class Here:
    """How a command that stays on this host is run."""

    is_silent = False

    def __init__(self, options: Options, around: Surroundings) -> None:
        self.options = options
        self.around = around

    def stay(self, found: dict[bytes, str], sock: "socket") -> int:
        note_place(self.around.environment, found)
        return run_here(self.options, self.around, found[tags.JOB], found[tags.REASON], sock)

    def without_lbm(self, what: str) -> int:
        return without_daemon(self.options, self.around, what)


def run_here(
    options: Options, around: Surroundings, job: str, reason: str, sock: "socket | None" = None
) -> int:
    """Becomes the command; stays as its parent only if an option needs that. `sock`: of the LBM,
    which hears if it cannot."""
    try:
        enter(options, around, job)
    except Trouble as problem:
        report_not_run(sock, FAILED, str(problem))
        raise
    if "verbose" in options.plain:
        host = around.environment.get(b"LBD_HOST", b"").decode() if job else ""
        place = f"on {host} (this host)" if host else "here"
        say(f"{options.command[0]} runs {place}: {reason}")
    command, environment = around.command, around.environment

    def complain(failure: OSError) -> str:
        from lbd.text.missing_program import complaint

        why = complaint(options.command, failure)
        say(why)
        report_not_run(sock, exit_status_of(failure), why)
        return why

    fetches = around.staging is not None and bool(around.staging.fetch)
    if options.timeout_s or options.memory_bytes or "status_file" in options.values or fetches:
        from lbd.client.local.supervised import run_supervised

        if around.staging is None:
            return run_supervised(options, command, environment, complain)
        return run_supervised(options, command, environment, complain, around.staging.why_not_made)
    if "tty" in options.plain:
        from lbd.client.local import own_terminal

        if own_terminal.is_wanted(options):
            return own_terminal.run_in_terminal(command, environment, complain)
    if "no_stdin" in options.plain:
        empty_input()
    let_pipes_break()
    failure = become(command, environment)
    complain(failure)
    return exit_status_of(failure)


def enter(options: Options, around: Surroundings, job: str) -> None:
    """Prepares the environment and the directory of a command that runs here. Raises Trouble if it
    may not, or cannot."""
    environment, directory = around.environment, around.directory
    host = environment.get(b"LBD_HOST", b"").decode() if job else ""
    if "remote" in options.plain:
        raise Trouble(f"it can only run here, on {host}, but --remote forbids that")
    if host and host in options.excluded:
        raise Trouble(f"it can only run here, on {host}, but --exclude forbids that")
    if job:
        environment[b"LBD_JOB_ID"] = job.encode()
    environment[b"LBD_DEPTH"] = b"%d" % (int(depth(environment)) + 1)
    if "chdir" in options.values:
        try:
            posix.chdir(directory)
        except OSError as problem:
            raise Trouble(f"{directory.decode(errors='replace')}: {problem.strerror}") from None


def empty_input() -> None:
    null = posix.open("/dev/null", posix.O_RDONLY)
    if null:
        posix.dup2(null, 0)


def may_not_stay(options: Options) -> bool:
    return "host" in options.values or bool(options.plain & {"remote", "no_fallback"})


def without_daemon(options: Options, around: Surroundings, what: str) -> int:
    """Runs the command here with one warning, or fails if the user's options forbid that. Used when
    no LBM answers."""
    runtime_dirs = find_runtime_dirs(options.values.get("config"))
    if options.needs:
        from lbd.client.start_wait import remedy

        advice = remedy(what, runtime_dirs)
        raise Trouble(f"{what}, so the resources it needs cannot be checked{advice}")
    if "local" in options.plain:
        return run_here(options, around, "", "--local was given")
    if may_not_stay(options):
        from lbd.client.start_wait import remedy

        raise Trouble(f"{what}{remedy(what, runtime_dirs)}")
    from lbd.client.local.fallback import FallbackSlots, take_turn
    from lbd.client.start_wait import lab_remedy

    home = FallbackSlots.from_config(options.values.get("config"))
    what += home.fault
    if home.name in options.excluded:
        raise Trouble(f"{what}, and --exclude forbids running here, on {home.name}")
    what += lab_remedy(what, runtime_dirs)
    runtime_dir, environment = runtime_dirs[0], around.environment
    take_turn(int(depth(environment)), runtime_dir, home.slots, lambda how: say(f"{what}; {how}"))
    environment[b"LBD_HOST"] = environment[b"LBD_ORIGIN"] = encode(home.name)
    return run_here(options, around, "", "no LBM answers")


def local_job(sock: "socket", notice: bytes, environment: dict[bytes, bytes]) -> str:
    """Returns the id of a job that stays here, "" if the LBM does not answer."""
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
    """Sets the variables that say where a command that stays (HERE) runs."""
    environment[b"LBD_HOST"] = environment[b"LBD_ORIGIN"] = found[tags.HOST].encode()
    if tags.SLOTS in found:
        environment[b"LBD_SLOTS"] = found[tags.SLOTS].encode()
    for line in found.get(tags.VARIABLES, "").splitlines():
        name, _, value = line.encode().partition(b"=")
        environment[name] = value
