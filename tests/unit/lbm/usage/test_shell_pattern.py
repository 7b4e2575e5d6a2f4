"""Shell patterns that are not kept."""

import random
from fnmatch import fnmatchcase

import pytest

from lbd.lbm.usage.shell_pattern import ANY, Chars, ShellPattern


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("", "", True),
        ("", "a", False),
        ("fit", "fit", True),
        ("fit", "Fit", False),
        ("fit*", "fit-3", True),
        ("*fit", "a\nfit", True),
        ("f?t", "f\nt", True),
        ("f?t", "ft", False),
        ("*a*b", "aab", True),
        ("*ab", "aab", True),
        ("*a*b*", "ba", False),
        ("[a-c]1", "b1", True),
        ("[!a-c]1", "b1", False),
        ("[!a-c]1", "d1", True),
        ("[!z-a]", "x", True),
        ("[z-a]", "x", False),
        ("[]]", "]", True),
        ("[!]]", "]", False),
        ("[", "[", True),
        ("[!", "[!", True),
        ("[a", "[a", True),
        ("[a-]", "-", True),
        ("[-a]", "-", True),
        ("[a-b-c]", "-", True),
        ("[^a]", "^", True),
        ("a.b", "axb", False),
        ("a\\", "a\\", True),
    ],
)
def test_what_it_matches(pattern, name, matches):
    assert ShellPattern(pattern).matches(name) is fnmatchcase(name, pattern) is matches


def test_any_pattern_matches_what_it_does_in_the_library():
    rng = random.Random(7)
    for _ in range(20_000):
        pattern = "".join(rng.choices("abc*?[]-^\\|", k=rng.randrange(9)))
        name = "".join(rng.choices("abc[]-^\\|", k=rng.randrange(7)))
        assert ShellPattern(pattern).matches(name) is fnmatchcase(name, pattern), (pattern, name)


@pytest.mark.parametrize("pattern", ["*a" * 127 + "*b", "*" * 255 + "b", "*?" * 127 + "b"])
def test_no_pattern_takes_more_steps_than_the_product_of_the_lengths(pattern, monkeypatch):
    steps = 0

    def include(chars, char):
        nonlocal steps
        steps += 1
        return chars is ANY or any(low <= char <= high for low, high in chars.ranges)

    monkeypatch.setattr(Chars, "include", include)
    name = "a" * 255
    assert not ShellPattern(pattern).matches(name)
    assert steps <= len(pattern) * len(name)
