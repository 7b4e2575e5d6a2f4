"""Reads a daemon's JSON reply. A malformed reply raises PeerError, not KeyError.

Texts are made printable when they are read, because many come from other users and hosts; `--json`
passes the reply on unchanged.
"""

import math

from lbd.errors import PeerError
from lbd.text.one_line import printable

Json = dict[str, object]


def answer_in(reply: Json) -> Json:
    """Returns the reply without the fields that only the socket protocol needs."""
    return {key: value for key, value in reply.items() if key not in ("ok", "id")}


def table(reply: Json, key: str) -> Json:
    """Returns the object under `key`; {} if it is null or missing."""
    value = reply.get(key) or {}
    if not isinstance(value, dict):
        raise PeerError(f"the daemon's answer contains no object {key!r}; is it another version?")
    return value


def tables(reply: Json, key: str) -> list[Json]:
    """Returns the objects in the list under `key`."""
    value = reply.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise PeerError(f"the daemon's answer contains no list {key!r}; is it another version?")
    return value


def number(reply: Json, key: str) -> float:
    """Returns the number under `key`; NaN if it is null or missing, or not finite, as another host
    may say."""
    value = reply.get(key)
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return math.nan


def whole(reply: Json, key: str) -> int:
    """Returns the number as an int; 0 if it is missing."""
    value = number(reply, key)
    return 0 if math.isnan(value) else int(value)


def text(reply: Json, key: str) -> str:
    """Returns the text under `key` as one printable line; "" if it is null or missing."""
    value = reply.get(key)
    return "" if value is None else printable(str(value))


def texts(reply: Json, key: str) -> list[str]:
    value = reply.get(key)
    return [printable(str(item)) for item in value] if isinstance(value, list) else []
