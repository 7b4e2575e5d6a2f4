"""The common parts of orders are packed and read once: no order gets another's."""

from dataclasses import replace

import pytest

from lbd.keeper.spawn_order import (
    REMEMBERED_BYTES,
    Order,
    pack_common,
    pack_order,
    read_order,
)
from lbd.launch.directory_stamp import Stamp
from lbd.local import frames

PLAIN = Order(job="h1-1", argv=[b"cc", b"-c"], environment={b"A": b"1"})
COMMON = [
    {"directory": b"/tmp"},
    {"umask": 0o77},
    {"limits": ((7, 1, 2), (4, 0, 1))},
    {"user": (1000, 1000, 27)},
    {"nice": 5},
    {"ignored_signals": 2},
    {"no_new_privileges": True},
    {"memory_bytes": 1 << 30},
    {"closed_fds": 4},
    {"stamp": Stamp("kernel", 1, 2, 3, 4, "nfs")},
    {"terminal": 2},
    {"processes": 9},
    {"denied": ("*", "/bin/*")},
    {"directory": b"/" + b"d" * REMEMBERED_BYTES},
]


def order(**common):
    return Order(job="h1-1", argv=[b"cc", b"-c"], environment={b"A": b"1"}, **common)


@pytest.mark.parametrize("common", COMMON, ids=lambda common: next(iter(common)))
def test_each_order_is_read_as_it_was_packed(common):
    for _ in range(2):
        assert read_order(pack_order(order(**common))) == order(**common)
        assert read_order(pack_order(PLAIN)) == PLAIN


def test_variables_that_orders_share_are_read_once_and_each_keeps_its_own():
    shared = pack_common(Order(environment={b"A": b"1", b"PATH": b"/bin"}, umask=0o77))
    for _ in range(2):
        for number in (b"7", b"8"):
            own = Order("h1-1", [b"cc"], {b"LBD_ATTEMPT": number}, packed=shared)
            found = read_order(pack_order(own))
            assert found.environment == {b"LBD_ATTEMPT": number, b"A": b"1", b"PATH": b"/bin"}
            assert found.umask == 0o77
        without = read_order(pack_order(Order("h1-1", [b"cc"], packed=shared)))
        assert without.environment == {b"A": b"1", b"PATH": b"/bin"}
        without.environment.clear()  # what is shared stays


def test_what_many_orders_share_may_have_any_other_field():
    packed = pack_common(Order(environment={b"A": b"1"}, umask=0o77)) + frames.field(b"I", b"")
    plain = Order("h1-1", [b"cc"], {b"B": b"2"})
    found = read_order(pack_order(replace(plain, packed=packed)))
    assert found == replace(
        plain, environment={b"B": b"2", b"A": b"1"}, umask=0o77, copies_input=True
    )


def test_its_fields_may_come_in_any_order_and_with_unknown_ones():
    given = Order("h1-1", [b"cc"], {b"A": b"1"}, b"/tmp", 0o77, ((7, 1, 2),), nice=5)
    fields = frames.fields(pack_order(given))
    for changed in (fields[::-1], [*fields, (b"\xff", b"?")], [(b"\xff", b"?"), *fields]):
        assert read_order(frames.pack_fields(changed)) == given


def test_a_malformed_order_is_refused_each_time():
    body = pack_order(PLAIN) + frames.field(b"l", b"7 one two")
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            read_order(body)
