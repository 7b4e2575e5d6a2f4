"""Checks the names of `-o` and `--error`, as far as is possible where the job is submitted."""

import posix
import stat

from lbd.client.complaints import Trouble

KNOWN = "%j (job id), %A (array id), %a (array index), %h (host) and %%"


def check_place(option: str, path: bytes, directory: bytes) -> None:
    """Raises Trouble if no job could write this file: because a directory in its name, up to the
    first pattern, is missing, or because it is a directory itself."""
    folder = path.rpartition(b"/")[0]
    before = folder.partition(b"%")[0]
    known = before if before == folder else before.rpartition(b"/")[0]
    where = (known or b"/") if path.startswith(b"/") else in_full(known, directory)
    typed = f"{option} {path.decode(errors='replace')}"
    try:
        if not is_directory(where):
            raise NotADirectoryError(20, "not a directory")
        if b"%" not in path and is_directory(in_full(path, directory)):
            raise IsADirectoryError(21, "is a directory")
    except FileNotFoundError as problem:
        if problem.filename == where:  # the file itself will be created
            shown = where.decode(errors="replace")
            raise Trouble(f"{typed}: there is no directory {shown}; create it first") from None
    except OSError as problem:
        raise Trouble(f"{typed}: {problem.strerror}") from None


def in_full(path: bytes, directory: bytes) -> bytes:
    return path if path.startswith(b"/") else directory + b"/" + path


def is_directory(path: bytes) -> bool:
    """Raises OSError."""
    return stat.S_ISDIR(posix.stat(path).st_mode)


def doubt(option: str, path: bytes, directory: bytes, indexes: str) -> str:
    """Returns a warning about a name that is probably a mistake, else "". `indexes`: of an array;
    "" if it is none."""
    if b"%" not in path:
        return ""
    from lbd.text.name_patterns import fill_in, unknown_in

    typed = f"{option} {path.decode(errors='replace')}"
    if sign := unknown_in(path).decode(errors="replace"):
        return f"{typed}: {sign} is no pattern and stays as it is; there are {KNOWN}"
    if not indexes and fill_in(path, "", None, "") != fill_in(path, "", 0, ""):
        return f"{typed}: %a is empty without --array"
    folder = path.rpartition(b"/")[0]
    if fill_in(folder, "", 0, "") != fill_in(folder, "1", 0, ""):
        return (
            f"{typed}: lbd does not create its directory, which must be there when the job begins"
        )
    first = int(indexes[: len(indexes) - len(indexes.lstrip("0123456789"))] or 0)
    one = fill_in(folder, "", first, "")
    try:
        if one != fill_in(folder, "", first, "h") or is_directory(in_full(one, directory)):
            return ""
    except OSError:
        pass
    return f"{typed}: there is no directory {one.decode(errors='replace')}; lbd does not create it"
