"""When two stamps mean the same directory."""

from dataclasses import replace

import pytest

from lbd.launch.directory_stamp import (
    CACHED_S,
    UNSTABLE_INODES,
    Stamp,
    is_same,
    on_its_host,
    read_stamp,
)

DISK = Stamp("kernel-a", 2049, 131, 1_700_000_000_000_000_001, 1_750_000_000_000_000_000, "ext4")
OTHER_DISK = replace(DISK, kernel="kernel-b")
NFS = replace(DISK, kernel="kernel-b", device=45, file_system="nfs4")
NFS_TOO = replace(NFS, kernel="kernel-c", device=52)
UNBORN = replace(NFS, born_ns=0)
S = 1_000_000_000
LATE = int(CACHED_S * S) + 1

PAIRS = {
    "itself": (DISK, DISK, True),
    "itself, changed since": (DISK, replace(DISK, changed_ns=DISK.changed_ns + 9 * LATE), True),
    "another one with the inode of one that is gone": (
        DISK, replace(DISK, born_ns=DISK.born_ns + 1), False),
    "the same on a disk that tells no birth": (replace(DISK, born_ns=0), DISK, True),
    "another inode": (DISK, replace(DISK, inode=132), False),
    "a tmpfs of each container": (
        Stamp("k", 27, 1, 5, 5, "tmpfs"), Stamp("k", 31, 1, 5, 5, "tmpfs"), False),
    "roots of two btrfs subvolumes": (
        Stamp("k", 60, 256, 5, 5, "btrfs"), Stamp("k", 61, 256, 5, 5, "btrfs"), False),
    "two overlays": (
        Stamp("k", 70, 9, 5, 5, "overlay"), Stamp("k", 71, 9, 5, 5, "overlay"), False),
    "an overlay's, before the first write into it and after": (
        Stamp("k", 70, 9, 5, 5, "overlay"), Stamp("k", 70, 9, 8, 8, "overlay"), True),
    "an overlay's other one": (
        Stamp("k", 70, 9, 5, 5, "overlay"), Stamp("k", 70, 8, 5, 5, "overlay"), False),
    "machines cloned from one image": (DISK, OTHER_DISK, False),
    "nobody knows the kernel": (replace(DISK, kernel=""), replace(DISK, kernel=""), False),
    "two clients of a server": (NFS, NFS_TOO, True),
    "one kernel mounts it twice": (NFS, replace(NFS, device=46), True),
    "the server and a client": (DISK, NFS, True),
    "two servers, equal inodes": (NFS, replace(NFS_TOO, born_ns=NFS.born_ns + 1), False),
    "a client that is told no birth": (NFS, UNBORN, True),
    "no birth, seen through caches": (
        UNBORN, replace(UNBORN, kernel="c", changed_ns=UNBORN.changed_ns + LATE - 1), True),
    "no birth, changed long apart": (
        UNBORN, replace(UNBORN, kernel="c", changed_ns=UNBORN.changed_ns + LATE), False),
    "sshfs of the same": (DISK, replace(NFS, file_system="fuse.sshfs"), True),
    "a type nobody told": (DISK, replace(OTHER_DISK, file_system=""), False),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_same_or_different(name):
    here, there, same = PAIRS[name]
    assert is_same(here, there) is same
    assert is_same(there, here) is same


@pytest.mark.parametrize(
    ("now", "still"),
    [
        (DISK, True),
        (replace(OTHER_DISK, device=2050), True),  # after a reboot
        (replace(DISK, born_ns=0, changed_ns=1), False),  # on another file system, without births
        (replace(DISK, inode=132), False),
        (replace(DISK, born_ns=DISK.born_ns + 1), False),
    ],
)
def test_whether_it_is_still_the_directory_of_before(now, still):
    assert is_same(now, on_its_host(DISK)) is still


def test_where_no_birth_was_known_its_inode_decides():
    before = replace(DISK, born_ns=0)
    assert is_same(replace(before, changed_ns=DISK.changed_ns + 10**12), on_its_host(before))
    assert not is_same(replace(before, inode=132), on_its_host(before))


def test_the_first_write_into_an_overlays_directory_changes_its_birth():
    before = Stamp("k", 70, 9, 5, 5, "overlay")
    after = replace(before, kernel="rebooted", born_ns=8, changed_ns=8)
    assert is_same(after, on_its_host(before))
    assert not is_same(replace(after, inode=8), on_its_host(before))


@pytest.mark.parametrize("kind", [*UNSTABLE_INODES, "fuse.sshfs", "fuse.ntfs-3g"])
def test_nothing_is_compared_where_inodes_are_numbered_anew(kind):
    """A queued job in a directory on a memory stick did not start any more after a reboot."""
    assert on_its_host(replace(DISK, file_system=kind)) is None
    assert {"vfat", "exfat", "cifs", "9p", "fuse", "fuseblk"} <= set(UNSTABLE_INODES)


@pytest.mark.parametrize(("later", "same"), [(-LATE, False), (1 - LATE, True), (9 * LATE, True)])
def test_a_change_since_the_look_is_no_difference(later, same):
    """A queued job may start hours after its submission, among files that others of its array have
    written. It was refused, for ever, where births are not known."""
    seen = replace(UNBORN, seen_ns=UNBORN.changed_ns + 7 * LATE)
    here = replace(UNBORN, kernel="c", changed_ns=seen.seen_ns + later)
    assert is_same(here, seen) is same
    assert not is_same(here, UNBORN)


@pytest.mark.parametrize(
    "stamp", [DISK, NFS, Stamp("", 0, 0), replace(DISK, born_ns=-5), replace(UNBORN, seen_ns=7)]
)
def test_a_stamp_survives_the_wire(stamp):
    assert read_stamp(stamp.pack()) == stamp


@pytest.mark.parametrize(
    "data", [b"", b"a b c", b"k 1 2 3 4 ext4 more", b"k 1 2 3 4 nfs 5 6", b"k x 2 3 4 ext4"]
)
def test_malformed_stamps(data):
    with pytest.raises(ValueError, match=r"values to unpack|invalid literal"):
        read_stamp(data)
