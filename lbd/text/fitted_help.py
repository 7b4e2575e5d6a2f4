"""A --help that fits the terminal: paragraphs, rows of two columns, and examples. Pure."""

import re
import textwrap

ROW = re.compile(r"( +\S.*? {2,})(\S.*)")
DEEP = " " * 12  # a line indented this far continues the row above
LEAST_COLUMNS = 24  # least width of the right-hand column


def fitted(text: str, columns: int) -> str:
    """Rewraps the paragraphs and rows that are wider than `columns`; the rest stays unchanged."""
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if blocks and continues(blocks[-1][0], line):
            blocks[-1].append(line)
        else:
            blocks.append([line])
    lines = [
        line
        for block in blocks
        for line in (block if max(map(len, block)) <= columns else wrapped(block, columns))
    ]
    return "\n".join(lines) + "\n"


def continues(first: str, line: str) -> bool:
    if first.startswith(" "):
        return line.startswith(DEEP)
    return bool(first and line) and not line.startswith(" ")


def wrapped(block: list[str], columns: int) -> list[str]:
    first, *others = block
    text = " ".join(line.strip() for line in others)
    if not first.startswith(" "):
        return wrap(f"{first} {text}", columns)
    if row := ROW.fullmatch(first):
        head, text = row[1], f"{row[2]} {text}"
        if columns - len(head) >= LEAST_COLUMNS:
            return wrap(text, columns, head, " " * len(head))
        return [head.rstrip(), *wrap(text, columns, " " * 6, " " * 6)]
    if others:
        indent = " " * min(len(others[0]) - len(others[0].lstrip()), columns - LEAST_COLUMNS)
        return [first, *wrap(text, columns, indent, indent)]
    *lines, last = wrap(first, columns - 2, subsequent=" " * 6)  # an example command
    return [*(f"{line} \\" for line in lines), last]


def wrap(text: str, columns: int, initial: str = "", subsequent: str = "") -> list[str]:
    return textwrap.wrap(
        text, columns, initial_indent=initial, subsequent_indent=subsequent,
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
