"""Numbers in a row as ranges. Pure."""

from collections.abc import Iterable, Sequence


def ranges_in(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Returns ranges with both ends included: (3, 5), (9, 9) for 5, 3, 4, 9."""
    return merged([(number, number) for number in numbers])


def merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the same numbers in ordered ranges that neither overlap nor touch: (1, 9) for (4, 9),
    (1, 5)."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def selectors_of(numbers: Iterable[int]) -> list[str]:
    """Returns jobs with these numbers as few selectors."""
    return [f"{first}-{last}" for first, last in ranges_in(numbers)]
