"""`lbsh`: the user's own shell, whose eligible commands go where there is room.

It is not a shell: it puts a private directory of shims first on PATH (see shims.py) and becomes the
shell that parses and executes. Each shim is the front under a command's name; it asks the LBM and
either becomes that command or lets another host run it. If `-c` gives one simple command, it is run
directly, since what the shell would do is known.

It is started once for each line of a Makefile, so nothing heavy is imported, as in lbrun.
"""

import posix
import sys

from lbd.client import complaints
from lbd.client.complaints import encode
from lbd.client.options import Options, depth
from lbd.client.shell import shims as shims
from lbd.client.shell.options import Invocation, read_invocation
from lbd.client.surroundings import Surroundings, make_environment
from lbd.launch.exec import DEFAULT_PATH, let_pipes_break

SHELL = b"/bin/sh"
NOT_FOUND, CANNOT_EXECUTE = 127, 126


def main(arguments: list[str] | None = None) -> None:
    """Never returns."""
    Surroundings()  # notes whether there is a standard error, before anything is opened
    words = sys.argv[1:] if arguments is None else arguments
    try:
        status = run(words)
    except OSError as problem:
        say(f"{problem.filename or ''}: {problem.strerror}")
        status = NOT_FOUND if problem.errno == 2 else CANNOT_EXECUTE
    posix._exit(status)


def run(words: list[str]) -> int:
    """Returns the exit status, unless this process becomes the shell."""
    called, link_to, is_stale = b"lbsh", b"", False
    if words[:1] in (["--called"], ["--stale"]):  # added by lbsh.c
        is_stale, called, link_to = words[0] == "--stale", encode(words[1]), encode(words[2])
        words = words[3:]
    if words[:1] in (["--help"], ["--version"]):
        from lbd.client.shell.help import show

        return show(words[0])
    environment = make_environment(Options())
    if words[:1] == ["--config"] and len(words) > 1:
        environment[b"LBD_CONFIG"] = encode(words[1])
        words = words[2:]
    invocation = read_invocation(words)
    place = shims.Place(environment, link_to or front())
    stamp = None
    if int(depth(environment)) == 0:  # a command moved once does not move again
        stamp = usable_stamp(place, is_stale)
    environment.pop(b"LBD_SHIMS", None)
    environment[b"PATH"] = place.path or DEFAULT_PATH
    if stamp is not None:
        directory = b"%s/%s" % (place.directory, stamp.set_number)
        environment[b"LBD_SHIMS"] = directory
        environment[b"PATH"] = place.search_path(directory)
    let_pipes_break()
    shell = choose_shell(invocation, stamp, place, environment)
    if stamp is not None and invocation.is_direct and not called.startswith(b"-"):
        from lbd.client.shell.direct import run_directly

        run_directly(invocation.text or "", shell, environment)
    is_login = invocation.is_login or called.startswith(b"-")
    if stamp is not None and is_login and shell.endswith(b"/bash"):
        keep_shims_first(environment)
    posix.execve(shell, [name_for(shell, called), *map(encode, words)], environment)


def name_for(shell: bytes, called: bytes) -> bytes:
    """Called by another name, as by `exec -a` or through a link, the shell gets that name."""
    if called.rpartition(b"/")[2] == b"lbsh":
        return shell
    return b"-" + shell.rpartition(b"/")[2] if called == b"-lbsh" else called


def usable_stamp(place: shims.Place, is_stale: bool) -> shims.Stamp | None:
    """Returns the stamp. If there can be no shims, prints why and returns None."""
    stamp = shims.read_stamp(place.directory)
    if stamp and stamp.is_fresh and not is_stale and stamp.circumstances == place.circumstances():
        return stamp
    from lbd.client.shell.build import refresh
    from lbd.errors import LbdError

    try:
        return refresh(place, is_stale)
    except (OSError, LbdError) as problem:
        what = getattr(problem, "strerror", None) or problem
        say(f"no shims, so commands run here: {what}")
        return None


def choose_shell(
    invocation: Invocation,
    stamp: shims.Stamp | None,
    place: shims.Place,
    environment: dict[bytes, bytes],
) -> bytes:
    """Returns the real shell's path, following the configured choice everywhere."""
    if stamp is not None and stamp.shell != SHELL:
        return stamp.shell
    if place.chosen_shell:
        return find(place.chosen_shell, place.path)
    if not is_interactive(invocation):
        return SHELL
    usual = environment.get(b"SHELL", b"")
    if usual.rpartition(b"/")[2] not in (b"", b"lbsh") and posix.access(usual, posix.X_OK):
        return usual
    try:
        return find(b"bash", place.path)
    except FileNotFoundError:
        return SHELL


def find(name: bytes, path: bytes) -> bytes:
    """Raises FileNotFoundError."""
    if b"/" in name:
        return name
    for directory in (path or DEFAULT_PATH).split(b":"):
        found = directory + b"/" + name
        if directory.startswith(b"/") and posix.access(found, posix.X_OK):
            return found
    raise FileNotFoundError(2, "not found", name.decode(errors="replace"))


def is_interactive(invocation: Invocation) -> bool:
    if "i" in invocation.letters:
        return True
    return invocation.reads_input and posix.isatty(0) and posix.isatty(2)


def keep_shims_first(environment: dict[bytes, bytes]) -> None:
    """Puts the shims back at the first prompt of a login bash, whose files set PATH again."""
    before = environment.get(b"PROMPT_COMMAND", b"")
    again = b"PROMPT_COMMAND=" + quoted(before) if before else b"unset PROMPT_COMMAND"
    environment[b"PROMPT_COMMAND"] = (
        b'case ":$PATH:" in *":$LBD_SHIMS:"*) ;; *) PATH=$LBD_SHIMS:$PATH ;; esac; ' + again
    )


def quoted(text: bytes) -> bytes:
    return b"'" + text.replace(b"'", b"'\\''") + b"'"


def front() -> bytes:
    """Returns the target of a shim's link: the `lbrun` installed beside us."""
    path: str = getattr(sys.modules["__main__"], "__file__", None) or sys.argv[0]
    name = encode(path)
    try:
        while True:
            target = posix.readlink(name)
            name = target if target[:1] == b"/" else name.rpartition(b"/")[0] + b"/" + target
    except OSError:
        pass
    directory = name.rpartition(b"/")[0] or b"."
    if not directory.startswith(b"/"):
        directory = posix.getcwdb() + b"/" + directory
    return directory + b"/lbrun"


def say(text: str) -> None:
    complaints.say(text, name="lbsh")
