"""This host's user database, and which users the keeper may become."""

import ctypes
import os
import pwd
import time

from lbd.config.access import UsersConfig
from lbd.keeper.local_account import (
    OF_SERVICES,
    ROOT_UID,
    LocalUser,
    Standing,
    fault_of_account,
    why_closed,
)
from lbd.process.timed_cache import TimedCache

# An answer is not believed any longer, since the account may have been locked. The next is asked
# for earlier, so that no order of a busy user has to wait for it.
KNOWN_S, AGING_S = 30.0, 20.0
# As pam_nologin(8), but without /run/nologin: systemd creates that at every boot until logins are
# allowed, and in containers without the service that removes it, it stays.
NOLOGIN = "/etc/nologin"
DAY_S = 86400
REFUSED = "user"  # a phase; for closed accounts it begins with ACCOUNT
ACCOUNT = "account."
# A verdict that is no fault: the order's user has left these groups. An LBM that asked the user
# database a little earlier names them still. It counts only for a user who was allowed these groups
# so lately; else they never were theirs.
LEFT, LEFT_MAX, LATELY_S = "left ", 32, 120.0
BY_KEEPER = ("users.allow", "users.allow_root", "users.min_uid")  # fixed when the keeper is started


class Shadow(ctypes.Structure):
    """struct spwd of getspnam(3)."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("password", ctypes.c_char_p),
        *((name, ctypes.c_long) for name in ("changed", "least", "most", "warns", "inactive")),
        ("expires_day", ctypes.c_long),
        ("flag", ctypes.c_ulong),
    )


def standing_of(name: str) -> Standing:
    """Only root may call this."""
    look = ctypes.CDLL(None).getspnam
    look.restype = ctypes.POINTER(Shadow)
    found = look(name.encode())
    closed, today = os.path.exists(NOLOGIN), int(time.time() // DAY_S)
    if not found:
        return Standing(today=today, no_logins=closed)
    password = (found.contents.password or b"").decode(errors="replace")
    return Standing(password, found.contents.expires_day, today, closed)


def find_account(wanted: str | int) -> LocalUser | None:
    """Looks up an account by name or number."""
    try:
        entry = pwd.getpwnam(wanted) if isinstance(wanted, str) else pwd.getpwuid(wanted)
    except (KeyError, ValueError, OverflowError):
        return None
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return LocalUser(
        entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, entry.pw_shell
    )


def pack_gate(users: UsersConfig, lbm_uid: int) -> str:
    """Packs what the keeper may allow into one word of its command line. `lbm_uid`: the user whose
    orders it takes."""
    numbers = (int(users.allow_root), users.min_uid, lbm_uid)
    return "\n".join((*map(str, numbers), *users.allow))


def users_in(packed: str) -> UsersConfig:
    """Returns the [users] settings that `pack_gate` has packed. Raises ValueError."""
    allow_root, min_uid, _, *allow = packed.split("\n")
    return UsersConfig(allow_root=allow_root == "1", min_uid=int(min_uid), allow=tuple(allow))


def users_of(command_line: bytes) -> UsersConfig | None:
    """Returns the settings that a keeper runs with, or None if this is no keeper or is not
    understood. The command line's words end with a NUL each; the gate is the third from the end."""
    words = command_line.decode(errors="replace").split("\0")[:-1]
    if not any("lbd.keeper.loop" in word for word in words):
        return None
    try:
        return users_in(words[-3])
    except (ValueError, IndexError):  # perhaps the pid is another process's by now
        return None


class Gate:
    """Decides whom a keeper may become, whatever its LBM says: it checks the user database itself.
    A keeper that is not root cannot become anybody else."""

    def __init__(self, packed: str, spool: str) -> None:
        """`spool`: the directory where the LBM keeps outputs."""
        lbm_uid = packed.split("\n")[2]
        self._lbm_uids = (ROOT_UID, os.geteuid(), int(lbm_uid))
        # started by another account, which also ends it
        self.is_apart = int(lbm_uid) != os.geteuid()
        self._users = users_in(packed)
        self.lbm_uid = int(lbm_uid)
        self.spool = os.fsencode(spool)
        self._known: TimedCache[tuple[int, ...], str] = TimedCache(KNOWN_S)
        self._allowed: TimedCache[tuple[int, ...], str] = TimedCache(LATELY_S)

    @property
    def lbm_gid(self) -> int:
        """Returns -1 if the LBM's user has no account."""
        try:
            return pwd.getpwuid(self.lbm_uid).pw_gid
        except KeyError:
            return -1

    def takes_orders_of(self, uid: int) -> bool:
        return uid in self._lbm_uids

    def lets_in(self, uid: int) -> bool:
        """Returns whether commands of this user may run, by uid and name alone. Reads the user
        database."""
        if uid >= self._users.min_uid:
            return uid not in OF_SERVICES
        account = find_account(uid)
        return account is not None and not fault_of_account(self._users, account)

    def verdict(self, user: tuple[int, ...], now_s: float) -> str | None:
        """Returns why uid, gid and groups are refused, "" if they are allowed, or LEFT with the
        groups that are not any more; None if not known. () is the keeper's own user."""
        if os.geteuid() != ROOT_UID:
            return ""
        known = self._known.get(user, now_s)
        return known[0] if known is not None else None

    def is_aging(self, user: tuple[int, ...], now_s: float) -> bool:
        """Returns whether to look again now, while the last answer still counts."""
        return self._known.age_s(user, now_s) > AGING_S

    def learn(self, user: tuple[int, ...], verdict: str, now_s: float) -> None:
        if verdict.startswith(LEFT) and self._allowed.get(user, now_s) is None:
            verdict = REFUSED
        if not verdict:
            self._allowed.put(user, verdict, now_s)
        self._known.put(user, verdict, now_s)

    def look(self, user: tuple[int, ...]) -> str:
        """Returns the phase at which an order for this user fails, "" if it does not, or LEFT and
        groups, as `verdict`. Reads the user database, which may be slow."""
        if not user:
            return "" if self._users.allow_root else REFUSED
        uid, gid, *groups = user
        account = find_account(uid)
        if account is None or fault_of_account(self._users, account):
            return REFUSED
        left = sorted({*groups} - {*account.groups})
        if gid != account.gid or len(left) > LEFT_MAX:
            return REFUSED
        closed = why_closed(self._users, account, standing_of(account.name))
        if closed:
            return ACCOUNT + closed
        return LEFT + " ".join(map(str, left)) if left else ""


def as_allowed(user: tuple[int, ...], verdict: str) -> tuple[tuple[int, ...], str]:
    """Returns the user without the groups that a verdict takes from it, and the fault."""
    if not verdict.startswith(LEFT):
        return user, verdict
    left = {*map(int, verdict.removeprefix(LEFT).split())}
    return (*user[:2], *(group for group in user[2:] if group not in left)), ""
