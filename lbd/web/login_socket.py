"""Where `lbctl web login` asks for a link: a Unix socket, so that the kernel says who asks."""

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
    """Of this user's page: where the daemons' sockets are, if that is ours."""
    runtime_dir = Path(config.host.runtime_dir)
    is_ours = os.geteuid() == 0 or (
        runtime_dir.exists() and runtime_dir.stat().st_uid == os.geteuid()
    )
    return runtime_dir if is_ours else Path(default_runtime_dir())


class Logins:
    def __init__(
        self, sessions: Sessions, url: str, now_s: Callable[[], float], only_uid: int | None
    ) -> None:
        """`only_uid`: who alone may sign in; None: every user of this host."""
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
            # Each number of the range would have a user's share of the links.
            raise Refusal(
                f"uid {caller.uid} belongs to a range in /etc/subuid and is not an account",
                "denied",
            )
        token = self._sessions.link(user, self._now_s())
        return {"url": f"{self._url}login?token={token}", "valid_s": LINK_S}
