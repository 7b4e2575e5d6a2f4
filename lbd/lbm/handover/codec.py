"""Plain records as messages and back: what one LBM leaves for the next through the keeper.

A record is a dataclass whose fields are records, enums, tuples, lists, sets, dicts, bytes, text,
numbers, None, and descriptors (`Fd`), which go beside the message and are named by their place
(fds.py). Annotations define what a field may hold, both ways, so a record needs no code of its own.

Records and their fields are named, so that one release can read what another has left:

- A field with its default value is not written, and an absent field has its default. So a record of
  an older release can be read, and an older release can read a record that uses nothing new.
- A name, kind or value that the annotations do not allow is refused (PeerError), and the whole
  record with it: its meaning is unknown here. None of its descriptors is taken then.

So give a new field the default that means "as before". Give the record another name if a field is
removed, or changes its meaning.
"""

import dataclasses
import enum
import functools
import math
import types
import typing
from collections.abc import Collection, Iterable
from typing import NewType, TypeVar

from lbd.errors import PeerError
from lbd.lbm.handover.fds import Bundle, Given
from lbd.net.gen.handover_pb2 import HeldField, HeldItems, HeldRecord, HeldValue
from lbd.text.one_line import one_line

Fd = NewType("Fd", int)  # a descriptor; negative: none
NO_FD = Fd(-1)
SHOWN_CHARS = 255  # length of an error message about a record

Record = TypeVar("Record")
Kind = object  # an annotation: a class, a union, `tuple[int, ...]`, a NewType
SEQUENCES: tuple[type, ...] = (tuple, list, set, frozenset)
INT_MAX = 1 << 63
PLAIN = {
    "none": types.NoneType, "flag": bool, "number": int, "real": float, "data": bytes, "text": str
}  # fmt: skip


class Misfit(ValueError):
    """The value read does not fit its kind."""


def write(record: object, bundle: Bundle, held: HeldValue | None = None) -> HeldValue:
    """Writes it to `held`; its descriptors go into the bundle. Raises TypeError, ValueError,
    OverflowError if it does not fit its class, or could not be read."""
    held = held if held is not None else HeldValue()
    Writer(bundle).value(held, type(record), record)
    return held


def read(kind: type[Record], held: HeldValue, given: Given) -> Record:
    """The caller then owns its descriptors. Raises PeerError; then none are taken."""
    reader = Reader(given)
    try:
        record = reader.value(kind, held)
        assert isinstance(record, kind)
        return record
    except (ValueError, TypeError) as problem:
        reader.give_back()
        why = one_line(str(problem), SHOWN_CHARS)
        raise PeerError(
            f"the previous LBM's handover contains an invalid {kind.__name__}: {why}"
        ) from None


def descriptors_of(record: object) -> list[int]:
    bundle = Bundle()
    write(record, bundle)
    return bundle.descriptors


# -- kinds -----------------------------------------------------------------------------------------


@functools.cache
def fields_of(kind: type) -> dict[str, tuple["dataclasses.Field[object]", Kind]]:
    """The fields by name, each with its kind."""
    hints = typing.get_type_hints(kind)
    assert dataclasses.is_dataclass(kind)
    return {field.name: (field, hints[field.name]) for field in dataclasses.fields(kind)}


@functools.cache
def choices(kind: Kind) -> tuple[Kind, ...]:
    """The kinds that a value of this kind may have, without the names that NewType gives them."""
    if kind is None:
        return (types.NoneType,)
    if isinstance(kind, NewType) and kind is not Fd:
        return choices(kind.__supertype__)
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return tuple(one for some in typing.get_args(kind) for one in choices(some))
    return (kind,)


@functools.cache
def is_record(kind: Kind) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


@functools.cache
def is_enum(kind: Kind) -> bool:
    return isinstance(kind, type) and issubclass(kind, enum.Enum)


