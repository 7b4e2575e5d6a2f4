"""This host's user database, and what the keeper allows of it."""

import os
import pwd

from lbd.config_access import UsersConfig
from lbd.lbm.users import ROOT_UID, LocalUser, fault_of_account

KNOWN_S, AGING_S = 60.0, 30.0
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

    def verdict(self, user: tuple[int, ...], now_s: float) -> bool | None:
        """Whether it lets in uid, gid and groups; () is the keeper's own user. None: not known."""
        if os.geteuid() != ROOT_UID:
            return True
        allowed, since_s = self._known.get(user, (False, -KNOWN_S))
        return allowed if now_s < since_s + KNOWN_S else None

    def is_aging(self, user: tuple[int, ...], now_s: float) -> bool:
        """Is it time to look again, so that nobody waits for it later?"""
        _, since_s = self._known.get(user, (False, now_s))
        return now_s > since_s + AGING_S

    def learn(self, user: tuple[int, ...], allowed: bool, now_s: float) -> None:
        if len(self._known) >= KNOWN:
            self._known.clear()
        self._known[user] = allowed, now_s

    def look(self, user: tuple[int, ...]) -> bool:
        """In the user database, which may take its time."""
        if not user:
            return self._users.allow_root
        uid, gid, *groups = user
        account = find_account(uid)
        if account is None or fault_of_account(self._users, account):
            return False
        return gid == account.gid and {*groups} <= {*account.groups}
