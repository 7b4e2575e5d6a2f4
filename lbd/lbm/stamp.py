"""Is a directory there the same object as here? Pure: two stamps, compared.

One kernel (containers, a lab) answers exactly: device and inode. Between kernels a device number
means nothing, and what is left depends on the file system:

- Both local: two disks, however alike. Machines cloned from one image have the same inodes, birth
  and modification times.
- At least one is a network file system; the other may be the server's own disk. The inode is the
  server's and must agree, then the time of birth, to the nanosecond. Where one side is not told
  that (NFS before Linux 6.15), the time of the last modification: it may be as old as attributes
  are cached, and a directory in use changes between two looks, so near is good enough.

An alarm too many keeps a command at home; one too few runs it among the wrong files.
"""

from dataclasses import dataclass

CACHED_S = 60.0  # attributes of a directory on NFS are believed this long (acdirmax)
NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "gfs2", "glusterfs", "gpfs", "lustre",
    "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb3", "vboxsf", "virtiofs",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stamp:
    """What one host sees of a directory. Times are UNIX times; 0 = not told."""

    kernel: str  # its boot id: hosts that agree in it are one machine
    device: int
    inode: int
    born_ns: int = 0
    changed_ns: int = 0  # last modification
    file_system: str = ""  # its type; "" = not known

    @property
    def is_networked(self) -> bool:
        return self.file_system.partition(".")[0] in NETWORK  # fuse.sshfs

    def pack(self) -> bytes:
        numbers = f"{self.device} {self.inode} {self.born_ns} {self.changed_ns}"
        return f"{self.kernel or '-'} {numbers} {self.file_system or '-'}".encode()


def read_stamp(data: bytes) -> Stamp:
    """Raises ValueError if it is none."""
    kernel, device, inode, born_ns, changed_ns, kind = data.decode().split(" ")
    return Stamp(
        "" if kernel == "-" else kernel,
        int(device),
        int(inode),
        int(born_ns),
        int(changed_ns),
        "" if kind == "-" else kind,
    )


def is_same(here: Stamp, there: Stamp) -> bool:
    """Whether both are stamps of one directory."""
    if here.inode != there.inode:
        return False
    one_kernel = here.kernel != "" and here.kernel == there.kernel
    if one_kernel and here.device == there.device:
        return True
    if one_kernel and not (here.is_networked and there.is_networked):
        return False
    if not (here.is_networked or there.is_networked):
        return False
    if here.born_ns and there.born_ns:
        return here.born_ns == there.born_ns
    return abs(here.changed_ns - there.changed_ns) <= CACHED_S * 1e9
