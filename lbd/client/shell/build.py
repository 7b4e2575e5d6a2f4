"""Creates lbsh's shims, and recreates them when PATH or the learnt costs change.

It does not run for each lbsh, only when the stamp (shims.py) is outdated or some seconds old. A new
set is complete before the stamp names it, and sets that shells may still be using stay.
"""

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from lbd.client.complaints import Trouble
from lbd.client.lbm_socket import find_runtime_dirs, may_be_at
from lbd.client.shell.shims import FORMAT, Place, Stamp, read_stamp
from lbd.config.load import load
from lbd.errors import ConfigError, LbdError
from lbd.launch.exec import DEFAULT_PATH
from lbd.local.json_socket import Json, ask
from lbd.policy.invocation import OURS, WHY_STAYS
from lbd.process.file_lock import lock_file
from lbd.text.program_names import by_name

LOCK_WAIT_S = 2.0
ASK_S = 1.0
# A directory changed this recently may change again without a new modification time.
RACY_NS = 50_000_000
SETS_KEPT = 4  # complete sets, for shells that remember where they found a command
LINKS_KEPT = 1000  # links in place of older sets
PATHS_KEPT = 64  # values of PATH
NAMES_MAX = 20_000
SHELL = "/bin/sh"
# Short commands that every `configure` or cmake searches for and records the path of.
EVERYDAY = """
    sed grep egrep fgrep gawk mawk awk cmp diff file pkg-config pkgconf msgfmt gmsgfmt msgmerge
    xgettext ar nm ranlib objcopy objdump readelf strip
    """


def refresh(place: Place, is_stale: bool = False) -> Stamp | None:
    """Returns the current stamp; None if this user can have no shims. Raises OSError, LbdError.

    `is_stale`: the stamp only looks fresh, because lbsh.c touched it and chose this process to ask
    the LBM again.
    """
    if not os.access(place.front, os.X_OK):
        raise LbdError(f"{os.fsdecode(place.front)} not found")
    private(os.path.dirname(place.directory))
    private(place.directory)
    with locked(place.directory):
        old = read_stamp(place.directory)
        if old and old.is_fresh and not is_stale and old.circumstances == place.circumstances():
            return old  # another process has just updated it
        circumstances = settled(place)
        generation, stays = what_stays(old)
        same = old is not None and old.circumstances == circumstances
        if old and same and old.generation == generation:
            os.utime(place.directory + b"/stamp")
            return old
        names = wanted_names(place.path, stays)
        number = install(place, names, old)
        head = b"N %s\nG %s\nS %s\n" % (number, generation, find_shell(place))
        write_stamp(place.directory, FORMAT + head + circumstances)
    forget_old_paths(os.path.dirname(place.directory), place.directory)
    return read_stamp(place.directory)


