"""What a restart hands over is read back unchanged, or refused."""

import os
from dataclasses import dataclass, field
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.errors import PeerError
from lbd.lbm.handover.codec import Fd, read, write
from lbd.lbm.handover.fds import Bundle, Given
from lbd.model import HostId, quick_value
from lbd.net.gen.handover_pb2 import HeldField, HeldItems, HeldRecord, HeldValue


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@quick_value
class Inner:
    size: int
    note: str = ""


@quick_value
class Other:
    flag: bool


@dataclass(slots=True)
class Everything:
    number: int
    real: float
    flag: bool
    name: HostId
    data: bytes
    colour: Colour
    pair: tuple[int, bytes]
    many: tuple[Inner, ...]
    names: set[HostId]
    fixed: frozenset[str]
    found: dict[str, tuple[int, int]]
    items: list[Inner | Other]
    maybe: Inner | None = None
    made: list[int] = field(init=False, default_factory=list)


TEXTS = st.text() | st.just("\udce9")  # a name that was not UTF-8
INTS = st.integers(-(1 << 63), (1 << 63) - 1)
INNERS = st.builds(Inner, INTS, TEXTS)
RECORDS = st.builds(
    Everything,
    INTS,
    st.floats(allow_nan=False),
    st.booleans(),
    TEXTS.map(HostId),
    st.binary(),
    st.sampled_from(Colour),
    st.tuples(INTS, st.binary()),
    st.lists(INNERS, max_size=3).map(tuple),
    st.sets(TEXTS.map(HostId), max_size=3),
    st.frozensets(TEXTS, max_size=3),
    st.dictionaries(TEXTS, st.tuples(INTS, INTS), max_size=3),
    st.lists(INNERS | st.builds(Other, st.booleans()), max_size=3),
    st.none() | INNERS,
)
NOBODYS = Given([])


def over(record):
    """Writes the value, and reads it from the bytes."""
    data = write(record, Bundle()).SerializeToString()
    return read(type(record), HeldValue.FromString(data), NOBODYS)


@given(RECORDS, st.lists(INTS, max_size=2))
def test_a_record_is_read_back_unchanged(record, made):
    record.made = made
    assert over(record) == record


@quick_value
class Held:
    name: str
    ends: tuple[Fd, ...]


def test_descriptors_are_passed_separately_by_position():
    bundle = Bundle()
    bundle.add(70)
    held = write(Held("a", (Fd(71), Fd(-1), Fd(72))), bundle)
    assert bundle.descriptors == [70, 71, 72]
    given_ = Given([5, 170, 171, 172])
    assert read(Held, held, given_) == Held("a", (Fd(171), Fd(-1), Fd(172)))
    with pytest.raises(KeyError):
        given_.take(2)
    assert given_.take(1) == 170


def test_no_descriptor_is_taken_from_a_refused_record():
    bundle = Bundle()
    held = write(Held("a", (Fd(70), Fd(71))), bundle)
    held.record.fields[1].value.items.items[1].descriptor = 9
    given_ = Given([5, 70, 71])
    with pytest.raises(PeerError):
        read(Held, held, given_)
    assert [given_.take(place) for place in (1, 2)] == [70, 71]


def test_a_number_is_not_accepted_as_a_descriptor():
    """Otherwise a record could name one that belongs to others."""
    held = write(Inner(7), Bundle())
    held.record.name = "Held"
    bare = HeldValue(record=HeldRecord(name="Held", fields=[
        HeldField(name="name", value=HeldValue(text=b"a")),
        HeldField(name="ends", value=HeldValue(items=HeldItems(items=[HeldValue(number=0)]))),
    ]))  # fmt: skip
    with pytest.raises(PeerError, match="number where"):
        read(Held, bare, Given([os.getpid()]))


def of(name, **fields):
    pairs = [HeldField(name=key, value=value) for key, value in fields.items()]
    return HeldValue(record=HeldRecord(name=name, fields=pairs))


SEVEN, TEXT = HeldValue(number=7), HeldValue(text=b"x")


def test_fields_missing_in_an_older_release_get_their_defaults():
    assert read(Inner, of("Inner", size=SEVEN), NOBODYS) == Inner(7, "")


def test_default_values_are_not_written():
    """So an older release can read records that do not use what it does not know."""
    held = write(Inner(7), Bundle())
    assert [field.name for field in held.record.fields] == ["size"]


def test_an_equal_value_of_another_type_is_not_taken_for_the_default():
    with pytest.raises(TypeError):
        write(Collections(real=False), Bundle())


REFUSED = {
    "nothing": HeldValue(),
    "a number": SEVEN,
    "another record": of("Other", flag=HeldValue(flag=True)),
    "a field that a newer release has": of("Inner", size=SEVEN, colour=TEXT),
    "a field that has no default is not there": of("Inner", note=TEXT),
    "another kind": of("Inner", size=TEXT),
    "a flag for a number": of("Inner", size=HeldValue(flag=True)),
    "none where none may be": of("Inner", size=HeldValue(none=True)),
    "an empty value": of("Inner", size=HeldValue()),
    "a field twice": HeldValue(record=HeldRecord(name="Inner", fields=[
        HeldField(name="size", value=SEVEN), HeldField(name="size", value=SEVEN),
    ])),
}  # fmt: skip


@pytest.mark.parametrize("held", REFUSED.values(), ids=REFUSED)
def test_a_mismatched_record_is_refused(held):
    with pytest.raises(PeerError, match=r"invalid Inner"):
        read(Inner, held, NOBODYS)


@quick_value
class Collections:
    colour: Colour = Colour.RED
    names: frozenset[str] = frozenset()
    pair: tuple[int, int] = (0, 0)
    real: float = 0.0


@pytest.mark.parametrize(
    "fields",
    [
        {"colour": HeldValue(text=b"green")},
        {"names": HeldValue(items=HeldItems(items=[TEXT, TEXT]))},
        {"pair": HeldValue(items=HeldItems(items=[SEVEN]))},
        {"real": HeldValue(real=float("nan"))},
    ],
)
def test_impossible_values_are_refused(fields):
    with pytest.raises(PeerError):
        read(Collections, of("Collections", **fields), NOBODYS)


@pytest.mark.parametrize("record", [Inner("7"), Inner(1 << 63), Inner(True), Inner(7, None)])
def test_a_value_that_violates_its_class_is_not_written(record):
    with pytest.raises(TypeError):
        write(record, Bundle())
