"""Indexes of an array as users write them."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.text.index_list import count_of, read_array, read_runs, runs_in, runs_text
from lbd.text.task_indexes import TaskIndexes


@pytest.mark.parametrize(
    ("text", "written", "at_once", "count"),
    [
        ("1-10", "1-10", 0, 10),
        ("0-100:10", "0-100:10", 0, 11),
        ("1-9:4", "1-9:4", 0, 3),
        ("1-8:4", "1-5:4", 0, 2),
        ("1,3,7-9", "1,3,7-9", 0, 5),
        ("7-9,2,1", "1-2,7-9", 0, 5),
        ("1-9:2,2-10:2%4", "1-10", 4, 10),
        ("5%1", "5", 1, 1),
        ("5-5:3", "5", 0, 1),
    ],
)
def test_valid_lists(text, written, at_once, count):
    runs, found = read_array(text)
    assert (runs_text(runs), found, count_of(runs)) == (written, at_once, count)
    assert read_runs(written) == runs


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("3-1", "3-1: 3-1 is backwards; use 1-3"),
        ("1-0", "1-0: 1-0 has no task: is the list empty?"),
        ("1-5:0", "1-5:0: the step after : must be 1 or more"),
        ("1,1", "1,1: index 1 occurs twice"),
        ("1-5,3", "1-5,3: index 3 occurs twice"),
        ("1-9:2,3-7:4", "1-9:2,3-7:4: index 3 occurs twice"),
        ("1-9:2,2-4:2,9", "1-9:2,2-4:2,9: index 9 occurs twice"),
        ("1-5%0", "1-5%0: %0 would let no task run; use 1 or more"),
        ("1-5%", "1-5%: % must be followed by the number of tasks to run at once, like 1-100%4"),
        ("1-99999999", "1-99999999: 99999999 tasks are too many; dispatch.max_array is at most"),
        ("9" * 19, f"{'9' * 19}: {'9' * 19} is too large; an index has at most 18 digits"),
        (",".join(["1"] * 10_001), "a list of 10001 parts is too long; the limit is 10000"),
        ("0-3000000:2,1-3000001:2", "ranges of more than 1000000 indexes overlap"),
    ],
)  # fmt: skip
def test_an_invalid_list_is_one_line(text, line):
    with pytest.raises(ValueError, match=line.replace("(", r"\(")) as problem:
        read_array(text)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("text", ["", "a", "1-", "-3", "1:2", "1,,2", "%3", "٣", "1 2", "1-2-3"])
def test_the_syntax_is_explained(text):
    with pytest.raises(ValueError, match="must be like 1-10, 0-100:10 or 1,3,7-9, with %N"):
        read_array(text)


@pytest.mark.parametrize(
    "text", ["3,1", "1-5,5", "1-9:2,4", "", "5-1", "1-20000000", "1," * 10_000 + "2"]
)
def test_lists_that_no_client_writes_are_refused(text):
    with pytest.raises(ValueError, match=r"."):
        read_runs(text)


INDEXES = st.sets(st.integers(0, 60), min_size=1).map(sorted)


@given(INDEXES, st.integers(0, 60), st.integers(0, 60))
def test_each_index_has_its_position(indexes, low, high):
    runs = runs_in(indexes)
    assert list(chain.from_iterable(range(a, b + 1, step) for a, b, step in runs)) == indexes
    assert read_runs(runs_text(runs)) == runs
    found = TaskIndexes(runs_text(runs))
    assert [found.index(place) for place in range(len(indexes))] == indexes
    begin, end = found.places(low, high)
    assert indexes[begin:end] == [index for index in indexes if low <= index <= high]
    written = found.between(0, len(indexes) - 1, 100)
    assert read_array(written)[0] == read_array(runs_text(runs))[0]


@pytest.mark.parametrize(
    ("indexes", "written"),
    [
        ([5, 23, 41, 50], "5,23,41,50"),
        ([5, 23, 41], "5,23,41"),
        ([5, 23, 41, 59], "5-59:18"),
        ([5, 23, 41, 59, 60], "5-59:18,60"),
        ([1, 3, 5, 8, 11, 14], "1,3,5-14:3"),
        ([1, 2, 4, 6, 7, 8], "1-2,4,6-8"),
    ],
)
def test_a_step_is_used_for_four_and_more(indexes, written):
    assert runs_text(runs_in(indexes)) == written


def test_of_many_runs_the_first_are_shown():
    found = TaskIndexes("1,3,5-9,20-40:10")
    assert found.between(0, 9, 2) == "1,3,…"
    assert found.between(2, 7, 5) == "5-9,20"
    assert found.between(8, 9, 5) == "30-40:10"
