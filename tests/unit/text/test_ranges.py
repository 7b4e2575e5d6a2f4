"""Consecutive numbers in short form."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lbd.text.ranges import merged, ranges_in


def test_consecutive_numbers_become_a_range():
    assert ranges_in([5, 3, 4, 9]) == [(3, 5), (9, 9)]
    assert ranges_in([]) == []


@given(st.sets(st.integers(0, 60)))
def test_the_ranges_contain_the_same_numbers_with_gaps_between(numbers):
    ranges = ranges_in(numbers)
    assert [n for first, last in ranges for n in range(first, last + 1)] == sorted(numbers)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(ranges))


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9))))
def test_overlapping_ranges_are_merged(pairs):
    ranges = [(first, first + more) for first, more in pairs]
    numbers = {n for first, last in ranges for n in range(first, last + 1)}
    assert merged(ranges) == ranges_in(numbers)
