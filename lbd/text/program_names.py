"""Lists of programs as people write them: `make`, `*-gcc`, `gcc -c`, `/usr/bin/gcc-*`. Pure.

An entry matches a program by its file name, whatever its directory: `make` also matches
/usr/bin/make. A list about files on this host may name the directory as well.
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


@lru_cache(maxsize=1024)
def by_name(entries: tuple[str, ...]) -> tuple[str, ...]:
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
