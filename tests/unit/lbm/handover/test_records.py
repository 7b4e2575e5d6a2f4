"""Every record of a restart is handed over completely, and from one release to the next."""

import dataclasses
import enum
import typing
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from lbd.errors import PeerError
from lbd.lbm.handover import codec, records
from lbd.lbm.handover.codec import Fd
from lbd.lbm.handover.fds import Bundle, Given
from lbd.net.gen.handover_pb2 import HeldValue

LEFT = (
    records.LinkFrom, records.LinkTo, records.Attached, records.QueuedAttempt, records.ClientState,
)  # fmt: skip
RELEASED = Path(__file__).parent / "released"  # `filled` records, as the first release wrote them
PLAIN = {
    int: st.integers(-(1 << 63), (1 << 63) - 1),
    float: st.floats(allow_nan=False),
    str: st.text(max_size=9),
    bytes: st.binary(max_size=9),
    bool: st.booleans(),
    type(None): st.none(),
    Fd: st.integers(-1, 9).map(Fd),
}


def values(kind):
    """Returns a strategy for every value that an annotation allows."""
    kinds = codec.choices(kind)
    if len(kinds) > 1:
        return st.one_of(*map(values, kinds))
    (kind,) = kinds
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if origin is dict:
        return st.dictionaries(*map(values, inside), max_size=2)
    if origin is tuple and inside[1:] != (...,):
        return st.tuples(*map(values, inside))
    if origin is not None:
        return st.lists(values(inside[0]), max_size=2).map(origin)
    if issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    fields = codec.fields_of(kind)
    return st.builds(
        kind, **{name: values(of) for name, (field, of) in fields.items() if field.init}
    )


def written(record):
    bundle = Bundle()
    return HeldValue.FromString(codec.write(record, bundle).SerializeToString()), bundle.descriptors


def read(kind, held, descriptors=()):
    return codec.read(kind, held, Given([-1, *descriptors]))


@pytest.mark.parametrize("kind", LEFT)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_every_record_is_handed_over_completely(kind, data):
    record = data.draw(values(kind))
    held, descriptors = written(record)
    assert read(kind, held, descriptors) == record


def filled(kind):
    """Returns a record in which no field has its default."""
    kind = codec.choices(kind)[0]
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    plain = {int: 7, float: 2.5, str: "words", bytes: b"bytes", bool: True, Fd: Fd(5)}
    if kind in plain:
        return plain[kind]
    if origin is dict:
        return {filled(inside[0]): filled(inside[1])}
    if origin is tuple and inside[1:] != (...,):
        return tuple(map(filled, inside))
    if origin is not None:
        return origin([filled(inside[0])])
    if issubclass(kind, enum.Enum):
        return list(kind)[-1]
    record = kind(**{n: filled(of) for n, (f, of) in codec.fields_of(kind).items() if f.init})
    for name, (field, of) in codec.fields_of(kind).items():
        if field.default is False or getattr(record, name) == field.default:
            object.__setattr__(record, name, other(field.default, of))
    return record


def other(default, of):
    return not default if isinstance(default, bool) else filled(of)


@pytest.mark.parametrize("kind", LEFT)
def test_records_of_a_release_can_be_read_by_all_later_ones(kind):
    """If this fails, a field was removed or its type changed. That requires a record of another
    name, and a higher number in `leave.NEEDS`, unless both can be read."""
    held = HeldValue.FromString((RELEASED / kind.__name__).read_bytes())
    again, _ = written(read(kind, held, range(99)))
    assert names_of(held.record) <= names_of(again.record)


def names_of(record, path=""):
    """Returns the names of all records that were written."""
    found = set()
    for field in record.fields:
        at = f"{path}.{field.name}"
        found.add(at)
        items = field.value.items.items
        for inner in (field.value, *items, *(two for one in items for two in one.items.items)):
            found |= names_of(inner.record, at)
    return found


def parts(held):
    """Yields the record and each record within it."""
    yield held.record
    for field in held.record.fields:
        for inner in (field.value, *field.value.items.items):
            if inner.HasField("record"):
                yield from parts(inner)


@pytest.mark.parametrize("kind", LEFT)
def test_new_fields_get_their_defaults_in_records_of_an_older_release(kind):
    record = filled(kind)
    for index in range(len(list(parts(written(record)[0])))):
        held, descriptors = written(record)
        part = list(parts(held))[index]
        within = kinds_of(kind)[part.name]
        needed = {name for name, (field, _) in codec.fields_of(within).items() if is_needed(field)}
        kept = [field for field in part.fields if field.name in needed]
        del part.fields[:]
        part.fields.extend(kept)
        read(kind, held, descriptors)
        for field in kept:
            left_out = [other for other in kept if other is not field]
            del part.fields[:]
            part.fields.extend(left_out)
            with pytest.raises(PeerError, match=f"an invalid {kind.__name__}"):
                read(kind, held, descriptors)


def is_needed(field):
    missing = dataclasses.MISSING
    return field.init and field.default is missing and field.default_factory is missing


def kinds_of(kind):
    """Returns the records within one, by name."""
    found = {}
    todo = [kind]
    while todo:
        for one in codec.choices(todo.pop()):
            if dataclasses.is_dataclass(one) and one.__name__ not in found:
                found[one.__name__] = one
                todo += [of for _, of in codec.fields_of(one).values()]
            todo += [inner for inner in typing.get_args(one) if inner is not ...]
    return found


@pytest.mark.parametrize("kind", LEFT)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_garbage_gives_one_line_and_loses_no_descriptor(kind, data):
    held, descriptors = written(filled(kind))
    message = bytearray(held.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    try:
        held = HeldValue.FromString(bytes(message))
    except DecodeError:
        return
    given_, said = Given([-1, *descriptors]), ""
    try:
        codec.read(kind, held, given_)
    except PeerError as problem:
        said = str(problem)
    if said:
        assert len(said) < 500
        assert said.isprintable()
        assert [given_.take(place) for place in range(1, 1 + len(descriptors))] == descriptors
