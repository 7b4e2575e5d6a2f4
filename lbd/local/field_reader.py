"""Reads a frame by the table of its fields. Pure."""

import struct
from collections.abc import Iterable

from lbd.local.field_table import Field
from lbd.local.frames import FIELDS_MAX, HEADER_BYTES

CUT = "a field runs past the end of its frame"
HEADER = struct.Struct("<cI")


class TooManyFields(ValueError):
    """More than its reader allows."""


class Reader:
    def __init__(self, table: Iterable[Field]) -> None:
        self._fields = {field.key: field for field in table}

    def read(self, body: bytes, into: object, most: int = FIELDS_MAX) -> None:
        """Sets an attribute for each field of the body, of which there may be at most `most`;
        unknown keys are skipped. Raises ValueError."""
        self.set(by_key(body, most), into)

    def set(self, given: dict[bytes, list[bytes]], into: object) -> None:
        """Raises ValueError."""
        for key, values in given.items():
            field = self._fields.get(key)
            if field is None:
                continue
            all_of_them = field.decode_all
            found = all_of_them(values) if all_of_them is not None else field.decode(values[-1])
            setattr(into, field.attribute, found)


def by_key(body: bytes, most: int = FIELDS_MAX) -> dict[bytes, list[bytes]]:
    """Like `frames.fields`, but grouped by key, and faster. Raises ValueError."""
    return by_key_until(body, frozenset(), most)[0]


def by_key_until(
    body: bytes, last: frozenset[bytes], most: int = FIELDS_MAX
) -> tuple[dict[bytes, list[bytes]], int]:
    """Returns the fields before the first key of `last`, and the offset where that begins. Raises
    ValueError."""
    found: dict[bytes, list[bytes]] = {}
    unpack, at, end, left = HEADER.unpack_from, 0, len(body), most
    while at < end:
        if not left:
            raise TooManyFields(f"more than {most} fields")
        start = at + HEADER_BYTES
        if start > end:
            raise ValueError(CUT)
        key, size = unpack(body, at)
        if key in last:
            break
        at = start + size
        if at > end:
            raise ValueError(CUT)
        left -= 1
        values = found.get(key)
        if values is None:
            found[key] = [body[start:at]]
        else:
            values.append(body[start:at])
    return found, at


def last_of_each(body: bytes) -> dict[bytes, bytes]:
    """The fields of a body by key, of which each comes once. Raises ValueError."""
    found: dict[bytes, bytes] = {}
    unpack, at, end = HEADER.unpack_from, 0, len(body)
    while at < end:
        start = at + HEADER_BYTES
        if start > end:
            raise ValueError(CUT)
        key, size = unpack(body, at)
        at = start + size
        if at > end:
            raise ValueError(CUT)
        found[key] = body[start:at]
    return found
