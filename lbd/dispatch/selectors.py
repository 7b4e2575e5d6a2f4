"""Which jobs a user means: `3`, `2-5`, `last`, `@me`; and what is said of many at once. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lbd.dispatch.ledger.rows import Wanted
from lbd.errors import ConfigError

LARGEST = (1 << 63) - 1
SELECTORS_MAX = 100_000  # in one question, as there are jobs in one answer


def read_selectors(texts: Iterable[str], user: str, last: int | None) -> Wanted:
    """`last`: the job that this user submitted last, if any. Raises ConfigError."""
    wanted = Wanted(ended_too=True)
    ranges: list[tuple[int, int]] = []
    for text in texts:
        if text == "@me":
            wanted = replace(wanted, user=user)
        elif text == "last":
            if last is None:
                raise ConfigError(f"last: {user} has submitted no job")
            ranges.append((last, last))
        else:
            ranges.append(read_range(text))
    return replace(wanted, ranges=tuple(ranges))


def check_count(texts: Sequence[str]) -> None:
    """Before each of them is looked at. Raises ConfigError."""
    if len(texts) > SELECTORS_MAX:
        raise ConfigError(f"more than {SELECTORS_MAX} jobs named at once; name ranges of them")


def read_range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not (is_number(first) and (is_number(last) or not dash)):
        raise ConfigError(f"{text!r} names no queued job; write 3, 2-5, last or @me")
    low, high = int(first), int(last or first)
    if low > high:
        raise ConfigError(f"{text!r}: the range runs backwards")
    return low, high


def is_wide(texts: Iterable[str]) -> bool:
    """Do they mean whatever jobs there are, rather than only certain ones?"""
    return any(text == "@me" or "-" in text for text in texts)


def in_few_lines(problems: Sequence[tuple[int, str]]) -> list[str]:
    """What is wrong with each of these jobs, in a line for all that have the same."""
    alike: dict[str, list[str]] = {}
    for job, text in problems:
        alike.setdefault(text.replace(f"job {job} ", "job "), []).append(text)
    return [
        texts[0] + (f"; {len(texts) - 1} more likewise" if texts[1:] else "")
        for texts in alike.values()
    ]


def is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) <= LARGEST
