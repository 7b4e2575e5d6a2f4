"""Numbers in a row, said shorter. Pure."""

from collections.abc import Iterable


def ranges_in(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """From and to, both included: of 5, 3, 4, 9 they are (3, 5), (9, 9)."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges
