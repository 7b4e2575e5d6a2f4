"""The nearest right spelling, for messages about a name nobody knows."""

from collections.abc import Iterable

FEW = 12  # names that a line can hold


def nearest(word: str, names: Iterable[str]) -> str:
    """The most similar name whatever its case, or "" when none is near."""
    import difflib  # only whoever errs needs it

    # The dashes of options are alike whatever follows.
    folded = {name.lower().lstrip("-"): name for name in names}
    word = word.lower().lstrip("-")
    found = difflib.get_close_matches(word, folded, n=3, cutoff=0.6)
    if not found:
        return ""

    def closeness(name: str) -> tuple[bool, float, int]:
        """Letters changed places, most likely; else by similarity, then by length."""
        ratio = difflib.SequenceMatcher(None, name, word).ratio()
        return sorted(name) == sorted(word), ratio, -abs(len(name) - len(word))

    return folded[max(found, key=closeness)]


def hint(word: str, names: Iterable[str]) -> str:
    """What to write instead of `word`: the nearest name; if none is near, all, if they are few."""
    allowed = list(names)
    if near := nearest(word, allowed):
        return f'did you mean "{near}"?'
    return f"allowed: {', '.join(allowed)}" if len(allowed) <= FEW else "no known name is similar"
