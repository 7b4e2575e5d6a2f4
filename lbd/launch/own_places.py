"""Who decides what is found at a path (client/c/own_places.h does the same)."""

import posix

SHARED, STICKY = 0o022, 0o1000
SLASH = ord("/")


def is_ours_alone(path: bytes) -> bool:
    """Returns whether root and we alone decide what is at this absolute path: it is root's or ours,
    and so is every directory and link on the way. False if there is none.

    In a sticky directory like /tmp others cannot replace what is ours, but can mount a file system
    of their own (FUSE), which says itself whose it is: so what is there is on the same one.
    """
    ours = (0, posix.geteuid())
    ends = [at for at, letter in enumerate(path) if letter == SLASH and at] + [len(path)]
    try:
        above = posix.stat(b"/")
        for end in ends:
            link, itself = posix.lstat(path[:end]), posix.stat(path[:end])
            is_kept = above.st_mode & STICKY and link.st_dev == above.st_dev
            if above.st_mode & SHARED and not is_kept:
                return False
            if link.st_uid not in ours or itself.st_uid not in ours:
                return False
            above = itself
    except OSError:
        return False
    return path.startswith(b"/")


def may_be_anybodys_mount(directory: str) -> bool:
    """Returns whether this is a file system of its own in a directory like /tmp. A user may have
    mounted it (FUSE), and then it says whatever they like of whose its files are. Raises OSError.
    """
    above = posix.stat(f"{directory}/..")
    return bool(above.st_mode & SHARED) and posix.stat(directory).st_dev != above.st_dev
