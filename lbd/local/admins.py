"""Who may see and touch what is everybody's: root, our own user, and whom `[admin]` names."""

import contextlib
import grp
import pwd

from lbd.config.access import AdminConfig
from lbd.local.caller import Caller
from lbd.local.json_socket import Refusal


class Admins:
    """Names are looked up at each question: accounts come and go, and questions are few."""

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
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(name).pw_uid
    return None


def gid_of(name: str) -> int | None:
    with contextlib.suppress(KeyError):
        return grp.getgrnam(name).gr_gid
    return None
