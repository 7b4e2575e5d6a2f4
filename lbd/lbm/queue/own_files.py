"""The files that an attempt writes to instead of the spool: those of `-o` and `--error`.

A shell opens them as the job's user, in its directory, and becomes the command. /bin/sh may drop
variables whose names are none of its own, as dash does: so functions that bash has exported
(BASH_FUNC_f%%) were lost. Where a job has such variables, it is bash, if this host has one.
"""

import os
import re
from collections.abc import Sequence

from lbd.net.gen import dispatch_pb2
from lbd.text.job_phrases import CANNOT_OPEN
from lbd.text.name_patterns import fill_in, shown_id
from lbd.text.one_line import one_line

# A file that cannot be opened is our failure, 125, not a status of the command's.
EXIT_CANNOT_OPEN = 125
SH = [b"/bin/sh", b"-c"]
BASH = b"/bin/bash"
# As `privileged`, it reads neither $BASH_ENV nor functions, which it passes on all the same.
PRIVILEGED, NO_LONGER = [BASH, b"-pc"], b"set +p; "  # for the command's $SHELLOPTS
BOTH = b'o=$1; shift 2; command exec >"$o" 2>&1 || exit 125; exec "$@"'
APART = b'o=$1 e=$2; shift 2; command exec >"$o" 2>"$e" || exit 125; exec "$@"'
ERROR_ONLY = b'e=$2; shift 2; command exec 2>"$e" || exit 125; exec "$@"'

# `lbd: 1: cannot create out: Permission denied`: dash; `lbd: line 1: out: Permission denied`: bash
SHELL = re.compile(rb"lbd: (?:line )?\d+: (?:can(?:not|'t) create )?(.*): ([^:\n]*)\n", re.DOTALL)
NO_DIRECTORY = (b"Directory nonexistent", b"nonexistent directory")  # dash, busybox
WHY_CHARS_MAX = 100


def own_files(start: dispatch_pb2.Start, host: str) -> tuple[bytes, bytes]:
    """Returns the files for its output and its errors, b"" for none."""
    spec = start.spec
    if not (spec.output or spec.error):
        return b"", b""
    index = start.array_index if start.HasField("array_index") else None
    job = shown_id(start.job, start.array, start.array_index)
    return fill_in(spec.output, job, index, host), fill_in(spec.error, job, index, host)


def writing_to(
    output: bytes, error: bytes, argv: Sequence[bytes], *, appends: bool, odd_names: bool
) -> list[bytes]:
    """`odd_names`: whether the command has variables that /bin/sh may drop."""
    script = APART if output and error else BOTH if output else ERROR_ONLY
    if appends:
        script = script.replace(b">", b">>").replace(b">>&", b">&")
    shell = SH
    if odd_names and os.access(BASH, os.X_OK):
        shell, script = PRIVILEGED, NO_LONGER + script
    return [*shell, script, b"lbd", output, error, *argv]


def why_not_opened(said: bytes, output: bytes, error: bytes) -> str:
    """Returns why a file was not opened, from the shell's output `said`; "" if that is the output
    of a command that has ended with the same status."""
    found = SHELL.fullmatch(said)
    if not found or not found[1] or found[1] not in (output, error):
        return ""
    why = b"No such directory" if found[2] in NO_DIRECTORY else found[2]
    shown = one_line(os.fsdecode(found[1]), 4 * WHY_CHARS_MAX)
    return f"{CANNOT_OPEN} {shown}: {one_line(os.fsdecode(why), WHY_CHARS_MAX)}"
