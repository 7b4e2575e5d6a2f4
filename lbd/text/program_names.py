"""Lists of programs as people write them: `make`, `*-gcc`, `gcc -c`, `/usr/bin/gcc-*`. Pure.

An entry matches a program by its file name, whatever its directory: `make` also matches
/usr/bin/make. A list about files on this host may name the directory as well.
"""

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from functools import lru_cache

WILDCARDS = "*?["


def patterns_of(entries: Sequence[str]) -> list[str]:
    return [entry for entry in entries if set(entry) & set(WILDCARDS)]


# What a list takes, prepared, is up to ten times its text: of long ones, which users can change
# again and again, few are kept.
SHORT_CHARS, SHORT_KEPT, LONG_KEPT = 512, 1024, 16
Entries = tuple[str, ...]
TYPE_CHECKING = False  # importing typing takes a while
if TYPE_CHECKING:
    from typing import TypeVar

    Made = TypeVar("Made")


def cached(make: "Callable[[Entries], Made]") -> "Callable[[Entries], Made]":
    of_short = lru_cache(maxsize=SHORT_KEPT)(make)
    of_long = lru_cache(maxsize=LONG_KEPT)(make)

    def found(entries: Entries) -> "Made":
        return (of_short if sum(map(len, entries)) <= SHORT_CHARS else of_long)(entries)

    return found


@cached
def prepared(entries: Entries) -> "tuple[frozenset[str], re.Pattern[str] | None]":
    """Returns the plain entries of a list and all its patterns as one expression. It is cached
    because every command needs it."""
    patterns = [translate(entry) for entry in patterns_of(entries)]
    return frozenset(entries), re.compile("|".join(patterns)) if patterns else None


def matches(entries: tuple[str, ...], name: str, key: str) -> bool:
    if not entries:
        return False
    plain, patterns = prepared(entries)
    if name in plain or key in plain:
        return True
    return patterns is not None and patterns.match(name) is not None


@cached
def by_name(entries: Entries) -> Entries:
    """Returns the entries, each without its program's directory."""
    found = []
    for entry in entries:
        program, space, kind = entry.partition(" ")
        found.append(program.rpartition("/")[2] + space + kind)
    return tuple(entry for entry in found if entry)


def in_list(entries: tuple[str, ...], name: str, key: str) -> bool:
    """Returns whether the list names a command, by its file name or by its kind ("gcc -c")."""
    return bool(entries) and matches(by_name(entries), name, key)


def is_listed(entries: Sequence[str], path: str) -> bool:
    """Returns whether the list names a file, by its path or by an entry without a directory."""
    paths = tuple(entry for entry in entries if "/" in entry)
    names = tuple(entry for entry in entries if "/" not in entry)
    return matches(paths, path, path) or matches(names, name := path.rpartition("/")[2], name)
