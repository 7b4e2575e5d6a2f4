"""As whom does a command of another host run here? Pure: the user database is an argument.

The origin vouches for who asked; this host says which of its accounts that is. The keeper asks
`fault_of_account` once more by itself: whoever has taken over the LBM still cannot become root.
"""

import fnmatch
from dataclasses import dataclass

from lbd.config_access import UsersConfig

ROOT_UID = 0
SINGLE = "single:"
OF_SERVICES = range(60514, 65536)  # Debian's and systemd's: services, and nobody


@dataclass(frozen=True, slots=True)
class LocalUser:
    """An entry of this host's user database."""

    name: str
    uid: int
    gid: int = 0
    groups: tuple[int, ...] = ()
    home: str = ""
    shell: str = ""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, as the origin's kernel says."""

    user: str
    uid: int


@dataclass(frozen=True, slots=True)
class Admit:
    run_as: LocalUser | None  # None = the keeper's own user
    note: str = ""  # for the caller, with -v


@dataclass(frozen=True, slots=True)
class Refuse:
    reason: str
    try_another: bool = True


def wanted_account(users: UsersConfig, asker: Asker) -> str | int:
    """What to look up in the user database: a name or a number."""
    if users.map.startswith(SINGLE):
        return users.map.removeprefix(SINGLE)
    return asker.uid if users.map == "uid" else asker.user


def is_same(users: UsersConfig, one: Asker, other: Asker) -> bool:
    """Are these one person? By number, names may be another's on another host."""
    return one.uid == other.uid if users.map == "uid" else one.user == other.user


def identify(
    users: UsersConfig, asker: Asker, local: LocalUser | None, keeper_uid: int
) -> Admit | Refuse:
    """`local`: what the database has for `wanted_account`, or for `users.unknown`."""
    if keeper_uid != ROOT_UID:
        return _unprivileged(users, asker, local, keeper_uid)
    if local is None:
        return Refuse(f"no user {wanted_account(users, asker)!r} here (users.map, users.unknown)")
    is_mapped = users.map.startswith(SINGLE) or local.name == users.unknown
    if not is_mapped and ROOT_UID in (asker.uid, local.uid) and not users.allow_root:
        return Refuse(ROOT_REFUSED)
    if fault := fault_of_account(users, local):
        return Refuse(fault)
    note = f"runs as {local.name}" if local.name != asker.user else ""
    return Admit(local, note)


ROOT_REFUSED = "commands of root are not allowed here (users.allow_root)"


def _unprivileged(
    users: UsersConfig, asker: Asker, local: LocalUser | None, keeper_uid: int
) -> Admit | Refuse:
    """A keeper that is not root cannot become anybody: it is there for its own user alone."""
    by_number = users.map == "uid" or asker.user == str(asker.uid)
    if (
        local is None and by_number and asker.uid == keeper_uid
    ):  # no user database, as in a container
        return Admit(None)
    if local is not None and local.uid == keeper_uid:
        return Admit(None)
    return Refuse(
        f"commands of {asker.user} cannot run here: the keeper is not root but uid {keeper_uid}, "
        "for whom alone it works"
    )


def fault_of_account(users: UsersConfig, local: LocalUser) -> str:
    """Why nothing is run as this account, "" if it may be."""
    if local.uid == ROOT_UID:
        return "" if users.allow_root else ROOT_REFUSED
    if local.uid >= users.min_uid and local.uid not in OF_SERVICES:
        return ""
    if any(fnmatch.fnmatchcase(local.name, pattern) for pattern in users.allow):
        return ""
    return f"{local.name} is a system account here (users.min_uid, users.allow)"
