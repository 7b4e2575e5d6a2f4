"""Who decides what is found at a path (client/c/own_places.h does the same)."""

import posix

TYPE_CHECKING = False  # importing typing would cost a millisecond
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

SHARED, STICKY = 0o022, 0o1000
FILE_TYPE, LINK = 0o170000, 0o120000  # of `st_mode`
LINKS_MAX = 40  # the kernel's limit
TOO_MANY_LINKS = OSError(40, "Too many levels of symbolic links")

Status = posix.stat_result


def walk(path: str) -> "Iterator[tuple[str, Status, Status | None]]":
    """Yields every directory and link on the way to what an absolute path names, and that itself:
    its own path, the directory that it is in, and what it is, None if that cannot be seen.

    Links are followed one at a time, since one in the middle may lead through a directory where
    anybody may write. Raises OSError.
    """
    place, names, links = "", path.split("/")[::-1], 0
    root = above = posix.stat("/")
    yield "/", root, root
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":  # begins again, as `place` has no links
            names += place.split("/")[-2::-1]
            place, above = "", root
            continue
        entry = f"{place}/{name}"
        try:
            found = posix.lstat(entry)
        except OSError:
            yield entry, above, None
            return
        yield entry, above, found
        if found.st_mode & FILE_TYPE != LINK:
            place, above = entry, found
            continue
        if (links := links + 1) > LINKS_MAX:
            raise TOO_MANY_LINKS
        target = posix.readlink(entry)
        names += target.split("/")[::-1]
        if target.startswith("/"):
            place, above = "", root


def is_kept(above: Status, found: Status, owners: "Collection[int]") -> bool:
    """Returns whether an entry is of these owners, and others can put nothing in its place. In a
    sticky directory like /tmp they cannot rename it, but can mount a file system of their own
    (FUSE), which says itself whose it is."""
    cannot_mount = above.st_mode & STICKY and found.st_dev == above.st_dev
    return found.st_uid in owners and bool(not above.st_mode & SHARED or cannot_mount)


def first_of_others(path: str, owners: "Collection[int]") -> str:
    """Returns the first place on the way to what an absolute path names, or that itself, where
    others than `owners` decide what is there; "" if there is none. Raises OSError."""
    for place, above, seen in walk(path):
        found = seen or posix.lstat(place)
        if not is_kept(above, found, owners):
            return place if found.st_uid not in owners else place.rpartition("/")[0] or "/"
    return ""


def is_ours_alone(path: str) -> bool:
    """Returns whether root and we alone decide what is at this absolute path. False if there is
    nothing."""
    try:
        return path.startswith("/") and not first_of_others(path, (0, posix.geteuid()))
    except OSError:
        return False


def may_be_anybodys_mount(directory: str) -> bool:
    """Returns whether this is a file system of its own in a directory like /tmp. A user may have
    mounted it (FUSE), and then it says whatever they like of whose its files are. Raises OSError.
    """
    above = posix.stat(f"{directory}/..")
    return bool(above.st_mode & SHARED) and posix.stat(directory).st_dev != above.st_dev
