"""Reads the list in a daemon's answer one object at a time.

The objects of an answer take some ten times as much memory as its text. A page that needs few of
them picks these while the answer is read, so no others are in memory at once.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace

from lbd.console.reply import Json
from lbd.errors import PeerError
from lbd.local import frames
from lbd.local.json_socket import Reading

Pick = Callable[[Json], None]
SPACE = re.compile(r"[ \t\n\r]*")
OBJECT = json.JSONDecoder().raw_decode
UNKNOWN = "the daemon's answer contains no list {!r}; is it another version?"


def picking(reading: Reading, key: str, pick: Pick) -> Reading:
    """Returns how to read an answer of which `pick` gets the objects in the list under `key`; in
    the answer itself that list is empty."""

    def decode(tag: bytes, body: bytes) -> Json:
        if tag != frames.JSON:
            raise PeerError(f"a frame tagged {tag!r} instead of JSON")
        try:
            return picked(str(body, "utf-8"), key, pick)
        except (ValueError, RecursionError) as problem:
            raise PeerError(f"not JSON: {problem}") from problem

    return replace(reading, decode=decode)


def picked(text: str, key: str, pick: Pick) -> Json:
    """Raises ValueError if this is no JSON object, PeerError if there is something else in the
    list than objects."""
    found: Json = {}
    at = after(text, 0, "{")
    if not is_next(text, at, "}"):
        while True:
            name, at = OBJECT(text, at)
            at = after(text, at, ":")
            if name == key and is_next(text, at, "["):
                found[key], at = [], pick_all(text, at, key, pick)
            else:
                found[str(name)], at = OBJECT(text, at)
            at = space(text, at)
            if is_next(text, at, "}"):
                break
            at = after(text, at, ",")
    after_end = after(text, at, "}")
    if after_end != len(text):
        raise ValueError(f"more after its end, at {after_end}")
    return found


def pick_all(text: str, at: int, key: str, pick: Pick) -> int:
    """Returns the place after the list."""
    at = after(text, at, "[")
    if is_next(text, at, "]"):
        return at + 1
    while True:
        one, at = OBJECT(text, at)
        if not isinstance(one, dict):
            raise PeerError(UNKNOWN.format(key))
        pick(one)
        at = space(text, at)
        if is_next(text, at, "]"):
            return at + 1
        at = after(text, at, ",")


def space(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return found.end() if found else at


def is_next(text: str, at: int, mark: str) -> bool:
    return text.startswith(mark, at)


def after(text: str, at: int, mark: str) -> int:
    """Returns the place after that mark and the space around it. Raises ValueError."""
    at = space(text, at)
    if not is_next(text, at, mark):
        raise ValueError(f"{mark!r} expected at {at}")
    return space(text, at + 1)
