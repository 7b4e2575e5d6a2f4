"""What is in the file of `lbctl backup`: a manifest, and the parts that a host has."""

import json
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lbd.cli.ctl.backup_files import SMALL_BYTES_MAX, place
from lbd.console.starting import UNITS
from lbd.errors import LbdError
from lbd.text.job_limits import TIME_MAX
from lbd.text.one_line import one_line

MANIFEST = "manifest.json"
# the key last: it makes the authority exist
AUTHORITY = ("authority/ledger.json", "authority/authority.pem")
SETTINGS, HOSTS = "settings.json", "hosts.json"
CONFIG, LEDGER, USAGE = "lbd.toml", "ledger.sqlite", "usage.sqlite"
PARTS = {
    AUTHORITY[1]: "the authority",
    LEDGER: "the queue's ledger",
    SETTINGS: "the cluster's settings",
    HOSTS: "the known hosts",
    USAGE: "its accounting",
    CONFIG: "lbd.toml",
}


@dataclass(frozen=True, slots=True)
class Manifest:
    schema: int
    version: str
    cluster: str
    host: str
    unix_s: float
    authority: str  # fingerprint of its certificate in hex; "" without an authority
    units: tuple[str, ...] = ()  # units that were enabled


def pack(directory: Path, manifest: Manifest, parts: Sequence[str], file: Path) -> None:
    """Packs the parts in `directory` into the backup file. Raises ConfigError."""
    (directory / MANIFEST).write_text(json.dumps(asdict(manifest)), encoding="utf-8")
    packed = directory / "packed"
    with tarfile.open(packed, "w") as tar:
        for name in (MANIFEST, *parts):
            tar.add(directory / name, name, recursive=False, filter=private)
    place(packed, file)


def private(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Makes what somebody unpacks by hand, also the authority's key, readable by its owner only."""
    member.mode = 0o600
    return member


def unpacked(file: Path, directory: Path) -> list[str]:
    """Unpacks the parts and returns their names. Raises LbdError for any other member."""
    (directory / "authority").mkdir()
    names: list[str] = []
    try:
        with tarfile.open(file, "r:") as tar:
            for member in tar:
                name = member.name
                is_part = name in (MANIFEST, *AUTHORITY, *PARTS) and name not in names
                if not (is_part and is_whole(member)):
                    raise LbdError(f"{file} is not an lbctl backup: {one_line(name, 80)} in it")
                if name not in (LEDGER, USAGE) and member.size > SMALL_BYTES_MAX:
                    raise LbdError(f"{file}: {name} is larger than {SMALL_BYTES_MAX} bytes")
                source = tar.extractfile(member)
                assert source is not None  # it is a file
                with source, (directory / name).open("wb") as target:
                    shutil.copyfileobj(source, target)
                names.append(name)
    except OSError as problem:
        raise LbdError(f"{file}: {problem.strerror or problem}") from problem
    except (tarfile.TarError, ValueError, MemoryError) as problem:  # the last two: bad headers
        why = one_line(str(problem)) or "a header gives an impossible size"
        raise LbdError(f"{file} is not an lbctl backup: {why}") from problem
    if MANIFEST not in names or len(set(AUTHORITY) & set(names)) == 1:
        raise LbdError(f"{file} is not a complete lbctl backup")
    return [name for name in names if name != MANIFEST]


def is_whole(member: tarfile.TarInfo) -> bool:
    """Returns whether the member is a regular file with all its bytes in the archive. A sparse one
    could claim any size and would be written in full."""
    is_plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse()
    return is_plain and member.size >= 0


def manifest_in(file: Path, directory: Path) -> Manifest:
    """Raises LbdError."""
    try:
        found = json.loads((directory / MANIFEST).read_bytes())
        units = tuple(unit for unit in UNITS if unit in found.get("units", ()))
        manifest = Manifest(**{**found, "unix_s": float(found["unix_s"]), "units": units})
        texts = (manifest.version, manifest.cluster, manifest.host, manifest.authority)
        if manifest.schema != 1 or not all(isinstance(one, str) for one in texts):
            raise TypeError
        if not (0 <= manifest.unix_s <= TIME_MAX and "".join(texts).isprintable()):
            raise ValueError
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise LbdError(f"{file}: from another release of lbd, or damaged") from None
    return manifest


def listed(parts: list[str]) -> str:
    return ", ".join(what for name, what in PARTS.items() if name in parts)
