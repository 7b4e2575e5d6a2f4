"""Spelling suggestions for messages about unknown names."""

from collections.abc import Iterable

FEW = 12  # names that fit one line


def nearest(word: str, names: Iterable[str]) -> str:
    """Returns the most similar name, ignoring case, or "" when none is close."""
    import difflib  # imported late: only a mistyped name needs it

    # The leading dashes would make all options look alike.
    folded = {name.lower().lstrip("-"): name for name in names}
    word = word.lower().lstrip("-")
    found = difflib.get_close_matches(word, folded, n=3, cutoff=0.6)
    if not found:
        return ""

    def closeness(name: str) -> tuple[bool, float, int]:
        """Prefers transposed letters, then similarity, then similar length."""
        ratio = difflib.SequenceMatcher(None, name, word).ratio()
        return sorted(name) == sorted(word), ratio, -abs(len(name) - len(word))

    return folded[max(found, key=closeness)]


def hint(word: str, names: Iterable[str]) -> str:
    """Returns what to write instead of `word`: the nearest name, or all of them if none is near and
    they are few."""
    allowed = list(names)
    if near := nearest(word, allowed):
        return f'did you mean "{near}"?'
    return f"allowed: {', '.join(allowed)}" if len(allowed) <= FEW else "no known name is similar"
