"""The trust files, created with private permissions and written atomically.

A key and its certificate share one file, so that one rename renews both: nobody ever reads one's
key with another's certificate.
"""

import contextlib
import functools
import hashlib
import os
import ssl
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lbd.config.schema import Config
from lbd.errors import ConfigError
from lbd.process.whole_file import write_whole
from lbd.trust import der
from lbd.trust.revocations import Revocations, revocations_in

END_OF_KEY = "-----END PRIVATE KEY-----\n"
BEGIN_OF_CERTIFICATE = "-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key and the certificates that vouch for it, its own first; PEM."""

    key: bytes
    chain: bytes

    @property
    def certificate(self) -> str:
        return first_certificate(self.chain)

    @property
    def valid_s(self) -> tuple[float, float]:
        """Returns the UNIX times when validity begins and ends."""
        return der.valid_s(ssl.PEM_cert_to_DER_cert(self.certificate))


def first_certificate(pem: bytes) -> str:
    """Raises ConfigError if there is none."""
    begin, end, _ = pem.decode("ascii", "replace").partition("-----END CERTIFICATE-----\n")
    if not end or BEGIN_OF_CERTIFICATE not in begin:
        raise ConfigError("no certificate in it")
    return begin[begin.index(BEGIN_OF_CERTIFICATE) :] + end


def is_there(path: Path, shown: Path) -> bool:
    """Raises ConfigError, which names `shown`, if that cannot be determined."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as problem:
        raise ConfigError(f"{shown}: {problem.strerror}") from problem
    return True


@dataclass(frozen=True, slots=True)
class HostFiles:
    """One host's files, in `tls.dir`."""

    root: Path

    @property
    def credentials(self) -> Path:
        return self.root / "host.pem"

    @property
    def authority(self) -> Path:
        return self.root / "authority.pem"

    @property
    def revoked(self) -> Path:
        """The list of revocations signed by the authority, as received; see `authority.sign`."""
        return self.root / "revoked"

    @property
    def revoked_before(self) -> Path:
        """Earlier signed lists that revoke more than the newest: a copy of the authority was taken
        up that was made before them."""
        return self.root / "revoked-before"

    @property
    def home(self) -> Path:
        """The name of the authority's host, and the last known address of its LIM: from when this
        host joined, or from the authority itself after it moved."""
        return self.root / "authority-host"

    def exist(self) -> bool:
        """Raises ConfigError if that cannot be determined."""
        return is_there(self.credentials, self.credentials)

    def read_credentials(self) -> Credentials:
        text = read(self.credentials)
        key, end, chain = text.decode("ascii", "replace").partition(END_OF_KEY)
        if BEGIN_OF_CERTIFICATE not in chain:  # nor is there a chain where no key ends
            raise ConfigError(f"{self.credentials}: not a key and its certificate; join again")
        if complaint := self.openness():
            raise ConfigError(complaint)
        return Credentials((key + end).encode(), chain.encode())

    def openness(self) -> str:
        """Returns what is wrong with the key's permissions; "" if nothing is."""
        with contextlib.suppress(OSError):
            if self.credentials.stat().st_mode & 0o077:
                return f"{self.credentials} is accessible to others; chmod 600 it"
        return ""

    def write_credentials(self, credentials: Credentials) -> None:
        write_private(self.credentials, credentials.key + credentials.chain)

    def read_authority(self) -> bytes:
        return read(self.authority)

    def cluster(self) -> str:
        """Returns the digest of the authority, which only its own cluster has."""
        return hashlib.sha256(self.read_authority()).hexdigest()

    def read_signed(self) -> bytes:
        """Returns the revocations as received; b"" while there are none."""
        try:
            return read(self.revoked)
        except ConfigError:
            return b""

    def read_signed_before(self) -> list[bytes]:
        """Returns the earlier lists that count, as received."""
        try:
            lines = read(self.revoked_before).splitlines()
        except ConfigError:
            return []
        return [b"\n".join(pair) for pair in zip(lines[::2], lines[1::2], strict=False)]

    def write_signed(self, signed: bytes) -> None:
        """Stores a newer list, and keeps those before that revoke more. Raises LbdError."""
        said, kept = revocations_in(signed), list[bytes]()
        for before in (self.read_signed(), *self.read_signed_before()):
            known = said.and_earlier(map(revocations_in, kept))
            if before and len(kept) < EARLIER_MAX and revocations_in(before).revokes_more(known):
                kept.append(before)
        if kept or self.revoked_before.exists():
            write_private(self.revoked_before, b"\n".join(kept))
        write_private(self.revoked, signed)  # last: the same list is not accepted twice

    def read_revocations(self) -> Revocations:
        """Returns the revocations, which were verified when written; none if there is no file."""
        signed = self.read_signed()
        newest = revocations_in(signed) if signed else EMPTY
        return newest.and_earlier(map(revocations_in, self.read_signed_before()))

    def read_home(self) -> tuple[str, str]:
        """Returns (host, "address:port") of the authority; ("", "") if unknown."""
        try:
            host, target, *_ = read(self.home).decode().split()
        except (ConfigError, ValueError):
            return "", ""
        return host, target


