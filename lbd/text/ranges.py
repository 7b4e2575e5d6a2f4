"""Numbers in a row, said shorter. Pure."""

from collections.abc import Iterable, Sequence


def ranges_in(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """From and to, both included: of 5, 3, 4, 9 they are (3, 5), (9, 9)."""
    return merged([(number, number) for number in numbers])


def merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers in ranges that have none in common, in order: of (4, 9), (1, 5) it is
    (1, 9)."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found
