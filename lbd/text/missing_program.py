"""What to say of a program that could not be executed. The C client has the same words."""

import errno
import re
from collections.abc import Sequence

SHELL_SIGNS = frozenset(" ;|&<>")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
BUILT_IN = frozenset((
    ".", ":", "alias", "bg", "cd", "eval", "exec", "export", "fg", "jobs", "set", "shift", "source",
    "trap", "ulimit", "umask", "unset",
))  # fmt: skip
SHELL_LINE = "not found; lbrun runs a program; for a shell line, use lbrun sh -c 'LINE'"
IN_THE_SHELL = "not found; it is built into the shell; use lbrun sh -c 'LINE'"
AS_OPTION = "not found; to set a variable, use lbrun -e NAME=VALUE COMMAND"


def why_not_run(command: Sequence[str], failure: OSError) -> str:
    """Returns why a command could not be executed."""
    if failure.errno != errno.ENOENT:
        return failure.strerror or ""
    name = command[0]
    if len(command) == 1 and set(name) & SHELL_SIGNS:
        return SHELL_LINE
    if VARIABLE.match(name):
        return AS_OPTION
    if name in BUILT_IN:
        return IN_THE_SHELL
    return "not found" if name and "/" not in name else "No such file or directory"


def complaint(command: Sequence[str], failure: OSError) -> str:
    return f"{command[0]}: {why_not_run(command, failure)}"
