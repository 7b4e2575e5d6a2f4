"""Where this user's shims are, and whether they are current, without scanning directories.

BASE/shims-HOST/KEY/ belongs to one value of PATH (KEY is its hash), since another PATH has other
commands. It holds:

    stamp       which set of shims is current, and what it was made from
    N -> .N     a set: NAME -> the front, for each command worth asking about; what PATH names
    all         every NAME that was ever in a set

PATH names a set by its number, because shells remember where they found a command. An old set is
replaced by a link to `all`, so a path recorded by `configure` or cmake keeps working.

lbsh.c reads the same stamp, so the format is fixed: lines of one letter and a value, then, from the
line `P` on, the circumstances, which must be equal now.
"""

import posix

from lbd.launch.own_places import is_ours_alone

FORMAT = b"lbd-shims 1\n"
FRESH_S = 30.0  # within this time the LBM is not asked whether the set has changed
STAMP_MAX_BYTES = 1 << 16
OURS_ONLY = posix.O_PATH | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC
PLAIN_FILE = posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC
FNV_OFFSET, FNV_PRIME, MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


class Place:
    """Where this caller's shims are, according to the environment."""

    def __init__(self, environment: dict[bytes, bytes], front: bytes) -> None:
        self.config = config_path(environment)
        self.front = front  # target of a shim's link
        self.base = base_directory(environment, self.config)
        self.chosen_shell = environment.get(b"LBD_SHELL", b"")
        path = without_shims(environment.get(b"PATH", b""), self.base)
        # Shims of an outer lbsh with another home or configuration.
        outer = environment.get(b"LBD_SHIMS", b"").rpartition(b"/")[0].rpartition(b"/")[0]
        self.path = without_shims(path, outer) if outer else path
        made_of = b"\0".join((self.path, self.chosen_shell, self.config, front))
        self.directory = self.base + b"/" + key_of(made_of)

    def search_path(self, shims: bytes) -> bytes:
        """Returns PATH with the shims before the first absolute entry: relative ones depend on the
        directory."""
        entries = self.path.split(b":")
        at = next((i for i, entry in enumerate(entries) if entry.startswith(b"/")), len(entries))
        return b":".join([*entries[:at], shims, *entries[at:]])

    def circumstances(self) -> bytes:
        """Returns what the set depends on, as it is now."""
        entries = [*self.path.split(b":"), self.config]
        lines = [b"%d %s\n" % (changed_ns(entry), entry) for entry in entries]
        return b"".join([b"P\n", *lines, self.chosen_shell, b"\n", self.front, b"\n"])


class Stamp:
    """The findings of the time when the set was made."""

    def __init__(self, text: bytes, age_s: float) -> None:
        head, _, rest = text.partition(b"\nP\n")
        self.circumstances = b"P\n" + rest
        self.values = {line[:1]: line[2:] for line in head.split(b"\n")[1:]}
        self.is_fresh = 0 <= age_s < FRESH_S

    @property
    def set_number(self) -> bytes:
        return self.values[b"N"]

    @property
    def shell(self) -> bytes:
        return self.values[b"S"]

    @property
    def generation(self) -> bytes:
        return self.values[b"G"]


def read_stamp(directory: bytes) -> Stamp | None:
    """Returns None if there is no stamp that we may trust: anybody may have created that name in
    /var/tmp.

    Each directory is opened once, and its contents are opened relative to it, so no other directory
    can be put in its place.
    """
    base, _, key = directory.rpartition(b"/")
    numbers: list[int] = []
    try:
        for name in (base, key):
            number = posix.open(name, OURS_ONLY, dir_fd=numbers[-1] if numbers else None)
            numbers.append(number)
            if not is_closed_to_others(posix.fstat(number)):
                return None
        numbers.append(posix.open(b"stamp", PLAIN_FILE, dir_fd=numbers[-1]))
        status = posix.fstat(numbers[-1])
        text = posix.read(numbers[-1], STAMP_MAX_BYTES)
    except OSError:
        return None
    finally:
        for number in numbers:
            posix.close(number)
    if status.st_uid != posix.geteuid() or not text.startswith(FORMAT):
        return None
    from time import time

    return Stamp(text, time() - status.st_mtime)


def key_of(text: bytes) -> bytes:
    """Uses FNV-1a, which takes only a few lines in C."""
    value = FNV_OFFSET
    for byte in text:
        value = (value ^ byte) * FNV_PRIME & MASK
    return b"%016x" % value


def changed_ns(path: bytes) -> int:
    """Returns when an entry of PATH or the configuration last changed; 0 if it does not exist."""
    if not path.startswith(b"/"):
        return 0
    try:
        return posix.stat(path).st_mtime_ns
    except OSError:
        return 0


def without_shims(path: bytes, base: bytes) -> bytes:
    """Returns PATH as it was before any lbsh; relative entries are unchanged."""
    inside = base + b"/"
    return b":".join([entry for entry in path.split(b":") if not entry.startswith(inside)])


def base_directory(environment: dict[bytes, bytes], config: bytes) -> bytes:
    """Returns a directory of this user for this host: state_dir of the configuration if it is the
    user's, else below the home, else below /var/tmp, where anybody may have created it first:
    `read_stamp` and `private` check that."""
    here = posix.uname().nodename.encode()
    for directory in (
        state_dir_of(config),
        environment.get(b"XDG_STATE_HOME", b""),
        environment.get(b"HOME", b"") + b"/.local/state",
    ):
        if is_closed(directory):
            return b"%s/lbd-shims-%s" % (directory, here)
    home = environment.get(b"HOME", b"")
    if is_closed(home):
        return b"%s/.local/state/lbd-shims-%s" % (home, here)
    return b"/var/tmp/lbd-shims-%d-%s" % (posix.geteuid(), here)


def is_closed(directory: bytes) -> bool:
    """Returns False for another user's directory, for one where others may write, and for one that
    others can replace."""
    try:
        named = directory.decode(errors="surrogateescape")
        return is_ours_alone(named) and is_closed_to_others(posix.stat(directory))
    except OSError:  # it has just been removed
        return False


def is_closed_to_others(status: posix.stat_result) -> bool:
    return status.st_uid == posix.geteuid() and not status.st_mode & 0o022


def config_path(environment: dict[bytes, bytes]) -> bytes:
    """Returns the lbd.toml that applies, b"" if there is none."""
    given = environment.get(b"LBD_CONFIG", b"")
    if given:
        return given
    own, of_all = environment.get(b"HOME", b"") + b"/.config/lbd/lbd.toml", b"/etc/lbd/lbd.toml"
    named = own.decode(errors="surrogateescape")
    if posix.access(own, posix.R_OK) and (posix.geteuid() != 0 or is_ours_alone(named)):
        return own  # root may have another user's HOME
    return of_all if posix.access(of_all, posix.R_OK) else b""


def state_dir_of(config: bytes) -> bytes:
    """Returns `host.state_dir` if it is a plain string; b"" otherwise."""
    try:
        file = posix.open(config, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)
        try:
            text = b"\n" + posix.read(file, STAMP_MAX_BYTES)  # does not block on a FIFO either
        finally:
            posix.close(file)
    except OSError:
        return b""
    _, found, rest = text.partition(b'\nstate_dir = "')
    value = rest.partition(b'"')[0]
    return value if found and b"\\" not in value else b""
