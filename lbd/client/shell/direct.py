"""A single simple command of `lbsh -c`, run as the shell would run it, without the shell.

Only for shells whose ways are known (dash and bash, whatever name they have here), and only where
nothing in the environment makes them do more. Returns, having done nothing, where the real shell is
to have a look: also when the command cannot be executed, so that the words are the shell's own.
"""

import posix

from lbd.client.complaints import encode
from lbd.client.shell.words import simple_command

# A shell sets these itself, or acts on them.
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
    """Returns whether it has nothing that a shell would drop, set or obey."""
    if any(name in environment for name in TOUCHY):
        return False
    return all(name and name[0] > 57 and NAME.issuperset(name) for name in environment)


def kind_of(shell: bytes) -> bytes:
    """dash or bash, by the name that links lead to; b"" for any other."""
    for _ in range(8):
        try:
            target = posix.readlink(shell)
        except OSError:
            break
        shell = target if target[:1] == b"/" else shell.rpartition(b"/")[0] + b"/" + target
    name = shell.rpartition(b"/")[2]
    return name if name in (b"dash", b"bash") else b""


def logical_directory(environment: dict[bytes, bytes]) -> bytes:
    """Returns PWD as both shells would set it; b"" where that is not plain."""
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
    """The file to execute; b"" where the search has anything unusual about it."""
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