EMPTY = Revocations()
EARLIER_MAX = 8  # lists, one for each time that an old copy of the authority was taken up
READ_BYTES_MAX = 64 << 20  # more than any of these files


def host_files(config: Config) -> HostFiles:
    return HostFiles(Path(config.tls.dir or f"{config.host.state_dir}/tls"))


def authority_dir(config: Config) -> Path:
    """Returns a directory beside the daemons' own, not in it: a process that
    controls the daemons' directory could replace it."""
    state_dir = config.host.state_dir.rstrip("/")
    return Path(config.tls.authority_dir or f"{state_dir}-authority")


def read(path: Path) -> bytes:
    """Raises ConfigError, one line, also if it is not a regular file: root could block on a
    FIFO."""
    try:
        with open(os.open(path, os.O_NONBLOCK), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ConfigError(f"{path}: not a file")
            # A read of the most it may be would reserve as much memory, each second.
            return file.read(min(found.st_size, READ_BYTES_MAX))
    except OSError as problem:
        raise ConfigError(f"{path}: {problem.strerror}") from problem


def make_private_dir(path: Path) -> None:
    """Creates a private directory with the owner of the one around it. Root works here for
    daemons that are not root, in directories where they may put a link at any moment. Raises
    ConfigError."""
    missing = [p for p in (path, *path.parents) if not os.path.lexists(p)]
    above = missing[-1].parent if missing else path.parent
    try:
        with contextlib.ExitStack() as opens:
            directory = opens.enter_context(opened(above, os.O_DIRECTORY))
            for place in reversed(missing):
                os.mkdir(place.name, 0o700 if place == path else 0o755, dir_fd=directory)
                around, directory = directory, opens.enter_context(opened(place.name, at=directory))
                own_like(directory, around)
            if not missing:
                directory = opens.enter_context(opened(path.name, at=directory))
            os.fchmod(directory, 0o700)
    except OSError as problem:
        raise ConfigError(f"{path}: {problem.strerror}") from problem


@contextlib.contextmanager
def opened(
    path: Path | str, flags: int = os.O_DIRECTORY | os.O_NOFOLLOW, at: int | None = None
) -> Iterator[int]:
    """Opens a directory, refusing a link put in its place."""
    descriptor = os.open(path, flags, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def own_like(descriptor: int, directory: int) -> None:
    if os.geteuid() == 0:
        owner = os.fstat(directory)
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replaces a file in one step and syncs it to disk; refuses a directory that is a link. Raises
    ConfigError."""
    try:
        with opened(path.parent) as directory:
            prepare = functools.partial(own_like, directory=directory)
            write_whole(path.name, data, mode, True, prepare, directory)
    except OSError as problem:
        raise ConfigError(f"{path}: {problem.strerror}") from problem
