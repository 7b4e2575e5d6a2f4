"""A frame's fields as a table, from which both packer and reader are made. Pure.

`lbrun` packs with it, so it imports nothing slow. field_reader.py reads.
"""

from lbd.local import frames

TYPE_CHECKING = False  # importing typing takes a while
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Never


def as_it_is(value: bytes) -> bytes:
    return value


def number(value: int) -> bytes:
    return b"%d" % value


class Field:
    """One key of a frame, the attribute it stands for, and how its value is written and read."""

    __slots__ = ("always", "attribute", "decode", "decode_all", "encode", "key")

    def __init__(
        self,
        key: bytes,
        attribute: str,
        encode: "Callable[[Never], bytes]" = as_it_is,
        decode: "Callable[[bytes], object]" = as_it_is,
        *,
        decode_all: "Callable[[list[bytes]], object] | None" = None,
        always: bool = False,
    ) -> None:
        """`decode_all`: for an attribute with several values, each in a field of its own. `always`:
        packed even if it is 0 or empty. Both decoders raise ValueError."""
        self.key, self.attribute = key, attribute
        self.encode, self.decode = encode, decode
        self.decode_all, self.always = decode_all, always


def flag(key: bytes, attribute: str) -> Field:
    """A field whose presence is its value."""
    return Field(key, attribute, lambda _: b"", lambda _: True)


def count(key: bytes, attribute: str, *, always: bool = False) -> Field:
    return Field(key, attribute, number, int, always=always)


def pack(table: "Iterable[Field]", values: object) -> bytes:
    """Packs the body of a frame from the attributes that an object has."""
    pairs: list[tuple[bytes, bytes]] = []
    for field in table:
        value = getattr(values, field.attribute, None)
        if not value and (value is None or not field.always):
            continue
        key, encode = field.key, field.encode
        if field.decode_all is not None and value:
            each = getattr(value, "items", value.__iter__)
            pairs += [(key, encode(item)) for item in each()]
        else:
            pairs.append((key, encode(value)))
    return frames.pack_fields(pairs)
