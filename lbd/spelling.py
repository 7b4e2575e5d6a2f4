"""The nearest right spelling, for messages about a name nobody knows."""

import difflib
from collections.abc import Iterable


def nearest(word: str, names: Iterable[str]) -> str:
    """The most similar name whatever its case, or "" when none is near."""
    folded = {name.lower(): name for name in names}
    found = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else ""


def hint(word: str, names: Iterable[str]) -> str:
    """What to write instead of `word`: the nearest name if there is one, then all of them."""
    allowed = list(names)
    near = nearest(word, allowed)
    meant = f'did you mean "{near}"? ' if near else ""
    return f"{meant}Allowed: {', '.join(allowed)}"
