"""Strings that a shell may interpret in many ways, and a program that shows the result."""

import re

from hypothesis import strategies as st

SHOW = '#!/bin/sh\nprintf "%s\\0" "${0##*/}" "$@"\n'

PIECES = st.sampled_from(
    [
        "cc", "show", "a=b", "-DV=\\\"1\\\"", "x.c", "'", '"', "\\", " ", "\t", "  ", "\n", "$x",
        "`", ";", "|", "&", "<", ">", "(", ")", "{", "}", "{a,b}", "*", "?", "[", "]", "~", "#",
        "!", "^", "%", "@", ",", ":", "+", "=", "-", "'a b'", '"c d"', "''", '""', "é", "\x7f",
        "/dev/null", "~root", "echo", "2>&1", "\\n",
    ]
)  # fmt: skip
# What differs between two runs of a shell: process ids and random numbers.
VARYING = re.compile(r"\$\{?#?!?(\$|!|PPID|BASHPID|RANDOM|SRANDOM|SECONDS|EPOCH)")
COMMANDS = st.one_of(
    st.lists(PIECES, max_size=8).map("".join),
    st.lists(PIECES, max_size=6).map(lambda pieces: "show " + " ".join(pieces)),
    st.text(st.characters(min_codepoint=9, max_codepoint=126), max_size=20).map("show ".__add__),
).filter(lambda text: not VARYING.search(text.replace("\\\n", "")))


def make_programs(directory):
    """Makes the only PATH that these strings are to be run with."""
    (directory / "show").write_text(SHOW)
    (directory / "show").chmod(0o755)
    (directory / "cc").symlink_to("show")
    return directory
