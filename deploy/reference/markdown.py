"""Pieces of Markdown that the pages share."""

import re
from collections.abc import Iterable, Sequence

BARRED = re.compile(r"`([^`|]*\|[^`]*)`")  # code with a bar in it
# A shell's `$NAME` or `--option` in a sentence of a help text reads better as code.
CODE = re.compile(r"(?<![`\w/-])(\$LBD_\w+|--?[a-z][\w-]*|lbctl [a-z]\w*|lbd\.toml)(?![`\w])")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    lines += [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Of a bar within backticks Markdown's dialects make different things; of HTML all make one."""
    line = BARRED.sub(lambda code: f"<code>{code[1]}</code>", text.replace("\n", " ").strip())
    return line.replace("|", "&#124;")


def prose(text: str) -> str:
    """A help text as a sentence: capital letter, full stop, options as code, no stray markup."""
    parts = " ".join(text.split()).split("`")
    for number in range(0, len(parts), 2):  # outside of backticks
        plain = parts[number].replace("<", "&lt;").replace("*", "\\*")
        parts[number] = CODE.sub(r"`\1`", plain)
    marked = "`".join(parts)
    first = marked[:1].upper() + marked[1:]
    return first if not first or first.endswith((".", ":", "?", "!")) else f"{first}."
