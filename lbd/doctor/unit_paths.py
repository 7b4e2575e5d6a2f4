"""Which configured paths the daemons' systemd units keep them from writing to.

The units of a package may write to its own directories only. A daemon that finds out at its start
is gone by then, so this is looked at before.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from lbd.config.load import SYSTEM_DIRS
from lbd.config.schema import Config
from lbd.local.starting import has_units
from lbd.process.units import opening, said_by
from lbd.process.written_disks import sqlite_file

STORE = "dispatch.store"
WRITERS = {
    "host.state_dir": ("lim", "lbm", "dispatcher", "metrics", "authority"),
    "stage.root": ("lbm",),
    STORE: ("dispatcher",),
}
ASKED = ("Id", "ProtectSystem", "ReadWritePaths", "ProtectHome", "PrivateTmp")
HOMES, SCRATCH = ("/home", "/root", "/run/user"), ("/tmp", "/var/tmp")  # noqa: S108  # only named
Unit = Mapping[str, str]  # its properties


def barred(config: Config, settings: Collection[str] = tuple(WRITERS)) -> Iterator[tuple[str, str]]:
    """Yields what a unit may not write, and the fix."""
    if config.host.runtime_dir != SYSTEM_DIRS[0] or not has_units():
        return
    places = {name: path for name, path in configured(config).items() if name in settings}
    if not places:
        return
    units = properties(sorted({one for name in places for one in WRITERS[name]}))
    for name, directory in places.items():
        meant = {one: units[one] for one in map(service, WRITERS[name]) if one in units}
        yield from faults(name, os.path.realpath(directory), meant)


def configured(config: Config) -> dict[str, Path]:
    """Returns the directories of this host's file that are not those of the package."""
    found = dict[str, Path]()
    if (file := sqlite_file(config.dispatch.store)) is not None:
        found[STORE] = file.parent
    if config.host.state_dir != SYSTEM_DIRS[1]:
        found["host.state_dir"] = Path(config.host.state_dir)
    if config.stage.root:
        found["stage.root"] = Path(config.stage.root)
    return found


def faults(name: str, directory: str, units: Mapping[str, Unit]) -> Iterator[tuple[str, str]]:
    closed = [one for one in units if not may_write(units[one], directory)]
    if not closed:
        return
    shown = ", ".join(one.removesuffix(".service") for one in closed)
    for hidden, key in ((HOMES, "ProtectHome"), (SCRATCH, "PrivateTmp")):
        if within(directory, hidden) and any(units[one].get(key) == "yes" for one in closed):
            says = f"{name}: {shown} cannot see {directory} ({key}=yes in the unit)"
            yield says, f"choose a directory outside {' and '.join(hidden)}"
            return
    says = f"{name}: {shown} may not write in {directory} (ProtectSystem=strict in the unit)"
    yield says, opening(closed, directory)


def may_write(unit: Unit, directory: str) -> bool:
    if unit.get("ProtectSystem") != "strict":
        return True
    return within(directory, [path.lstrip("-+") for path in unit.get("ReadWritePaths", "").split()])


def within(directory: str, tops: Collection[str]) -> bool:
    return any(Path(directory).is_relative_to(os.path.realpath(top)) for top in tops)


def service(daemon: str) -> str:
    return f"lbd-{daemon}.service"


def properties(daemons: Collection[str]) -> dict[str, Unit]:
    """Returns what systemd says of these daemons' units; nothing if it does not answer."""
    said = said_by("systemctl", "show", "-p", ",".join(ASKED), *map(service, daemons))
    rows = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
            for block in said.split("\n\n")]  # fmt: skip
    return {row["Id"]: row for row in rows if "Id" in row}
