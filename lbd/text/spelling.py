"""Spelling suggestions for messages about unknown names."""

from collections.abc import Iterable

CLOSE, CLOSER = 0.6, 0.7  # how similar, of 1
FEW = 12  # names that fit one line


def nearest(word: str, names: Iterable[str]) -> str:
    """Returns the most similar name, ignoring case, or "" when none is close. One that begins with
    another letter must be closer: people rarely mistype that."""
    import difflib  # imported late: only a mistyped name needs it

    # The leading dashes would make all options look alike.
    folded = {name.lower().lstrip("-"): name for name in names}
    word = word.lower().lstrip("-")

    def closeness(name: str) -> tuple[bool, float, int]:
        """Prefers transposed letters, then similarity, then similar length."""
        ratio = difflib.SequenceMatcher(None, name, word).ratio()
        return sorted(name) == sorted(word), ratio, -abs(len(name) - len(word))

    found = [
        name
        for name in difflib.get_close_matches(word, folded, n=3, cutoff=CLOSE)
        if name[:1] == word[:1] or closeness(name) >= (False, CLOSER)
    ]
    return folded[max(found, key=closeness)] if found else ""


def hint(word: str, names: Iterable[str]) -> str:
    """Returns what to write instead of `word`: the nearest name, or all of them if none is near and
    they are few."""
    allowed = list(names)
    if near := nearest(word, allowed):
        return f'did you mean "{near}"?'
    return f"allowed: {', '.join(allowed)}" if len(allowed) <= FEW else "no known name is similar"
