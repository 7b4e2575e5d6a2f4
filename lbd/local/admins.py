"""Who may see and change everybody's jobs: root, the daemons' own user, and those in `[admin]`."""

import grp
import pwd

from lbd.config.access import AdminConfig
from lbd.local.caller import Caller
from lbd.local.json_socket import Refusal
from lbd.local.late_answers import LateAnswers


class Admins:
    """Checks callers against `[admin]`. A slow user database delays only the first look-up of a
    name."""

    def __init__(self, config: AdminConfig) -> None:
        self._config = config

    def include(self, caller: Caller) -> bool:
        return caller.is_daemon or self._is_named(caller) or self._is_in_group(caller)

    def check(self, caller: Caller) -> None:
        """Raises Refusal."""
        if not self.include(caller):
            raise Refusal(
                "permission denied: only root and administrators (admin.users, admin.groups) can "
                "do that",
                "denied",
            )

    def _is_named(self, caller: Caller) -> bool:
        return any(UIDS.get(name) == caller.uid for name in self._config.users)

    def _is_in_group(self, caller: Caller) -> bool:
        theirs = {caller.gid, *caller.groups}
        return any(GIDS.get(name) in theirs for name in self._config.groups)


UIDS = LateAnswers(lambda name: pwd.getpwnam(name).pw_uid)
GIDS = LateAnswers(lambda name: grp.getgrnam(name).gr_gid)