def of_items(kind: Kind, count: int) -> list[Kind]:
    """Returns the kind of each of the `count` items of a collection. Raises Misfit."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is dict:
        return [tuple[inside]] * count  # type: ignore[valid-type]
    if origin is tuple and inside[1:] != (...,):
        if len(inside) != count:
            raise Misfit(f"{count} items where {len(inside)} belong")
        return list(inside)
    return [inside[0]] * count


def is_default(field: "dataclasses.Field[object]", value: object) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return value == field.default_factory()
    return type(value) is type(field.default) and value == field.default


def is_one(value: object, kind: Kind) -> bool:
    if kind is float:  # an int fits too, as for the type checker
        return type(value) in (float, int)
    return type(value) is (int if kind is Fd else typing.get_origin(kind) or kind)


# -- writing ---------------------------------------------------------------------------------------


class Writer:
    """Fills messages where they are: one that becomes part of another is copied with all in it."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    def value(self, held: HeldValue, kind: Kind, value: object) -> None:
        found = next((one for one in choices(kind) if is_one(value, one)), kind)
        if not is_one(value, found):
            raise TypeError(f"{value!r} is no {kind}")
        if is_record(found):
            return self._record(held.record, value)
        match value:
            case enum.Enum():
                self.value(held, type(value.value), value.value)
            case int() if found is Fd:
                held.descriptor = self._bundle.add(value)
            case int() | float() if found is float and not math.isnan(value):
                held.real = value
            case dict():
                self._items(held.items, found, value.items())
            case tuple() | list() | set() | frozenset():
                self._items(held.items, found, value)
            case _:
                write_plain(held, value)

    def _record(self, held: HeldRecord, record: object) -> None:
        made: type = type(record)
        held.name = made.__name__
        for name, (field, kind) in fields_of(made).items():
            if not is_default(field, value := getattr(record, name)):
                self.value(held.fields.add(name=name).value, kind, value)

    def _items(self, held: HeldItems, kind: Kind, items: Collection[object]) -> None:
        held.SetInParent()  # also if it is empty
        for of_item, item in zip(of_items(kind, len(items)), items, strict=True):
            self.value(held.items.add(), of_item, item)


def write_plain(held: HeldValue, value: object) -> None:
    match value:
        case None:
            held.none = True
        case bool():
            held.flag = value
        case int() if -INT_MAX <= value < INT_MAX:
            held.number = value
        case bytes():
            held.data = value
        case str():
            held.text = value.encode(errors="surrogateescape")
        case _:
            raise TypeError(f"{value!r} is nothing plain")


# -- reading ---------------------------------------------------------------------------------------


class Reader:
    def __init__(self, given: Given) -> None:
        self._given = given
        self._taken: list[tuple[int, int]] = []  # places and their descriptors

    def give_back(self) -> None:
        for place, descriptor in self._taken:
            self._given.give_back(place, descriptor)
        self._taken.clear()

    def value(self, kind: Kind, held: HeldValue) -> object:
        """Raises ValueError, TypeError."""
        for one in choices(kind):
            if self._fits(one, held):
                return self._read(one, held)
        raise Misfit(f"{held.WhichOneof('kind')} where {kind} belongs")

    def _fits(self, kind: Kind, held: HeldValue) -> bool:
        letter = held.WhichOneof("kind")
        if letter == "descriptor" or kind is Fd:
            return letter == "descriptor" and kind is Fd
        if letter == "items":
            return typing.get_origin(kind) in (*SEQUENCES, dict)
        if letter == "record" or is_record(kind):
            return is_record(kind) and held.record.name == getattr(kind, "__name__", "")
        if is_enum(kind):
            return letter in ("number", "text")
        return letter is not None and PLAIN[letter] is kind

    def _read(self, kind: Kind, held: HeldValue) -> object:
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return kind(value_of(held))
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            return self._record(kind, held.record)
        match held.WhichOneof("kind"):
            case "descriptor":
                return self._descriptor(held.descriptor)
            case "items":
                return self._items(kind, held.items.items)
        return value_of(held)

    def _descriptor(self, place: int) -> int:
        if not place:
            return -1
        try:
            descriptor = self._given.take(place)
        except KeyError:
            raise Misfit(f"descriptor {place} is not there, or taken twice") from None
        self._taken.append((place, descriptor))
        return descriptor

    def _items(self, kind: Kind, held: Collection[HeldValue]) -> object:
        items = list(map(self.value, of_items(kind, len(held)), held))
        origin = typing.get_origin(kind)
        assert isinstance(origin, type)
        made = origin(items)
        if len(made) != len(items):
            raise Misfit(f"one item twice where {kind} belongs")
        return made

    def _record(self, kind: type, held: HeldRecord) -> object:
        fields = fields_of(kind)
        values = named(held.fields)
        if unknown := values.keys() - fields.keys():
            raise Misfit(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
        found = {name: self.value(fields[name][1], value) for name, value in values.items()}
        record = kind(**{name: found[name] for name in found if fields[name][0].init})
        for name in found:
            if not fields[name][0].init:
                object.__setattr__(record, name, found[name])
        return record


def named(fields: Iterable[HeldField]) -> dict[str, HeldValue]:
    """Raises Misfit."""
    found: dict[str, HeldValue] = {}
    for field in fields:
        if field.name in found:
            raise Misfit(f"{field.name} twice")
        found[field.name] = field.value
    return found


def value_of(held: HeldValue) -> object:
    """Raises Misfit, ValueError."""
    match held.WhichOneof("kind"):
        case "none":
            return None
        case "flag":
            return held.flag
        case "number":
            return held.number
        case "real" if not math.isnan(held.real):
            return held.real
        case "data":
            return held.data
        case "text":
            return held.text.decode(errors="surrogateescape")
    raise Misfit("that is not a number")
