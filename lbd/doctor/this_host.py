"""Checks of `lbctl doctor` on this host itself, without asking a daemon."""

import os
import stat
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import lbd
from lbd.client.shell.build import need_own
from lbd.client.shell.shims import Place, read_stamp
from lbd.config.schema import Config
from lbd.console.reply import Json, texts
from lbd.doctor.checks import (
    FAULT,
    FULL_FIX,
    OK,
    UNSEEN,
    WARN,
    Check,
    directory,
    low_space,
    owner_name,
    shortage,
)
from lbd.doctor.daemon_replies import restart_keeper
from lbd.doctor.unit_paths import barred
from lbd.keeper.gate import BY_KEEPER, users_of
from lbd.lbm.staging.workdir_root import Looks, NotOurs, check_root, is_default
from lbd.load.process_table import task_of
from lbd.process.accounts import ROOT, USERADD
from lbd.process.disk_space import shortage_of
from lbd.process.own_addresses import is_elsewhere
from lbd.process.written_disks import (
    LEDGER,
    WORKDIRS,
    besides_state,
    nearest,
    of_ledger,
    workdir_root,
    workdirs_note,
    written,
)
from lbd.text.kernel_tables import lines_of

DISK_FIX = "free some space: `du -xh --max-depth=1 {}` shows what is large"
FULL = {
    WORKDIRS: "and commands with --send or --fetch fail once none are",
    LEDGER: "and the queue takes no jobs once none are",
}
PACKAGED = "/usr/bin/lbd"  # a package's link to its own directory
INTERFACES, INTERFACES_MAX = Path("/sys/class/net"), 4
LISTENING = "00010000"  # a flag in /proc/net/unix
STOPPED = {"T": "stopped", "t": "held by a debugger", "Z": "dead"}


def host_checks(config: Config) -> Iterator[Check]:
    yield from rights(config)
    yield from privilege(config)
    yield from address(config)
    for says, fix in barred(config, ("host.state_dir", "stage.root")):
        yield Check("units", FAULT, says, fix)
    yield from second_daemons(config)
    yield from workdirs(config)
    yield from other_disks(config)
    yield from compiled_parts()


def workdirs(config: Config) -> Iterator[Check]:
    """Checks whether another user has made the directory first, or mounted something there."""
    root, state = workdir_root(config), config.host.state_dir
    try:
        owners = {0, os.stat(state).st_uid}
    except OSError:
        owners = {0, *daemon_owner(config)}
    try:
        Looks().look(lambda path: check_root(path, owners), Path(root, config.host.name))
    except (NotOurs, TimeoutError) as found:
        above = os.path.dirname(found.filename)
        if os.access(above, os.X_OK, effective_ids=True):  # else the caller may not look
            fix = f"remove {found.filename}, or set stage.root; then lbctl restart"
            if not is_default(root, state):
                says = f"{found.strerror}; commands with files are refused here"
                yield Check("stage directory", FAULT, says, fix)
                return
            instead = "the LBM will use a directory beside it"
            with suppress(OSError):
                noted = os.fsdecode(workdirs_note(state).read_bytes())
                instead = f"working directories are in {noted}"
            yield Check("stage directory", WARN, f"{found.strerror}; {instead}", fix)
            return
    except OSError:
        pass  # perhaps created when the LBM starts
    if os.path.exists(config.stage.root):  # created when the first command needs it
        yield directory("stage directory", config.stage.root)


def other_disks(config: Config) -> Iterator[Check]:
    """Checks the other file systems that the daemons write to for lack of space."""
    ledger = {name: path for name, path in of_ledger(config).items() if path.exists()}
    places = {**written(config), **ledger}
    for name in besides_state(config, places):
        path = str(nearest(places[name]))
        if full := shortage(path):
            yield Check(name, FAULT, full, FULL_FIX.format(path))
        elif short := shortage_of(Path(path)):
            yield Check(name, WARN, f"{low_space(path, short)}{FULL[name]}", DISK_FIX.format(path))


