"""Neighbouring releases understand each other; for others it is said who must be upgraded."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.net import release as wire
from lbd.net.release import Wire, disagreement, read


def release(newest, oldest=None, name="1.0"):
    return Wire(name, newest, newest - 1 if oldest is None else oldest)


def test_our_own_announcement_is_read_correctly():
    assert read(wire.OWN.announcement()) == wire.OWN


def test_a_later_release_may_announce_more():
    assert read("7 6 2.0 stage something-new") == Wire("2.0", 7, 6)
    assert read("7 6 2.0") == Wire("2.0", 7, 6)


@pytest.mark.parametrize(
    "text", ["", "7", "x y 1.0", "1 2 1.0 ", "2 -1 1.0 ", "2 1 a/b ", "2 1  x"]
)
def test_invalid_announcements(text):
    with pytest.raises(ValueError):  # noqa: PT011
        read(text)


@given(st.text(max_size=60))
def test_arbitrary_announcements(text):
    with contextlib.suppress(ValueError):
        found = read(text)
        assert 0 <= found.oldest <= found.newest


@pytest.mark.parametrize(
    ("one", "other", "older"),
    [
        (release(5), release(5), ""), (release(5), release(6), ""), (release(6), release(5), ""),
        (release(5), release(7), "h1"), (release(7), release(5), "h2"),
        (release(5, oldest=1), release(3), ""), (release(5, oldest=5), release(4), "h2"),
    ],
)  # fmt: skip
def test_who_must_be_upgraded(one, other, older):
    why = disagreement("h1", one, "h2", other)
    assert why.endswith(f"upgrade {older}") if older else why == ""
    assert why == disagreement("h2", other, "h1", one)
