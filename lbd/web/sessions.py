"""Sign-ins: links that work once, sessions that expire, and the tokens that forms must carry.

Links and sessions are stored only as digests. So the time of a look-up reveals nothing, and what is
stored does not let anyone sign in. Pure: the time is an argument, and `secret` returns a new random
text.
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from lbd.errors import LbdError

LINK_S = 300.0
LINKS_OF_USER_MAX = 4
SESSION_S, IDLE_S = 12 * 3600.0, 2 * 3600.0
SESSIONS_OF_USER_MAX, SESSIONS_MAX = 8, 512


class TooMany(LbdError):
    """The limit on sessions of all users together is reached."""


@dataclass(frozen=True, slots=True)
class User:
    uid: int
    name: str


@dataclass(slots=True)
class Session:
    user: User
    csrf: str
    key: str
    until_s: float
    idle_until_s: float


class Sessions:
    def __init__(self, secret: Callable[[], str]) -> None:
        self._secret = secret
        self._links: dict[str, tuple[User, float]] = {}
        self._sessions: dict[str, Session] = {}

    def link(self, user: User, now_s: float) -> str:
        """Returns the token of a new link. At a user's limit it replaces their oldest link."""
        self._expire(now_s)
        own = [digest for digest, (who, _) in self._links.items() if who.uid == user.uid]
        if len(own) >= LINKS_OF_USER_MAX:
            del self._links[own[0]]
        elif len(self._links) >= SESSIONS_MAX:
            raise TooMany("too many unused links; try again in a few minutes")
        token = self._secret()
        self._links[digest_of(token)] = user, now_s + LINK_S
        return token

    def sign_in(self, token: str, now_s: float) -> str | None:
        """Returns the cookie's value; None if the link is unknown or expired. Raises TooMany."""
        self._expire(now_s)
        found = self._links.pop(digest_of(token), None)
        if found is None:
            return None
        user, _ = found
        own = [key for key, one in self._sessions.items() if one.user.uid == user.uid]
        if len(own) >= SESSIONS_OF_USER_MAX:
            del self._sessions[own[0]]
        elif len(self._sessions) >= SESSIONS_MAX:
            raise TooMany("too many users are signed in; try again later")
        secret = self._secret()
        key = digest_of(secret)
        self._sessions[key] = Session(user, self._secret(), key, now_s + SESSION_S, now_s + IDLE_S)
        return secret

    def find(self, secret: str, now_s: float) -> Session | None:
        self._expire(now_s)
        found = self._sessions.get(digest_of(secret))
        if found is not None:
            found.idle_until_s = now_s + IDLE_S
        return found

    def is_open(self, key: str, now_s: float) -> bool:
        """Returns whether the session is open, without extending it."""
        self._expire(now_s)
        return key in self._sessions

    def sign_out(self, key: str) -> None:
        self._sessions.pop(key, None)

    def _expire(self, now_s: float) -> None:
        self._links = {name: one for name, one in self._links.items() if now_s < one[1]}
        self._sessions = {
            key: one
            for key, one in self._sessions.items()
            if now_s < min(one.until_s, one.idle_until_s)
        }


def digest_of(secret: str) -> str:
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


def is_csrf(given: str, expected: str) -> bool:
    return bool(expected) and hmac.compare_digest(given.encode(errors="replace"), expected.encode())