def rights(config: Config) -> Iterator[Check]:
    """Checks who else may write what the daemons rely on."""
    places = {"configuration": config.path, "runtime directory": config.host.runtime_dir,
              "state directory": config.host.state_dir}  # fmt: skip
    for name, path in places.items():
        if not path or not os.path.exists(path):
            continue
        found = os.stat(path)
        if found.st_mode & stat.S_IWOTH:
            says = f"{path} is writable by everybody, who can thus control the daemons"
            yield Check(f"{name} rights", FAULT, says, f"chmod o-w {path}")
        elif found.st_uid not in (0, *daemon_owner(config)) and name == "configuration":
            owner = owner_name(found.st_uid)
            says = f"{path} is owned by {owner}, but the daemons run as another user"
            yield Check(f"{name} rights", FAULT, says, f"chown root {path}")


def privilege(config: Config) -> Iterator[Check]:
    """Checks which user runs the daemons that face the network: the owner of their sockets."""
    sockets = {d: Path(config.host.runtime_dir, f"{d}.sock") for d in ("lim", "lbm", "dispatcher")}
    found = [d for d, path in sockets.items() if path.exists() and path.lstat().st_uid == 0]
    if not found:
        return
    says = (
        f"{' and '.join(found)} run as root, so a bug in handling their input is a bug with "
        "root's rights"
    )
    if config.daemons.user == ROOT:
        yield Check("privilege", OK, f"{says}, as set by daemons.user")
    else:
        fix = (
            f"stop them, create the user if it does not exist ({' '.join(USERADD)}), and start "
            "them with `lbd up`"
        )
        yield Check("privilege", WARN, says, fix)


def owner_seen(reply: Json, config: Config) -> Iterator[Check]:
    """Checks by which devices the LBM can notice that the owner is back. `reply`: the LBM's
    status."""
    if not config.admission.owner_idle_s:
        return
    if not (unseen := texts(reply, "unseen_inputs")):
        if reply.get("inputs") == [] and reply.get("inputs_listed") is False:
            says = "terminals are watched; the LBM cannot see whether there is a keyboard or mouse"
            yield Check("owner", UNSEEN, says)
            return
        if reply.get("inputs") == []:
            says = "terminals are watched; the kernel lists no keyboard or mouse of this host"
        else:
            says = "terminals, keyboards and mice are watched"
        yield Check("owner", OK, says)
        return
    why = f"the LBM cannot open {', '.join(unseen)}"
    if reply.get("dev_input") is False:
        why = "the LBM has no /dev/input: its unit has PrivateDevices=yes"
    says = f"terminals are watched, keyboards and mice are not ({why})"
    fix = (
        "give the LBM /dev/input: `systemctl edit lbd-lbm`, [Service] SupplementaryGroups=input, "
        "PrivateDevices=no, DeviceAllow=char-input r, a line each; then restart lbd-lbm"
    )
    yield Check("owner", WARN, says, fix)


def daemon_owner(config: Config) -> tuple[int, ...]:
    """Returns the users who may run these daemons: the caller, and the owner of the runtime
    directory."""
    directory_owner = Path(config.host.runtime_dir)
    owner = (directory_owner.stat().st_uid,) if directory_owner.exists() else ()
    return (os.geteuid(), *owner)


def address(config: Config) -> Iterator[Check]:
    """Checks whether host.address belongs to this machine, so that a daemon can listen there."""
    own = config.host
    if not is_elsewhere(own.address):
        return
    says = f"{own.address} is not an address of this machine"
    if own.name in {entry.name for entry in config.cluster.hosts}:
        fix = f"correct the address of {own.name} in cluster.hosts, or host.name"
    else:
        fix = "`lbctl config set host.address ADDRESS`, one that `ip address` shows"
    if down := interfaces_down():
        says += f"; {' and '.join(down)} {'is' if len(down) == 1 else 'are'} down"
        fix = f"if it belongs to such an interface, `ip link set {down[0]} up`; otherwise {fix}"
    yield Check("address", FAULT, says, fix)


def interfaces_down(interfaces: Path = INTERFACES) -> list[str]:
    """Returns the network interfaces that are down; bridges often are, with nothing attached."""
    found = []
    for one in sorted(interfaces.glob("*")):
        with suppress(OSError):
            is_down = (one / "operstate").read_text().strip() in ("down", "lowerlayerdown")
            if is_down and not (one / "bridge").exists():
                found.append(one.name)
    return found[:INTERFACES_MAX]


