"""A program is known by the name of its file in every list of programs."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.text.program_names import in_list, is_listed

MAKE, GCC = "/usr/bin/make", "/usr/bin/x86_64-linux-gnu-gcc-13"


@pytest.mark.parametrize(
    ("entry", "name", "key", "found"),
    [
        ("make", "make", "make", True),
        ("m?ke", "make", "make", True),
        ("/usr/bin/make", "make", "make", True),
        ("/usr/bin/gcc -c", "gcc", "gcc -c", True),
        ("/usr/bin/gcc -c", "gcc", "gcc link", False),
        ("*/gcc", "gcc", "gcc -c", True),
        ("*-gcc", "gcc", "gcc -c", False),
        ("/usr/bin/", "make", "make", False),
    ],
)
def test_a_command_is_named_by_its_file_or_kind(entry, name, key, found):
    assert in_list((entry,), name, key) == found


@pytest.mark.parametrize(
    ("entry", "path", "found"),
    [
        (MAKE, MAKE, True),
        ("make", MAKE, True),
        ("make", "/home/ann/remake", False),
        ("*-gcc-*", GCC, True),
        ("gcc-*", GCC, False),
        ("/usr/bin/*", GCC, True),
        ("/usr/*", GCC, True),
        ("/bin/make", MAKE, False),
        ("bin/make", MAKE, False),
    ],
)
def test_a_file_is_named_by_its_path_or_its_name(entry, path, found):
    assert is_listed([entry], path) == found


@given(
    st.lists(st.text(max_size=12), max_size=8),
    st.text(min_size=1, max_size=12).filter(lambda name: "/" not in name),
)
def test_any_list_is_valid(entries, name):
    found = in_list(tuple(entries), name, f"{name} -c")
    assert found or name not in entries
    assert in_list((*entries, f"{name} -c"), name, f"{name} -c")
    assert not in_list((), name, name)


def test_many_patterns_equal_one():
    patterns = tuple(f"*-{number}-*" for number in range(200))
    assert in_list(patterns, "x-199-y", "x")
    assert not in_list(patterns, "x-200-y", "x")
    assert not in_list(("a*" * 30 + "b",), "a" * 80, "x")  # at once
    assert in_list(("a?", "b?"), "b1", "b1 -c")
    assert not in_list(("a?", "b?"), "xb1", "b1 -c x")


def test_of_long_lists_few_are_kept_prepared():
    """Users may change theirs again and again; each took 300 KB for good."""
    tracemalloc.start()
    try:
        for number in range(200):
            entries = tuple(f"/opt/{number}/tool-{at}-[abc]*" for at in range(150))
            assert in_list(entries, "tool-7-b1", "")
            if number == 50:
                before = tracemalloc.get_traced_memory()[0]
        assert tracemalloc.get_traced_memory()[0] - before < 1_000_000
    finally:
        tracemalloc.stop()
