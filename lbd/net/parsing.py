"""Parses all messages from others, after counting their fields in a walk over their bytes.

Two bytes can announce another empty message in a list, of which protobuf makes an object of
hundreds of bytes before anyone can check the count. So a message long enough to hold too many
fields is walked first, and its fields and messages are counted as far as protobuf would create
objects for them. The walk takes half a microsecond per field, so it is short for a long input or a
file, which is one field. Anything the walk does not understand is refused.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from lbd.local.long_answers import in_turns

FIELD_BYTES = 2  # minimum per field
# For requests: a command may have half a million words (FIELDS_MAX of local/frames.py), a host
# twenty thousand attempts.
FIELDS_MAX, MESSAGES_MAX = 600_000, 1 << 16
# For answers that we have asked for: 12 MiB of jobs, which protobuf parses in a tenth of a second.
ANSWER_FIELDS_MAX, ANSWER_MESSAGES_MAX = 5 << 19, 1 << 18
STEP_FIELDS = 1 << 13  # that are walked without a pause
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
TAG_BITS, NUMBER_SHIFT = 32, 3
CONTINUES = bytes(range(128, 256))  # the bytes of a number except its last
SIZES = {
    FieldDescriptor.TYPE_DOUBLE: 8, FieldDescriptor.TYPE_FIXED64: 8,
    FieldDescriptor.TYPE_SFIXED64: 8, FieldDescriptor.TYPE_FLOAT: 4,
    FieldDescriptor.TYPE_FIXED32: 4, FieldDescriptor.TYPE_SFIXED32: 4,
}  # fmt: skip

Parsed = TypeVar("Parsed", bound=Message)
Turns = Callable[[Iterator[None]], AsyncIterator[None]]
# The fields of a message type that matter: a nested type; the bytes of each number of a list, 0 if
# they vary; None for texts. Empty: it contains no list anywhere, so it need not be walked.
Kind = dict[int, "Kind | int | None"]
KINDS: dict[str, Kind] = {}


class TooManyFields(DecodeError):
    """It may be a well-formed message."""


def parsed(
    kind: type[Parsed],
    data: bytes,
    fields_max: int = FIELDS_MAX,
    messages_max: int = MESSAGES_MAX,
) -> Parsed:
    """Parses a message after counting. Raises DecodeError."""
    if len(data) > FIELD_BYTES * min(fields_max, messages_max):
        descriptor: Descriptor = kind.DESCRIPTOR  # type: ignore[assignment]  # upb's, to the stubs
        check(data, kind_of(descriptor), fields_max, messages_max)
    return kind.FromString(data)


def parsed_answer(kind: type[Parsed], data: bytes) -> Parsed:
    """Parses an answer that we have asked for. Raises DecodeError."""
    return parsed(kind, data, ANSWER_FIELDS_MAX, ANSWER_MESSAGES_MAX)


async def parsed_in_turns(kind: type[Parsed], data: bytes, turns: Turns = in_turns) -> Parsed:
    """Like `parsed_answer`, while others are served. `turns` takes the steps. Raises
    DecodeError."""
    found: list[Parsed] = []
    async for _ in turns(steps(kind, data, found)):
        pass
    return found[0]


def steps(kind: type[Parsed], data: bytes, found: list[Parsed]) -> Iterator[None]:
    """Raises DecodeError."""
    if len(data) > FIELD_BYTES * STEP_FIELDS:
        descriptor: Descriptor = kind.DESCRIPTOR  # type: ignore[assignment]  # upb's, to the stubs
        yield from walk(data, kind_of(descriptor), ANSWER_FIELDS_MAX, ANSWER_MESSAGES_MAX)
    found.append(kind.FromString(data))
    yield


def kind_of(descriptor: Descriptor) -> Kind:
    known = KINDS.get(descriptor.full_name)
    if known is None:
        made: dict[str, Kind] = {}
        known = _kind_of(descriptor, made)
        KINDS.update(made)  # added when complete: threads parse, too
    return known


def _kind_of(descriptor: Descriptor, made: dict[str, Kind]) -> Kind:
    """`made`: types in construction, since a type may contain itself."""
    name = descriptor.full_name
    if (known := KINDS.get(name, made.get(name))) is not None:
        return known
    kind = made[name] = dict[int, "Kind | int | None"]()
    for field in descriptor.fields:
        if field.message_type is not None:
            inner = _kind_of(field.message_type, made)
            if inner or field.is_repeated:
                kind[field.number] = inner
        elif field.is_repeated:
            kind[field.number] = (
                None
                if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
                else SIZES.get(field.type, 0)
            )
    return kind


def check(data: bytes, kind: Kind, fields_max: int, messages_max: int) -> None:
    """Raises DecodeError if there are too many fields or messages, or the walk fails."""
    for _ in walk(data, kind, fields_max, messages_max):
        pass


def walk(data: bytes, kind: Kind, fields_max: int, messages_max: int) -> Iterator[None]:
    """Does the same in steps. Raises DecodeError."""
    step_end = min(STEP_FIELDS, fields_max)
    around: list[tuple[int, Kind]] = []  # ends and types of the enclosing messages
    at, end, fields, messages = 0, len(data), 0, 0
    try:
        while True:
            while at == end:
                if not around:
                    return
                end, kind = around.pop()
            fields += 1
            tag = data[at]
            at += 1
            if tag >= 128:
                tag, at = number_at(data, at - 1)
            wire = tag & 7
            if wire == BYTES:
                size = data[at]
                at += 1
                if size >= 128:
                    size, at = number_at(data, at - 1)
                inside = kind.get(tag >> NUMBER_SHIFT)
                if isinstance(inside, dict):
                    messages += 1
                    if inside and size:
                        around.append((end, kind))
                        if at + size > end:
                            raise DecodeError("it is cut short")
                        end, kind = at + size, inside
                        size = 0
                elif inside is not None:
                    fields += size // inside if inside else numbers_in(data, at, size)
                at += size
            elif wire == VARINT:
                while data[at] >= 128:
                    at += 1
                at += 1
            elif wire == FIXED_64:
                at += 8
            elif wire == FIXED_32:
                at += 4
            else:
                raise DecodeError("it has groups")
            if at > end:
                raise DecodeError("it is cut short")
            if fields > step_end or messages > messages_max:
                if fields > fields_max or messages > messages_max:
                    raise TooManyFields(
                        f"it has more than {fields_max} fields, or {messages_max} messages in it"
                    )
                yield
                step_end = min(fields + STEP_FIELDS, fields_max)
    except IndexError:
        raise DecodeError("it is cut short") from None


def number_at(data: bytes, at: int) -> tuple[int, int]:
    """Returns a number and where it ends. Raises DecodeError, IndexError."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at
        shift += 7
        if shift > TAG_BITS:
            raise DecodeError("it has a number that is too long")


def numbers_in(data: bytes, at: int, size: int) -> int:
    return len(data[at : at + size].translate(None, CONTINUES))