def second_daemons(config: Config) -> Iterator[Check]:
    """Checks for two daemons that listen on one socket: clients never reach the older one.

    Locks prevent that, unless somebody removes the locked files. The kernel lists a socket's name
    even if its file was removed or replaced.
    """
    try:
        rows = lines_of(Path("/proc/net/unix").read_bytes())
    except OSError:
        return
    listening = [row.split()[7] for row in rows[1:] if row.split()[3:4] == [LISTENING]
                 and len(row.split()) > 7]  # fmt: skip
    for daemon in ("lim", "lbm"):
        path = str(Path(config.host.runtime_dir, f"{daemon}.sock"))
        if listening.count(path) > 1:
            says = f"{listening.count(path)} of them listen on {path}; only the newest is reached"
            fix = f"stop the older ones: ss -xlp | grep {daemon}.sock shows their processes"
            yield Check(f"second {daemon.upper()}", FAULT, says, fix)


def compiled_parts() -> Iterator[Check]:
    """Checks the optional compiled parts; without them everything works, only slower."""
    spare = Path(lbd.__path__[0], "keeper/spare")
    if not os.access(spare, os.X_OK):
        fix = f"{compile_again()}; restart the LBM"
        says = f"no {spare}: commands from other hosts start more slowly"
        yield Check("compiled keeper", WARN, says, fix)


def compile_again() -> str:
    scripts = os.path.realpath(sysconfig.get_path("scripts"))
    if os.path.islink(PACKAGED) and os.path.dirname(os.path.realpath(PACKAGED)) == scripts:
        where = "a host with a C compiler (Debian: gcc libc6-dev)"
        return f"build the package again on {where} and install it here"
    return "install a C compiler (Debian: gcc libc6-dev), then lbd again"


def keeper_state(pid: int) -> Iterator[Check]:
    """Checks that the keeper runs: if not, it starts nothing, and the LBM waits for it."""
    task = task_of(pid)
    if task is None:  # of another PID namespace, or gone meanwhile
        return
    state = task.state.decode()
    if state in STOPPED:
        fix = f"kill -CONT {pid}" if state == "T" else "`lbctl restart lbm`"
        yield Check("keeper", FAULT, f"process {pid} is {STOPPED[state]}: no job can start", fix)


def keeper_users(pid: int, config: Config) -> Iterator[Check]:
    """Checks the keeper's [users] settings, which are those of its start: it outlives the LBM."""
    try:
        found = users_of(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:  # of another PID namespace, or gone meanwhile
        return
    own = config.users
    fields = [name.removeprefix("users.") for name in BY_KEEPER]
    other = [name for name in fields if found and getattr(found, name) != getattr(own, name)]
    if other:
        settings = ", ".join(f"users.{name}" for name in other)
        says = f"process {pid} was started with another {settings} than lbd.toml has"
        yield Check("keeper", WARN, f"{says}, and goes by that", restart_keeper(config.host.name))


def lbsh_checks(config: Config) -> Iterator[Check]:
    """Checks lbsh as the caller would find it, with the caller's PATH."""
    scripts = os.path.realpath(sysconfig.get_path("scripts"))
    lbsh, front = (os.path.join(scripts, name) for name in ("lbsh", "lbrun"))
    if not os.access(lbsh, os.X_OK) or not os.access(front, os.X_OK):
        yield Check("lbsh", WARN, f"not in {scripts}", "reinstall lbd")
        return
    environment = {os.fsencode(name): os.fsencode(text) for name, text in os.environ.items()}
    if config.path:
        environment[b"LBD_CONFIG"] = os.fsencode(config.path)
    place = Place(environment, os.fsencode(front))
    try:
        for directory in (place.base, place.directory):
            with suppress(FileNotFoundError):
                need_own(directory)
        stamp = read_stamp(place.directory)
        names = len(os.listdir(place.directory + b"/" + stamp.set_number)) if stamp else 0
    except OSError as problem:
        fix = f"make {os.fsdecode(place.base)} private to you, or fix what is reported"
        yield Check("lbsh", FAULT, f"no shims: {problem.strerror or problem}", fix)
        return
    where = f"in {os.fsdecode(place.directory)}"
    if stamp is None:
        yield Check("lbsh", OK, f"it makes its shims {where} when you first use it")
    else:
        yield Check("lbsh", OK, f"{names} shims {where}; {os.fsdecode(stamp.shell)}")
    slow = [name for name in (lbsh, front) if is_script(name)]
    if slow:
        fix = compile_again()
        says = f"{' and '.join(map(os.path.basename, slow))}: not compiled, so they start slowly"
        yield Check("compiled clients", WARN, says, fix)


def is_script(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"
