"""This host's user database, and what the keeper allows of it."""

import errno
import os
import pwd
import time

from lbd.config_access import UsersConfig
from lbd.lbm.users import ROOT_UID, LocalUser, fault_of_account

KNOWN_S = 60.0
KNOWN = 1024


def find_account(wanted: str | int) -> LocalUser | None:
    """By name or number."""
    try:
        entry = pwd.getpwnam(wanted) if isinstance(wanted, str) else pwd.getpwuid(wanted)
    except (KeyError, ValueError, OverflowError):
        return None
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return LocalUser(
        entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, entry.pw_shell
    )


def pack_gate(users: UsersConfig, lbm_uid: int) -> str:
    """What the keeper is to allow, as one word of its command line. `lbm_uid`: whose orders."""
    numbers = (int(users.allow_root), users.min_uid, lbm_uid)
    return "\n".join((*map(str, numbers), *users.allow))


class Gate:
    """Whom a keeper becomes, whatever its LBM says: it looks for itself. One that is not root can
    become nobody anyway."""

    def __init__(self, packed: str) -> None:
        allow_root, min_uid, lbm_uid, *allow = packed.split("\n")
        self._lbm_uids = (ROOT_UID, os.geteuid(), int(lbm_uid))
        self.is_apart = int(lbm_uid) != os.geteuid()  # who started the keeper keeps it
        self._users = UsersConfig(
            allow_root=allow_root == "1", min_uid=int(min_uid), allow=tuple(allow)
        )
        self._known: dict[tuple[int, ...], tuple[bool, float]] = {}

    def takes_orders_of(self, uid: int) -> bool:
        return uid in self._lbm_uids

    def check(self, order: bytes) -> tuple[int, ...]:
        """`order`: uid, gid and groups; b"" is the keeper's own user. Returns them: what has been
        checked, and nothing else, is for a child to become. Raises PermissionError, ValueError."""
        user = tuple(map(int, order.split()))
        if os.geteuid() == ROOT_UID and not self._lets_in(user):
            raise PermissionError(errno.EPERM, "not to be run as that user")
        return user

    def _lets_in(self, user: tuple[int, ...]) -> bool:
        known, until_s = self._known.get(user, (False, 0.0))
        now_s = time.monotonic()
        if now_s >= until_s:
            if len(self._known) >= KNOWN:
                self._known.clear()
            known = self._look(user)
            self._known[user] = known, now_s + KNOWN_S
        return known

    def _look(self, user: tuple[int, ...]) -> bool:
        if not user:
            return self._users.allow_root
        uid, gid, *groups = user
        account = find_account(uid)
        if account is None or fault_of_account(self._users, account):
            return False
        return gid == account.gid and {*groups} <= {*account.groups}
