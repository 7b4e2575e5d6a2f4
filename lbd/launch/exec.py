"""Becomes a command the way a shell would, with PATH look-up.

`lbrun` uses this when a command runs here, and the keeper's children use it, so it imports nothing
but `posix`.
"""

import posix

ENOENT, ENOEXEC, EACCES, ENOTDIR = 2, 8, 13, 20
PIPE, XFSZ = 13, 25
DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"
SHELL = b"/bin/sh"


def become(argv: list[bytes], environment: dict[bytes, bytes], program: bytes = b"") -> OSError:
    """Executes `argv`; returns only on failure, with the error that execvp would give. `program`:
    the program, if it was already found and checked.

    A file without `#!` is handed to the shell, as execvp(3) does.
    """
    name = program or argv[0]
    if b"/" in name or not name:
        return become_file(name, argv, environment)
    failure = OSError(ENOENT, "not found")
    for directory in environment.get(b"PATH", DEFAULT_PATH).split(b":"):
        error = become_file((directory or b".") + b"/" + name, argv, environment)
        if error.errno not in (ENOENT, ENOTDIR):
            failure = error
            if error.errno != EACCES:
                break
    return failure


def become_file(path: bytes, argv: list[bytes], environment: dict[bytes, bytes]) -> OSError:
    """Executes that file, whatever `argv[0]` says; returns only on failure."""
    try:
        posix.execve(path, argv, environment)
    except OSError as error:
        if error.errno != ENOEXEC:
            return error
    except ValueError as error:  # an embedded NUL
        return OSError(ENOENT, str(error))
    try:
        posix.execve(SHELL, [b"sh", path, *argv[1:]], environment)
    except OSError as error:
        return error


def exit_status_of(error: OSError) -> int:
    """Returns 127 for "not found" and 126 for "cannot be executed"."""
    return 127 if error.errno == ENOENT else 126


def let_pipes_break() -> None:
    """Restores the default action of SIGPIPE and SIGXFSZ. Python ignores them at its start, and
    ignored signals stay ignored through exec."""
    import _signal  # type: ignore[import-not-found]  # `signal` without its enums

    for number in (PIPE, XFSZ):
        _signal.signal(number, _signal.SIG_DFL)
