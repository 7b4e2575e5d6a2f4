"""The file systems that the daemons write to, each of which can fill separately."""

import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path

from lbd.config.schema import Config
from lbd.text.kernel_tables import lines_of

SHARED_WORKDIRS = "/var/tmp/lbd-stage"  # noqa: S108  # `WorkdirRoot` refuses it where it is not ours
STATE, WORKDIRS, LEDGER = "state", "workdirs", "ledger"
PATIENCE_S = 0.02
BLANKS = " \t"  # a name in these tables may have any other
FSTAB, MOUNTED = Path("/etc/fstab"), Path("/proc/self/mountinfo")
Disks = dict[str, os.statvfs_result]


def workdir_root(config: Config) -> str:
    """Returns the workdirs' root, which is not beside the daemons' own state if other users could
    fill the disk."""
    for_others = os.geteuid() == 0 or config.daemons.keeper == "apart"
    default = SHARED_WORKDIRS if for_others else f"{config.host.state_dir}/stage"
    return config.stage.root or default


def workdirs_note(state_dir: str) -> Path:
    """Returns the file that names the directory used where another user has made the root first."""
    return Path(state_dir, "stage-root")


def spool_root(state_dir: str) -> str:
    """Returns the directory of the outputs of the queue's attempts."""
    return os.path.join(state_dir, "spool")


def written(config: Config) -> dict[str, Path]:
    """Returns where an LBM writes: accounting, outputs and packs of queued jobs; files of staged
    commands."""
    return {STATE: Path(config.host.state_dir), WORKDIRS: Path(workdir_root(config))}


def of_ledger(config: Config) -> dict[str, Path]:
    """Returns where a dispatcher writes whose ledger is a file named in the configuration."""
    file = sqlite_file(config.dispatch.store)
    return {LEDGER: file} if file is not None else {}


def sqlite_file(url: str) -> Path | None:
    """Returns the file of `sqlite:///a/file`, or of `sqlite:////a/file` as others write it; None
    for another store."""
    scheme, _, path = url.partition("://")
    is_whole = scheme == "sqlite" and path.startswith("/")
    return Path("/", path.lstrip("/")) if is_whole else None


def besides_state(config: Config, places: Mapping[str, Path]) -> Disks:
    """Returns the disks that are not the file system of the state directory."""
    found = disks_of({STATE: Path(config.host.state_dir), **places})
    found.pop(STATE, None)
    return found


def disks_of(places: Mapping[str, Path]) -> Disks:
    """Returns one entry for each file system, under the first place on it. A place that does not
    exist yet counts as on its parent's file system."""
    found: Disks = {}
    devices = set[int]()
    for name, place in places.items():
        try:
            path = nearest(place)
            device, disk = os.stat(path).st_dev, os.statvfs(path)
        except OSError:
            continue
        if device not in devices:
            devices.add(device)
            found[name] = disk
    return found


class DiskLooks:
    """Runs `disks_of` in a thread of its own, one at a time: a dead file server blocks that thread
    and no caller."""

    def __init__(self, places: Mapping[str, Path]) -> None:
        self._places = places
        self._found: Disks = {}
        self._thread: threading.Thread | None = None

    def known(self) -> Disks:
        """Returns the current result; the last one if the look takes long."""
        if self._thread is None or not self._thread.is_alive():
            looking = threading.Thread(target=self._look, name="disks", daemon=True)
            try:
                looking.start()
            except RuntimeError:  # too many threads at the moment
                return self._found
            self._thread = looking
            looking.join(PATIENCE_S)
        return self._found

    def _look(self) -> None:
        self._found = disks_of(self._places)


def nearest(path: Path) -> Path:
    """Returns the path, or its nearest existing parent. Raises OSError."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def unmounted(path: str) -> str:
    """Returns where /etc/fstab mounts the disk of this path, if nothing is mounted there; "" if all
    is well or not known."""
    place = Path(os.path.realpath(path))
    try:
        points = {fields[1].rstrip("/") for fields in fields_of(FSTAB) if len(fields) > 2}
        mounted = {fields[4] for fields in fields_of(MOUNTED)}
    except (OSError, IndexError):
        return ""
    above = [str(one).replace(" ", "\\040") for one in (place, *place.parents)]
    lacking = [one for one in above if one in points and one not in mounted and one != "/"]
    return lacking[-1].replace("\\040", " ") if lacking else ""


def fields_of(table: Path) -> list[list[str]]:
    """Returns the fields of each line; a blank in a path is escaped in both tables."""
    lines = (line.strip(BLANKS) for line in lines_of(table.read_bytes()))
    return [re.split(f"[{BLANKS}]+", line) for line in lines if line and not line.startswith("#")]


def disk_metrics(disks: Disks) -> dict[str, object]:
    return {
        "disk_free_bytes": [[name, disk.f_bavail * disk.f_frsize] for name, disk in disks.items()],
        "disk_used_bytes": [
            [name, (disk.f_blocks - disk.f_bfree) * disk.f_frsize] for name, disk in disks.items()
        ],
    }
