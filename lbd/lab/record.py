"""lab.json: what a lab consists of, written before each thing is made.

So a crash at any point leaves a record of more than there is, never of less, and `down` cleans up
from it. Only one `lbd lab` command at a time changes a lab: it holds DIR/lock.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from lbd.config.load import default_runtime_dir
from lbd.errors import ConfigError, LbdError
from lbd.lab.plan import Plan
from lbd.local.own_lab import belongs_to_another
from lbd.process.file_lock import lock_file
from lbd.process.own_directory import fault_of
from lbd.process.whole_file import write_whole

SCHEMA = 1
PATIENCE_S = 10.0  # for another `lbd lab` command on the same lab


def own_place(name: str) -> Path:
    """Returns the directory of that name in our runtime directory.

    Raises LbdError if another user may have made either directory.
    """
    base = Path(default_runtime_dir())
    for place in (base, base / name):
        with suppress(FileNotFoundError):
            if fault := fault_of(place):
                raise LbdError(f"{place}: {fault}, or give a --dir of your own")
    return (base / name).resolve()


@dataclass(frozen=True, slots=True)
class Process:
    """Identifies a process beyond its pid, which may belong to another process by now."""

    pid: int
    started: int  # clock ticks since boot, as in /proc/PID/stat


@dataclass(frozen=True, slots=True)
class Record:
    plan: Plan
    made_root: bool  # the lab made the directory and may remove it
    ready: bool = False  # `up` has succeeded
    # the lab's own, one for each hierarchy; the hosts' are below them
    cgroups: tuple[str, ...] = ()
    cuts: tuple[tuple[str, str], ...] = ()
    processes: dict[str, Process] = field(default_factory=dict)  # "switch", "h1", "h1/lim" …
    made_above: bool = False  # it made the directory above, too

    def peers_cut_from(self, host: str) -> list[str]:
        return sorted({b if a == host else a for a, b in self.cuts if host in (a, b)})

    def with_process(self, name: str, process: Process) -> "Record":
        return replace(self, processes={**self.processes, name: process})


def record_file(root: Path) -> Path:
    return root / "lab.json"


def save(record: Record) -> None:
    """Writes atomically, so that a reader never sees half of it."""
    path = record_file(record.plan.root)
    body = {"schema": SCHEMA, **asdict(record)}
    write_whole(path, json.dumps(body, indent=1, default=str).encode() + b"\n")


def load(root: Path) -> Record | None:
    """Returns the lab in this directory, None if there is none.

    Raises LbdError if unreadable, or if we are root and the record is a user's: what it names is
    killed, removed and entered."""
    file = str(record_file(root))
    try:
        with open(file, encoding="utf-8") as opened:
            owner, text = os.fstat(opened.fileno()).st_uid, opened.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise LbdError(belongs_to_another(file) or f"{file}: {problem.strerror}") from problem
    if owner not in (0, os.geteuid()):
        raise LbdError(belongs_to_another(file) or f"{file} belongs to user {owner}")
    try:
        body = json.loads(text)
        return Record(
            plan=read_plan(body["plan"], root),
            made_root=bool(body["made_root"]),
            made_above=body.get("made_above") is True,
            ready=bool(body["ready"]),
            cgroups=tuple(body["cgroups"]),
            cuts=tuple((a, b) for a, b in body["cuts"]),
            processes={name: Process(**entry) for name, entry in body["processes"].items()},
        )
    except (ValueError, KeyError, TypeError) as problem:
        raise LbdError(
            f"{file} is not a lab's record ({problem!r}); `lbd lab down --dir {root}` "
            "cleans up anyway"
        ) from problem


def read_plan(body: dict[str, object], root: Path) -> Plan:
    """Raises KeyError, TypeError or ValueError for a record that `save` did not write."""
    hosts, settings, private = body["hosts"], body["settings"], body.get("private")
    each = body.get("host_settings")
    if not isinstance(hosts, list) or not isinstance(settings, list):
        raise TypeError("hosts and settings are lists")
    return Plan(
        root=root,
        hosts=tuple(hosts),
        isolate=str(body["isolate"]),
        subnet=str(body["subnet"]),
        cores=float(str(body["cores"])),
        algorithm=str(body["algorithm"]),
        settings=tuple(map(str, settings)),
        allow_root=bool(body["allow_root"]),
        private=tuple(map(str, private)) if isinstance(private, list) else (),
        tls=body.get("tls") is True,
        host_settings=tuple(map(str, each)) if isinstance(each, list) else (),
    )


@contextmanager
def locked(root: Path, patience_s: float) -> Iterator[None]:
    """Holds the lab's lock. Raises LbdError if another command holds it for `patience_s`."""
    try:
        descriptor = lock_file(root / "lock", patience_s)
    except TimeoutError:
        raise LbdError(f"another `lbd lab` command is at work in {root}") from None
    except OSError as problem:
        raise ConfigError(f"--dir {root}: cannot write there: {problem.strerror}") from problem
    try:
        yield
    finally:
        os.close(descriptor)
