"""The checks of `lbctl doctor` of what the LBM and the LIM of this host answer."""

import os
from collections.abc import Iterator
from pathlib import Path

from lbd import __version__
from lbd.config.schema import Config
from lbd.console.reply import Json, number, table, text
from lbd.doctor.checks import FAULT, OK, WARN, Check
from lbd.text.kernel_tables import lines_of

DESCRIPTORS_MAX_SHARE = 0.8
DESCRIPTORS_FEW = 1024
START_KEEPER = "as root: `systemctl start lbd-keeper`; without such a unit, `lbctl restart lbm`"


def containment(reply: Json, host: str) -> Iterator[Check]:
    """Checks the keeper, and how a job's process tree is contained."""
    keeper, how = number(reply, "keeper"), text(reply, "containment")
    if keeper > 0 and reply.get("keeper_is_killed"):
        says = "its processes are killed as they begin: no job can start here"
        yield Check("keeper", FAULT, says, restart_keeper(host))
    elif keeper > 0:
        yield Check(
            "keeper", OK, f"process {keeper:.0f}{older(text(reply, 'keeper_version'), host)}"
        )
    else:
        yield Check("keeper", FAULT, "not running: no job can start here", START_KEEPER)
    if how == "session":
        says = (
            "jobs are tracked only by session and subreaper: a process that leaves its session "
            "may survive its job"
        )
        fix = (
            "give the keeper a writable cgroup: cgroup2 mounted writable, and `lbd up` run as "
            "root, or Delegate=yes in its unit"
        )
        yield Check("containment", WARN, says, fix)
    elif how:
        yield Check("containment", OK, f"{how}: all processes of a job end with it")


def older(version: str, host: str) -> str:
    """Returns a remark on a keeper that an upgrade has left running."""
    if version == __version__:
        return ""
    return (
        f", of lbd {version}, until the next boot; to have that of {__version__} now: "
        f"{restart_keeper(host)}"
    )


def restart_keeper(host: str) -> str:
    return (
        f"`lbctl drain {host}`, `systemctl restart lbd-keeper` (which ends what runs here), "
        f"`lbctl undrain {host}`; or stop `lbd up` and start it again"
    )


def limits(reply: Json, config: Config) -> Iterator[Check]:
    """Checks how `[limits]` and --mem are enforced."""
    limits_in_force = text(reply, "limits")
    if not limits_in_force:
        return
    asked_limits = config.limits
    ways = dict(way.partition("=")[::2] for way in limits_in_force.split())
    needs_cgroup = {"memory": asked_limits.memory_bytes != 0, "cpu": asked_limits.cpus != 0}
    lacking = [
        name for name, asked in needs_cgroup.items()
        if asked and not ways[name].startswith("cgroup")
    ]  # fmt: skip
    says = ", ".join(f"{name} by {way}" for name, way in ways.items())
    if lacking:
        fix = "run the keeper with those controllers delegated (Delegate=yes in its unit)"
        yield Check(
            "limits", FAULT, f"{says}: cannot enforce limits.* on {', '.join(lacking)}", fix
        )
    else:
        yield Check("limits", OK, says)


def slots(reply: Json, config: Config) -> Iterator[Check]:
    """Checks whether lbm.slots is below admission.slots: the smaller one is in force."""
    total, allowed = number(table(reply, "slots"), "total"), config.admission.slots
    if total < allowed:
        says = f"{total:.0f} are in force, as lbm.slots has it; admission.slots is {allowed}"
        yield Check("slots", WARN, says, "raise lbm.slots (`lbctl restart`), or lower the other")


def descriptors_of(pid_file: Path) -> Json:
    """Returns the open files of the process that wrote this file, and their limit; {} if we may not
    look."""
    try:
        process = Path("/proc") / pid_file.read_text().strip()
        limit = next(
            line.split()[3]
            for line in lines_of((process / "limits").read_bytes())
            if line.startswith("Max open files")
        )
        return {"fds_open": len(os.listdir(process / "fd")), "fds_limit": int(limit)}
    except (OSError, ValueError, StopIteration):
        return {}


def descriptors(daemon: str, reply: Json) -> Iterator[Check]:
    used, limit = number(reply, "fds_open"), number(reply, "fds_limit")
    if not limit > 0:
        return
    says = f"{used:.0f} of {limit:.0f} in use"
    if used > limit * DESCRIPTORS_MAX_SHARE or limit - used < DESCRIPTORS_FEW / 4:
        fix = "raise the limit: ulimit -n, or LimitNOFILE in the unit"
        yield Check(f"{daemon} descriptors", FAULT, says, fix)
    elif limit < DESCRIPTORS_FEW:
        yield Check(f"{daemon} descriptors", WARN, says, "a large make -j needs ulimit -n 65536")
    else:
        yield Check(f"{daemon} descriptors", OK, says)
