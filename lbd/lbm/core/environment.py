"""The part of a caller's environment that goes with a command to another host. Pure.

The whole environment goes, except for what the owner of this host denies: variables that point to
something on this host (displays, agents, sessions), and secrets, which the command seldom needs and
others could read there. Variables that the caller names with -e go in any case.

A jobserver of `make` is a pair of descriptors or a pipe of this host. On another host it would only
cause a warning, so it is removed from the flags. -jN is removed with it: without the jobserver, -jN
would let every make that leaves start N jobs of its own. One job at a time is safe; users who want
more say so: lbrun make -j4.

The shims of `lbsh` belong to this host too, so they are removed from PATH.
"""

import fnmatch
import re
from collections.abc import Iterable, Set

MAKE_FLAGS = (b"MAKEFLAGS", b"MFLAGS", b"CARGO_MAKEFLAGS")
JOBSERVER = (b"--jobserver-auth", b"--jobserver-fds", b"--jobserver-style")
JOBS = re.compile(rb"-j\d*|--jobs(=\d*)?")
SHIMS, PATH = b"LBD_SHIMS=", b"PATH="
SHOWN = 8  # number of names shown to people
VERDICTS, NAME_BYTES = 4096, 256  # verdicts remembered, and the longest name for which one is
REMEMBERED_BYTES = 1 << 16  # size of the largest environment remembered


class DenyList:
    """Names of variables that stay on this host."""

    def __init__(self, deny: Iterable[str], allow: Iterable[str]) -> None:
        self._deny = any_of(deny)
        self._allow = any_of(allow)
        self._verdicts: dict[bytes, bool] = {}  # the same few names come with every command
        self._last: tuple[list[bytes], Set[bytes]] = [], set()
        self._found: tuple[list[bytes], list[str]] = [], []

    def outgoing(
        self, environment: list[bytes], let_through: Set[bytes]
    ) -> tuple[list[bytes], list[str]]:
        """Like the function `outgoing`, but caches the last result: most commands have the
        environment of the command before."""
        asked = environment, let_through
        if asked == self._last:
            return self._found
        found = outgoing(environment, self, let_through)
        if sum(map(len, environment)) <= REMEMBERED_BYTES:
            self._last, self._found = asked, found
        return found

    def holds(self, name: bytes) -> bool:
        verdict = self._verdicts.get(name)
        if verdict is None:
            text = name.decode("utf-8", "surrogateescape")
            verdict = bool(self._deny.match(text)) and not self._allow.match(text)
            if len(self._verdicts) >= VERDICTS:
                self._verdicts.clear()
            if len(name) <= NAME_BYTES:  # else many huge names would fill our memory
                self._verdicts[name] = verdict
        return verdict


def any_of(patterns: Iterable[str]) -> "re.Pattern[str]":
    """Returns a pattern that matches whatever one of these file name patterns matches. Without any,
    it matches nothing."""
    return re.compile("|".join(map(fnmatch.translate, patterns)) or r"(?!)")


def outgoing(
    environment: list[bytes], denied: DenyList, let_through: Set[bytes]
) -> tuple[list[bytes], list[str]]:
    """Returns the NAME=VALUE items that go along, and the names of those that are withheld."""
    leaving, kept, of_make = [], [], set[bytes]()
    for item in without_shims(environment):
        name, _, value = item.partition(b"=")
        if name in MAKE_FLAGS and name not in let_through:
            if name not in of_make:  # the first one counts; each takes a while
                leaving.append(name + b"=" + without_jobserver(value))
            of_make.add(name)
        elif denied.holds(name) and name not in let_through:
            kept.append(name.decode(errors="replace"))
        else:
            leaving.append(item)
    return leaving, kept


def without_shims(environment: list[bytes]) -> list[bytes]:
    """Undoes what `lbsh` did when it put its shims first on PATH: other hosts do not have them."""
    shims = next((item[len(SHIMS) :] for item in environment if item.startswith(SHIMS)), b"")
    if not shims:
        return environment
    left = [item for item in environment if not item.startswith(SHIMS)]
    for at, item in enumerate(left):
        if item.startswith(PATH):
            entries = item[len(PATH) :].split(b":")
            left[at] = PATH + b":".join([entry for entry in entries if entry != shims])
            break  # the first one counts
    return left


def without_jobserver(flags: bytes) -> bytes:
    """Returns the value of MAKEFLAGS for a make that has no jobserver."""
    words = flags.split(b" ")
    # The words after "--" are variables on make's command line.
    end = words.index(b"--") if b"--" in words else len(words)
    if not any(word.startswith(JOBSERVER) for word in words[:end]):
        return flags
    left = [w for w in words[:end] if not w.startswith(JOBSERVER) and not JOBS.fullmatch(w)]
    return b" ".join(left + words[end:])


def names_shown(names: list[str]) -> str:
    """Returns the first few names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(sorted(names)[:SHOWN]) + more
