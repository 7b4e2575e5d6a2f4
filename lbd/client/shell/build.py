"""Makes the shims of lbsh, and makes them again when PATH or what was learnt has changed.

Not on the way of every lbsh: only when the stamp (see lbsh_shims.py) says so, or is some seconds
old. A new set is complete before the stamp names it, and sets that shells may still be using stay.
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
# A directory changed so lately may change again without its time showing it.
RACY_NS = 50_000_000
SETS_KEPT = 4  # whole, for shells that remember where they found a command
LINKS_KEPT = 1000  # of those that are no longer whole
PATHS_KEPT = 64  # values of PATH
NAMES_MAX = 20_000
SHELL = "/bin/sh"
# Short, and sought by every `configure` or cmake, which write down where they found them.
EVERYDAY = """
    sed grep egrep fgrep gawk mawk awk cmp diff file pkg-config pkgconf msgfmt gmsgfmt msgmerge
    xgettext ar nm ranlib objcopy objdump readelf strip
    """


def refresh(place: Place, is_stale: bool = False) -> Stamp | None:
    """The stamp as it should be; None if this user can have no shims. Raises OSError, LbdError.

    `is_stale`: it looks fresh because lbsh.c has sent us, and only us, to ask the LBM again.
    """
    if not os.access(place.front, os.X_OK):
        raise LbdError(f"{os.fsdecode(place.front)} not found")
    private(os.path.dirname(place.directory))
    private(place.directory)
    with locked(place.directory):
        old = read_stamp(place.directory)
        if old and old.is_fresh and not is_stale and old.circumstances == place.circumstances():
            return old  # somebody else has just done it
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
    """Make it, for this user only. Raises OSError if it is not that, or was not: what others could
    write in may hold what they wrote."""
    os.makedirs(os.path.dirname(directory), mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(1, f"{os.fsdecode(directory)} is owned by another user")
    if status.st_mode & 0o022:
        raise PermissionError(1, f"{os.fsdecode(directory)} is writable by others; remove it")
    if status.st_mode & 0o077:
        os.chmod(directory, 0o700)


@contextlib.contextmanager
def locked(directory: bytes) -> Iterator[None]:
    """One at a time; not for ever, should that one be stopped. Raises TimeoutError."""
    try:
        descriptor = lock_file(directory + b"/lock", LOCK_WAIT_S)
    except TimeoutError:
        raise TimeoutError(110, "another lbsh is updating the shims") from None
    try:
        yield
    finally:
        os.close(descriptor)


def settled(place: Place) -> bytes:
    """The circumstances, with 0 for what changed just now: the next lbsh looks again."""
    now_ns = time.time_ns()
    lines = place.circumstances().split(b"\n")
    for at, line in enumerate(lines):
        changed, space, entry = line.partition(b" ")
        if space and changed.isdigit() and abs(int(changed) - now_ns) < RACY_NS:
            lines[at] = b"-1 " + entry
    return b"\n".join(lines)


def what_stays(old: Stamp | None) -> tuple[bytes, set[str]]:
    """What the LBM says of names that need no shim. Without an answer: the set as it is."""
    lists = users_lists()
    ruled = [rule.partition(":")[0].split(" ")[0] for rule in lists["features"]]
    always = by_name((*lists["always"], *ruled))
    stays = {*WHY_STAYS, *EVERYDAY.split()}.difference(always)
    question: Json = {"op": "shims", **lists}
    try:
        directories = find_runtime_dirs(None)
    except Trouble:  # no such lbd.toml: whoever runs a command will be told
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
    """What the caller's lbd.toml says of its commands."""
    try:
        lists = load(None).eligibility
    except ConfigError:
        return {"always": [], "never": [], "features": []}  # the daemons say what is wrong with it
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
    """A set with these names; its number. The present one if it is the same already."""
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
    """NAME -> front for each; where it is another front, it is replaced in one step.

    All are names of one link: thousands of new ones cost a second where these cost a hundredth.
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
        except OSError:  # a file system that has no such links
            replace_link(path, front)


def replace_link(path: bytes, target: bytes) -> None:
    fresh = b"%s.new-%d" % (path, os.getpid())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh)
    os.symlink(target, fresh)
    os.replace(fresh, path)


def retire(directory: bytes, numbers: list[int]) -> None:
    """All but the newest sets become links to `all`; of very many links the oldest go."""
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
            chosen = ""  # the daemons say what is wrong with it
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
    """Of very many values of PATH, drops the least recently used ones."""
    used = []
    for entry in os.scandir(base):
        with contextlib.suppress(OSError):
            used.append((os.stat(entry.path + b"/stamp").st_mtime, entry.path))
    for _, directory in sorted(used)[:-PATHS_KEPT]:
        if directory != present:
            shutil.rmtree(directory, ignore_errors=True)
