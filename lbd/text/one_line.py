"""Makes untrusted text fit to show: one line, with nothing that a terminal would act on; and such a
line fit for a terminal's width."""

from collections.abc import Iterator

TEXT_CHARS_MAX = 1000
INDENT = "  "  # of the lines after the first


def one_line(text: str, limit_chars: int = TEXT_CHARS_MAX) -> str:
    """Collapses white space to single spaces, replaces unprintable characters by `?`, and cuts the
    text at the limit."""
    if not text:
        return ""
    shown = printable(" ".join(text[: 4 * limit_chars].split()))
    return shown if len(shown) <= limit_chars else shown[: limit_chars - 1] + "…"


def printable(text: str) -> str:
    """Replaces white space by spaces and unprintable characters by `?`; keeps the length."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)


def at_words(text: str, columns: int) -> list[str]:
    """Returns a message in lines that a terminal of this width need not break itself, within words.
    A `command` to copy stays on one line if it fits there."""
    if len(text) <= columns:
        return [text]
    first, *others = unbroken(text, columns - len(INDENT))
    lines = [first]
    for part in others:
        if len(lines[-1]) + 1 + len(part) <= columns:
            lines[-1] += f" {part}"
        else:
            lines.append(INDENT + part)
    return lines


def unbroken(text: str, columns: int) -> Iterator[str]:
    """Yields the words of the text, and what is quoted as a whole."""
    words = text.split(" ")
    while words:
        taken = 1
        while " ".join(words[:taken]).count("`") % 2 and taken < len(words):
            taken += 1
        part = " ".join(words[:taken])
        if part.count("`") % 2 or len(part) > columns:
            taken, part = 1, words[0]
        yield part
        del words[:taken]
