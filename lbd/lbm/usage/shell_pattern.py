"""Shell patterns, `*`, `?`, `[abc]`, `[a-z]` and `[!a-z]`, as of fnmatch.fnmatchcase. Pure.

These are for patterns of users and of other hosts. `fnmatch` and `re` keep tens of thousands of
those they have compiled, of up to 22 KB each; here nothing is kept. A match takes no more steps
than the product of both lengths: only the last `*` is ever tried again.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chars:
    """One character, out of ranges or of none of them."""

    ranges: tuple[tuple[str, str], ...] = ()
    is_negated: bool = False

    def include(self, char: str) -> bool:
        return any(low <= char <= high for low, high in self.ranges) is not self.is_negated


ANY, NONE = Chars(is_negated=True), Chars()


class ShellPattern:
    def __init__(self, pattern: str) -> None:
        self._parts: list[Chars | None] = []  # None: any number of characters
        at = 0
        while at < len(pattern):
            char, at = pattern[at], at + 1
            if char == "*":
                self._parts.append(None)
            elif char == "?":
                self._parts.append(ANY)
            elif char == "[" and (end := end_of_set(pattern, at)) >= 0:
                self._parts.append(read_set(pattern[at:end]))
                at = end + 1
            else:
                self._parts.append(Chars(((char, char),)))

    def matches(self, name: str) -> bool:
        parts, at, part = self._parts, 0, 0
        star, star_end = -1, 0  # the last `*`, and up to where it reaches
        while at < len(name):
            wanted = parts[part] if part < len(parts) else NONE
            if wanted is None:
                star, star_end, part = part, at, part + 1
            elif wanted.include(name[at]):
                at, part = at + 1, part + 1
            elif star >= 0:
                star_end += 1
                at, part = star_end, star + 1
            else:
                return False
        return not any(parts[part:])


def end_of_set(pattern: str, begin: int) -> int:
    """Returns where the set that begins there has its `]`; -1 if it has none. The first character
    of a set is no end."""
    begin += pattern.startswith("!", begin)
    return pattern.find("]", begin + pattern.startswith("]", begin))


def read_set(text: str) -> Chars:
    is_negated = text.startswith("!")
    ranges, at = [], int(is_negated)
    while at < len(text):
        is_range = at + 2 < len(text) and text[at + 1] == "-"
        ranges.append((text[at], text[at + 2] if is_range else text[at]))
        at += 3 if is_range else 1
    return Chars(tuple(ranges), is_negated)
