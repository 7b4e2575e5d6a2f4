"""Room that is divided evenly among those who want it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.policy.even_share import even_share


@pytest.mark.parametrize(
    ("wants", "room", "share"),
    [
        ([], 10, None),
        ([4, 6], 10, None),
        ([11], 10, 10),
        ([1, 2, 90], 10, 7),
        ([1, 50, 90], 10, 4),
        ([50, 90, 70], 2, 0),
    ],
)
def test_who_wants_little_gets_it_and_the_rest_is_shared_evenly(wants, room, share):
    assert even_share(wants, room) == share


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(0, 100))
def test_no_room_is_wasted_and_none_given_twice(wants, room):
    share = even_share(wants, room)
    if share is None:
        assert sum(wants) <= room
    else:
        given = sum(min(want, share) for want in wants)
        wanting = sum(want > share for want in wants)
        assert given <= room < given + wanting
