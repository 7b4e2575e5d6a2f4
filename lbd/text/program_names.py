"""Lists of programs as people write them: `make`, `*-gcc`, `gcc -c`, `/usr/bin/gcc-*`. Pure.

A program goes by the name of its file, whatever directory it is in: `make` is /usr/bin/make, too. A
list about files on this host may name the directory as well.
"""

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache

WILDCARDS = "*?["


def patterns_of(entries: Sequence[str]) -> list[str]:
    return [entry for entry in entries if set(entry) & set(WILDCARDS)]


@lru_cache(maxsize=1024)
def prepared(entries: tuple[str, ...]) -> "tuple[frozenset[str], re.Pattern[str] | None]":
    """The plain entries of a list, and all its patterns as one: it is asked at every command."""
    patterns = [translate(entry) for entry in patterns_of(entries)]
    return frozenset(entries), re.compile("|".join(patterns)) if patterns else None


def matches(entries: tuple[str, ...], name: str, key: str) -> bool:
    if not entries:
        return False
    plain, patterns = prepared(entries)
    if name in plain or key in plain:
        return True
    return patterns is not None and patterns.match(name) is not None


@lru_cache(maxsize=1024)
def by_name(entries: tuple[str, ...]) -> tuple[str, ...]:
    """Each without its program's directory."""
    found = []
    for entry in entries:
        program, space, kind = entry.partition(" ")
        found.append(program.rpartition("/")[2] + space + kind)
    return tuple(entry for entry in found if entry)


def in_list(entries: tuple[str, ...], name: str, key: str) -> bool:
    """Is a command named, by the name of its file or by its kind ("gcc -c")?"""
    return bool(entries) and matches(by_name(entries), name, key)


def is_listed(entries: Sequence[str], path: str) -> bool:
    """Is a file named, by its whole path, or by entries without a directory?"""
    paths = tuple(entry for entry in entries if "/" in entry)
    names = tuple(entry for entry in entries if "/" not in entry)
    return matches(paths, path, path) or matches(names, name := path.rpartition("/")[2], name)
