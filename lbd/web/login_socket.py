"""The Unix socket where `lbctl web login` gets a link; the kernel vouches for the caller."""

import os
from collections.abc import Callable
from pathlib import Path

from lbd.config.load import default_runtime_dir
from lbd.config.schema import Config
from lbd.local.caller import Caller, caller_name, range_owner
from lbd.local.json_socket import Json, Refusal
from lbd.web.sessions import LINK_S, Sessions, User

SOCKET_MODE = 0o666  # every user may ask


def own_directory(config: Config) -> Path:
    """Returns the directory of our socket: that of the daemons' sockets if we own it."""
    runtime_dir = Path(config.host.runtime_dir)
    is_ours = os.geteuid() == 0 or (
        runtime_dir.exists() and runtime_dir.stat().st_uid == os.geteuid()
    )
    return runtime_dir if is_ours else Path(default_runtime_dir())


class Logins:
    def __init__(
        self, sessions: Sessions, url: str, now_s: Callable[[], float], only_uid: int | None
    ) -> None:
        """`only_uid`: the only user who may sign in; None: every user of this host."""
        self._sessions, self._url, self._now_s, self._only_uid = sessions, url, now_s, only_uid

    async def handle(self, request: Json, caller: Caller) -> Json:
        """Raises Refusal."""
        if request.get("op") == "status":
            return {"url": self._url}
        if request.get("op") != "login":
            raise Refusal(f"unknown operation {request.get('op')!r}")
        if self._only_uid is not None and caller.uid != self._only_uid:
            raise Refusal(
                f"this page is run by user {self._only_uid} and acts only as that user; run your "
                "own `lbd web` to act as yourself",
                "denied",
            )
        user = User(caller.uid, caller_name(caller))
        if range_owner(caller.uid, user.name) is not None:
            # Otherwise each uid of the range would have a user's quota of links.
            raise Refusal(
                f"uid {caller.uid} belongs to a range in /etc/subuid and is not an account",
                "denied",
            )
        token = self._sessions.link(user, self._now_s())
        return {"url": f"{self._url}login?token={token}", "valid_s": LINK_S}
