"""Who may see and touch what is everybody's: root, our own user, and whom `[admin]` names."""

import contextlib
import grp
import pwd
import time
from functools import lru_cache

from lbd.config.access import AdminConfig
from lbd.local.caller import Caller
from lbd.local.json_socket import Refusal

KNOWN_S = 60.0
NAMES_MAX = 128


class Admins:
    """Names are looked up once a minute, since accounts come and go; not at each question, or one
    user's questions would have others wait for a slow user database."""

    def __init__(self, config: AdminConfig) -> None:
        self._config = config

    def include(self, caller: Caller) -> bool:
        return caller.is_daemon or self._is_named(caller) or self._is_in_group(caller)

    def check(self, caller: Caller) -> None:
        """Raises Refusal."""
        if not self.include(caller):
            raise Refusal("only root and administrators (admin.users, admin.groups) may", "denied")

    def _is_named(self, caller: Caller) -> bool:
        return any(uid_of(name) == caller.uid for name in self._config.users)

    def _is_in_group(self, caller: Caller) -> bool:
        theirs = {caller.gid, *caller.groups}
        return any(gid_of(name) in theirs for name in self._config.groups)


def uid_of(name: str) -> int | None:
    return _uid_of(name, time.monotonic() // KNOWN_S)


def gid_of(name: str) -> int | None:
    return _gid_of(name, time.monotonic() // KNOWN_S)


@lru_cache(NAMES_MAX)
def _uid_of(name: str, _period: float) -> int | None:
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(name).pw_uid
    return None


@lru_cache(NAMES_MAX)
def _gid_of(name: str, _period: float) -> int | None:
    with contextlib.suppress(KeyError):
        return grp.getgrnam(name).gr_gid
    return None
