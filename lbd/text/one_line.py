"""Makes untrusted text fit to show: one line, with nothing that a terminal would act on."""

TEXT_CHARS_MAX = 1000


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
