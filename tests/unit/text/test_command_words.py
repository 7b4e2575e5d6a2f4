"""A command is shown as far as people read it, and the last word says that there is more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.text.command_words import CUT, SHOWN_BYTES, SHOWN_WORDS, shown, shown_of_joined

WORDS = st.lists(st.binary(max_size=6).map(lambda word: word.replace(b"\0", b"")), min_size=1)
LONG = b"x" * SHOWN_BYTES


def test_what_is_short_is_shown_whole():
    assert shown([b"true"]) == [b"true"]
    assert shown([b"echo", b"", b""]) == [b"echo", b"", b""]
    assert shown([b""] * SHOWN_WORDS) == [b""] * SHOWN_WORDS
    assert shown([LONG]) == [LONG]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ([b""] * 240_000, [b""] * SHOWN_WORDS + [CUT]),
        ([b"sh", LONG], [b"sh", LONG[3:], CUT]),
        ([LONG, b""], [LONG, CUT]),
        ([LONG * 2], [LONG, CUT]),
    ],
    ids=["words", "bytes", "full", "one"],
)
def test_what_is_long_ends_with_a_mark(command, found):
    assert shown(command) == found
    assert shown_of_joined(b"\0".join(command)) == found
    assert shown(found) == found  # checked again by whoever reads it


@given(WORDS, st.integers(1, 40))
def test_no_more_is_shown_than_there_is_room_for(command, room):
    found = shown(command, room)
    assert found == command or (found[-1] == CUT and sum(map(len, found[:-1])) <= room)
    assert shown_of_joined(b"\0".join(command)) == command
