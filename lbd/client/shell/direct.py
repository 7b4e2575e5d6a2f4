"""Runs a single simple command of `lbsh -c` as the shell would, without the shell.

Only for shells whose behaviour is known (dash and bash, under any name), and only where nothing in
the environment makes them do more. Returns without effect if the real shell is needed; also if the
command cannot be executed, so that the shell prints the error.
"""

import posix

from lbd.client.complaints import encode
from lbd.client.shell.words import simple_command

# Variables that a shell sets itself or acts on.
TOUCHY = (b"IFS", b"OPTIND", b"PPID", b"PS1", b"PS2", b"PS4", b"OLDPWD", b"BASH_ENV", b"BASHOPTS",
          b"SHELLOPTS", b"POSIXLY_CORRECT", b"ENV", b"FUNCNEST", b"UID", b"EUID")  # fmt: skip
NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def run_directly(text: str, shell: bytes, environment: dict[bytes, bytes]) -> None:
    """Returns if the command line needs the shell."""
    words = simple_command(text)
    if words is None or not is_untouched(environment):
        return
    kind = kind_of(shell)
    directory = logical_directory(environment)
    if not kind or not directory:
        return
    command = [encode(word) for word in words]
    path = find_command(command[0], environment[b"PATH"])
    if not path:
        return
    mine = {**environment, b"PWD": directory}
    if kind == b"bash":
        mine.setdefault(b"SHLVL", b"0")
        mine[b"_"] = path
    try:
        posix.execve(path, command, mine)
    except OSError:
        return


def is_untouched(environment: dict[bytes, bytes]) -> bool:
    """Returns whether the environment has nothing that a shell would drop, set or obey."""
    if any(name in environment for name in TOUCHY):
        return False
    return all(name and name[0] > 57 and NAME.issuperset(name) for name in environment)


def kind_of(shell: bytes) -> bytes:
    """Returns dash or bash, from the name after following links; b"" for any other shell."""
    for _ in range(8):
        try:
            target = posix.readlink(shell)
        except OSError:
            break
        shell = target if target[:1] == b"/" else shell.rpartition(b"/")[0] + b"/" + target
    name = shell.rpartition(b"/")[2]
    return name if name in (b"dash", b"bash") else b""


def logical_directory(environment: dict[bytes, bytes]) -> bytes:
    """Returns PWD as both shells would set it; b"" if that is unclear."""
    spelled = environment.get(b"PWD", b"")
    try:
        if spelled.startswith(b"/") and b"/." not in spelled:
            here, there = posix.stat("."), posix.stat(spelled)
            if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
                return spelled
        return posix.getcwdb()
    except OSError:
        return b""


def find_command(name: bytes, path: bytes) -> bytes:
    """Returns the file to execute; b"" if the search is unusual in any way."""
    if b"/" in name:
        return name
    for directory in path.split(b":"):
        if not directory.startswith(b"/"):
            return b""
        found = directory + b"/" + name
        try:
            mode = posix.stat(found).st_mode
        except OSError:
            continue
        return found if mode & 0o170000 == 0o100000 and posix.access(found, posix.X_OK) else b""
    return b""