def private(directory: bytes) -> None:
    """Creates a directory for this user only. Raises OSError if it is not private, or was not."""
    os.makedirs(os.path.dirname(directory), mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    if need_own(directory).st_mode & 0o077:
        os.chmod(directory, 0o700)


def need_own(directory: bytes) -> os.stat_result:
    """Raises OSError if it is not this user's, or others could write in it: it may hold what they
    wrote."""
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(1, f"{os.fsdecode(directory)} is owned by another user")
    if status.st_mode & 0o022:
        raise PermissionError(1, f"{os.fsdecode(directory)} is writable by others; remove it")
    return status


@contextlib.contextmanager
def locked(directory: bytes) -> Iterator[None]:
    """Holds a lock, so that one process at a time updates the shims. The wait is bounded, in case
    the holder is stopped. Raises TimeoutError."""
    try:
        descriptor = lock_file(directory + b"/lock", LOCK_WAIT_S)
    except TimeoutError:
        raise TimeoutError(110, "another lbsh is updating the shims") from None
    try:
        yield
    finally:
        os.close(descriptor)


def settled(place: Place) -> bytes:
    """Returns the circumstances, with -1 for what changed just now: the next lbsh checks again."""
    now_ns = time.time_ns()
    lines = place.circumstances().split(b"\n")
    for at, line in enumerate(lines):
        changed, space, entry = line.partition(b" ")
        if space and changed.isdigit() and abs(int(changed) - now_ns) < RACY_NS:
            lines[at] = b"-1 " + entry
    return b"\n".join(lines)


def what_stays(old: Stamp | None) -> tuple[bytes, set[str]]:
    """Returns the LBM's generation and the names that need no shim. Without an answer from the LBM,
    the present generation."""
    lists = users_lists()
    ruled = [rule.partition(":")[0].split(" ")[0] for rule in lists["features"]]
    always = by_name((*lists["always"], *ruled))
    stays = {*WHY_STAYS, *EVERYDAY.split()}.difference(always)
    question: Json = {"op": "shims", **lists}
    try:
        directories = find_runtime_dirs(None)
    except Trouble:  # a missing lbd.toml is reported when a command runs
        directories = []
    for directory in directories:
        try:
            if not may_be_at(directory, os.lstat(directory).st_uid):
                continue
            reply = ask(Path(directory, "lbm.sock"), question, ASK_S)
        except (OSError, LbdError):
            continue
        names = reply.get("shimless")
        if isinstance(names, list):
            return str(reply.get("generation")).encode(), stays.union(map(str, names))
    return (old.generation if old else b"-"), stays


def users_lists() -> dict[str, list[str]]:
    """Returns the command lists of the caller's lbd.toml."""
    try:
        lists = load(None).eligibility
    except ConfigError:
        return {"always": [], "never": [], "features": []}  # the daemons report the error
    return {
        "always": list(lists.always),
        "never": list(lists.never),
        "features": list(lists.features),
    }


def wanted_names(path: bytes, stays: set[str]) -> set[bytes]:
    """Returns every command on PATH that is worth asking about."""
    left_out = {os.fsencode(name) for name in stays | OURS}
    found: set[bytes] = set()
    for directory in path.split(b":"):
        if not directory.startswith(b"/") or directory.endswith(b"/sbin"):
            continue
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name not in left_out and is_command(entry):
                        found.add(entry.name)
        except OSError:
            continue
        if len(found) > NAMES_MAX:
            break
    return found


def is_command(entry: "os.DirEntry[bytes]") -> bool:
    try:
        return entry.is_file() and os.access(entry.path, os.X_OK)
    except OSError:
        return False


def install(place: Place, names: set[bytes], old: Stamp | None) -> bytes:
    """Installs a set with these names and returns its number; the present one if it is the same."""
    directory = place.directory
    everything = directory + b"/all"
    os.makedirs(everything, mode=0o700, exist_ok=True)
    link_all(everything, names, place.front)
    numbers = sorted(int(n) for n in os.listdir(directory) if n.isdigit())
    if old is not None and old.set_number.isdigit() and int(old.set_number) in numbers:
        present = b"%s/.%s" % (directory, old.set_number)
        if os.path.isdir(present) and set(os.listdir(present)) == names:
            link_all(present, names, place.front)
            return old.set_number
    number = b"%d" % ((numbers[-1] if numbers else 0) + 1)
    made = b"%s/.%s" % (directory, number)
    shutil.rmtree(made, ignore_errors=True)
    os.mkdir(made, 0o700)
    link_all(made, names, place.front)
    replace_link(directory + b"/" + number, b"." + number)
    retire(directory, numbers)
    return number


def link_all(directory: bytes, names: set[bytes], front: bytes) -> None:
    """Links each NAME to the front; a link to another front is replaced atomically.

    All are hard links to one symbolic link: thousands of new symbolic links cost a second where
    these cost a hundredth of that.
    """
    link = os.path.dirname(directory) + b"/front"
    if not os.path.islink(link) or os.readlink(link) != front:
        replace_link(link, front)
    for name in names:
        path = directory + b"/" + name
        try:
            os.link(link, path, follow_symlinks=False)
        except FileExistsError:
            if os.readlink(path) != front:
                replace_link(path, front)
        except OSError:  # a file system without hard links to symbolic links
            replace_link(path, front)


def replace_link(path: bytes, target: bytes) -> None:
    fresh = b"%s.new-%d" % (path, os.getpid())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh)
    os.symlink(target, fresh)
    os.replace(fresh, path)


def retire(directory: bytes, numbers: list[int]) -> None:
    """Turns all but the newest sets into links to `all`; removes the oldest of very many links."""
    for number in numbers[: -(SETS_KEPT - 1)]:
        name = b"%d" % number
        whole = b"%s/.%s" % (directory, name)
        if os.path.isdir(whole):
            replace_link(b"%s/%s" % (directory, name), b"all")
            shutil.rmtree(whole, ignore_errors=True)
    for number in numbers[:-LINKS_KEPT]:
        os.unlink(b"%s/%d" % (directory, number))


def find_shell(place: Place) -> bytes:
    """Returns the shell for -c and scripts: the configured one, else /bin/sh."""
    chosen = os.fsdecode(place.chosen_shell)
    if not chosen:
        try:
            chosen = load(None).shell.program
        except ConfigError:
            chosen = ""  # the daemons report the error
    path = os.fsdecode(place.path or DEFAULT_PATH)
    found = shutil.which(chosen, path=path) if chosen else SHELL
    if chosen and (found is None or os.path.basename(os.path.realpath(found)) == "lbsh"):
        raise LbdError(f"shell {chosen} not found; check $LBD_SHELL and shell.program")
    return os.fsencode(found or SHELL)


def write_stamp(directory: bytes, text: bytes) -> None:
    fresh = directory + b"/stamp.new"
    with open(fresh, "wb") as file:
        file.write(text)
    os.replace(fresh, directory + b"/stamp")


def forget_old_paths(base: bytes, present: bytes) -> None:
    """Drops the least recently used values of PATH if there are very many."""
    used = []
    for entry in os.scandir(base):
        with contextlib.suppress(OSError):
            used.append((os.stat(entry.path + b"/stamp").st_mtime, entry.path))
    for _, directory in sorted(used)[:-PATHS_KEPT]:
        if directory != present:
            shutil.rmtree(directory, ignore_errors=True)
