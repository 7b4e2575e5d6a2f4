"""What others say, made fit to be shown: one line, nothing that a terminal would act on."""

TEXT_CHARS_MAX = 1000


def one_line(text: str, limit_chars: int = TEXT_CHARS_MAX) -> str:
    """White space becomes single spaces, what cannot be printed `?`; no longer than the limit."""
    if not text:
        return ""
    shown = printable(" ".join(text[: 4 * limit_chars].split()))
    return shown if len(shown) <= limit_chars else shown[: limit_chars - 1] + "…"


def printable(text: str) -> str:
    """As long as it was: white space becomes spaces, what cannot be printed `?`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)
