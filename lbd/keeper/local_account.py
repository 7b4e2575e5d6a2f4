"""Which local account a foreign command runs as. Pure: the user database is an argument.

The origin vouches for the user; this host decides which of its accounts that is. The keeper checks
`fault_of_account` once more itself, so a compromised LBM still cannot become root.
"""

import fnmatch
from dataclasses import dataclass

from lbd.config.access import UsersConfig

ROOT_UID = 0
SINGLE = "single:"
OF_SERVICES = range(60514, 65536)  # Debian's and systemd's ranges for services, with nobody


@dataclass(frozen=True, slots=True)
class LocalUser:
    """An entry of this host's user database."""

    name: str
    uid: int
    gid: int = 0
    groups: tuple[int, ...] = ()
    home: str = ""
    shell: str = ""


NO_UID = -2  # of an asker: nobody's; differs from a job's unknown uid (-1)


@dataclass(frozen=True, slots=True)
class Asker:
    """The user who asks, as the origin's kernel reports them."""

    user: str
    uid: int


@dataclass(frozen=True, slots=True)
class Admit:
    """The command may run."""

    run_as: LocalUser | None  # None = the keeper's own user
    note: str = ""  # for the user, with -v


@dataclass(frozen=True, slots=True)
class Refuse:
    """The command may not run here."""

    reason: str
    try_another: bool = True
    is_drained: bool = False
    wait_s: float = 0.0  # after which it may; 0: not known
    then: Admit | None = None  # as whom it may then


def wanted_account(users: UsersConfig, asker: Asker) -> str | int:
    """Returns the name or number to look up in the user database."""
    if users.map.startswith(SINGLE):
        return users.map.removeprefix(SINGLE)
    return asker.uid if users.map == "uid" else asker.user


def is_same(users: UsersConfig, one: Asker, other: Asker) -> bool:
    """Returns whether two askers are the same person. Under the uid map the number decides, since a
    name may belong to another person on another host."""
    return one.uid == other.uid if users.map == "uid" else one.user == other.user


def identify(
    users: UsersConfig, asker: Asker, local: LocalUser | None, keeper_uid: int
) -> Admit | Refuse:
    """Maps the asker to an account. `local`: the database entry for `wanted_account`, or for
    `users.unknown`."""
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
    """A keeper that is not root cannot become another user: it serves its own user only."""
    by_number = users.map == "uid" or asker.user == str(asker.uid)
    if (
        local is None and by_number and asker.uid == keeper_uid
    ):  # without a user database, as in a container
        return Admit(None)
    if local is not None and local.uid == keeper_uid:
        return Admit(None)
    return Refuse(
        f"commands of {asker.user} cannot run here: the keeper runs as uid {keeper_uid}, not root, "
        "and serves only that user"
    )


def fault_of_account(users: UsersConfig, local: LocalUser) -> str:
    """Returns why nothing may run as this account, "" if it may."""
    if local.uid == ROOT_UID:
        return "" if users.allow_root else ROOT_REFUSED
    if local.uid >= users.min_uid and local.uid not in OF_SERVICES:
        return ""
    if is_allowed(users, local):
        return ""
    return f"{local.name} is a system account here (users.min_uid, users.allow)"


HASH_LENGTH = 13  # of the oldest kind of hash, which has no $
NO_SHELLS = ("nologin", "false")
# Why a personal account may not run commands, as found by the keeper, which may read the shadow
# file.
CLOSED = {
    "shell": "has no login shell here",
    "locked": "is locked here",
    "expired": "has expired here",
    "nologin": "may not log in here now (/etc/nologin)",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """What the shadow file and this host say about an account."""

    password: str = ""  # as stored
    expires_day: int = -1  # since 1970; -1 = never
    today: int = 0
    no_logins: bool = False  # for everyone but root


def why_closed(users: UsersConfig, local: LocalUser, standing: Standing) -> str:
    """Returns a word of CLOSED, "" if the account may log in; `users.allow` overrules. PAM is not
    asked.

    An account without a password may log in, with a key. It is locked if it has a password with a
    mark before it.
    """
    if local.uid == ROOT_UID or is_allowed(users, local):
        return ""
    if local.shell.rpartition("/")[2] in NO_SHELLS:
        return "shell"
    hidden = standing.password.lstrip("!")
    if hidden != standing.password and (hidden.startswith("$") or len(hidden) >= HASH_LENGTH):
        return "locked"
    if 0 <= standing.expires_day <= standing.today:
        return "expired"
    return "nologin" if standing.no_logins else ""


def is_allowed(users: UsersConfig, local: LocalUser) -> bool:
    """Returns whether `users.allow` has the account's name."""
    return any(fnmatch.fnmatchcase(local.name, pattern) for pattern in users.allow)
