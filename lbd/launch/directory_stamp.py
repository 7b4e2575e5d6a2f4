"""Decides whether a directory on another host is the same object as one here. Pure: compares two
stamps.

Within one kernel (containers, a lab) device, inode and birth answer exactly: a file system gives
the inode of a directory that was removed to another one. (On an overlay the birth changes, so only
device and inode count.) Between kernels a device number means nothing, and the file system decides:

- Both local: two different disks, however alike. Machines cloned from one image have the same
  inodes, birth and modification times.
- At least one is a network file system; the other may be the server's own disk. The inode is the
  server's and must agree; so must the birth time, to the nanosecond. Where one side does not know
  that (NFS before Linux 6.15), the modification times are compared: they may be as old as cached
  attributes, and a directory in use changes between two looks, so nearly equal is enough. A command
  may have waited for hours since the first look: a change since then is no difference, either.

A false alarm keeps a command at the origin; a missed one runs it among the wrong files.
"""

from dataclasses import dataclass, replace

CACHED_S = 60.0  # how long NFS caches attributes of a directory (acdirmax)
# Network file systems: types as mount(8) names them, and magics as in statfs(2); 0: the same as
# FUSE's or another's.
NETWORK = {
    "9p": 0x01021997, "afs": 0x5346414F, "beegfs": 0x19830326, "ceph": 0x00C36400,
    "cifs": 0xFF534D42, "coda": 0x73757245, "fuse": 0x65735546, "gfs2": 0x01161970,
    "glusterfs": 0, "gpfs": 0x47504653, "lustre": 0x0BD00BD0, "nfs": 0x6969, "nfs4": 0,
    "ocfs2": 0x7461636F, "orangefs": 0, "panfs": 0xAAD7AAEA, "prl_fs": 0x7C7C6673,
    "pvfs2": 0x20030528, "smb3": 0xFE534D42, "vboxsf": 0x786F4256, "virtiofs": 0,
}  # fmt: skip
NETWORK_MAGICS = tuple(magic for magic in NETWORK.values() if magic)
# When another host's stamp may fit here, if inode and device do not decide: never; if times agree;
# if times agree and the file system here is a network one.
ONLY_ITSELF, SEEN_ANYWHERE, SEEN_OVER_NETWORK = 0, 1, 2
NO_DEVICE = -1
# These may give a directory another inode when they read it again, at the latest after a reboot
UNSTABLE_INODES = (
    "9p", "cifs", "exfat", "fuse", "fuseblk", "msdos", "ntfs", "smb3", "vboxsf", "vfat"
)  # fmt: skip
UNSTABLE_BIRTHS = (
    "overlay",
)  # the first write into a directory copies it, and that has another birth
ANY_BOOT = "*"  # in place of a kernel: the host itself took the stamp
NEVER_NS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Stamp:
    """What one host sees of a directory. Times are UNIX times in nanoseconds; 0 = unknown."""

    kernel: str  # its boot id: hosts with the same one are one machine
    device: int
    inode: int
    born_ns: int = 0
    changed_ns: int = 0  # last modification
    file_system: str = ""  # its type; "" = unknown
    seen_ns: int = 0  # when a directory without a known birth was looked at, by the host's clock

    @property
    def is_networked(self) -> bool:
        return self.file_system.partition(".")[0] in NETWORK  # fuse.sshfs

    def pack(self) -> bytes:
        numbers = f"{self.device} {self.inode} {self.born_ns} {self.changed_ns}"
        seen = f" {self.seen_ns}" if self.seen_ns else ""
        return f"{self.kernel or '-'} {numbers} {self.file_system or '-'}{seen}".encode()


def read_stamp(data: bytes) -> Stamp:
    """Raises ValueError if malformed."""
    kernel, device, inode, born_ns, changed_ns, kind, *seen_ns = data.decode().split(" ")
    if seen_ns[1:]:
        raise ValueError("too many values to unpack")
    return Stamp(
        "" if kernel == "-" else kernel,
        int(device),
        int(inode),
        int(born_ns),
        int(changed_ns),
        "" if kind == "-" else kind,
        int(seen_ns[0]) if seen_ns else 0,
    )


def comparison(there: Stamp, kernel: str) -> tuple[int, ...]:
    """Returns all that a host with that kernel needs to compare a directory with the stamp: how,
    inode, device, birth, modification, the allowed difference of the latter, and the time from
    which on it may have been modified besides."""
    born_ns = 0 if there.file_system in UNSTABLE_BIRTHS else there.born_ns
    if there.kernel == ANY_BOOT:  # where no birth was known, any change of it will do
        return SEEN_ANYWHERE, there.inode, NO_DEVICE, born_ns, 0, 0, NEVER_NS if born_ns else 0
    one_kernel = kernel != "" and kernel == there.kernel
    how = SEEN_ANYWHERE if there.is_networked else SEEN_OVER_NETWORK
    if one_kernel:
        how = SEEN_OVER_NETWORK if there.is_networked else ONLY_ITSELF
    device = there.device if one_kernel else NO_DEVICE
    apart_ns = int(CACHED_S * 1e9)
    since_ns = there.seen_ns - apart_ns if there.seen_ns > 0 else NEVER_NS
    return how, there.inode, device, born_ns, there.changed_ns, apart_ns, since_ns


def fits(compared: tuple[int, ...], here: Stamp, is_networked: bool) -> bool:
    """Returns whether that directory is the one of the stamp. spare.c has the same code."""
    how, inode, device, born_ns, changed_ns, apart_ns, since_ns = compared
    if here.inode != inode:
        return False
    is_on_it = device == here.device
    if not is_on_it and (how == ONLY_ITSELF or (how == SEEN_OVER_NETWORK and not is_networked)):
        return False
    if born_ns and here.born_ns:
        return here.born_ns == born_ns
    return is_on_it or abs(here.changed_ns - changed_ns) <= apart_ns or here.changed_ns >= since_ns


def on_its_host(stamp: Stamp) -> Stamp | None:
    """Returns what to compare with on the host that took the stamp, perhaps after a reboot: inode
    and birth. None: nothing, as its file system keeps no inode numbers."""
    if stamp.file_system.partition(".")[0] in UNSTABLE_INODES:
        return None
    return replace(stamp, kernel=ANY_BOOT)


def is_same(here: Stamp, there: Stamp) -> bool:
    """Whether both are stamps of one directory."""
    return fits(comparison(there, here.kernel), here, here.is_networked)
