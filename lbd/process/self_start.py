"""How one lbd program starts another: with the same interpreter and the same code, installed or
not.

`-P` keeps the caller's directory out of the import path, where anybody may have left an `lbd/`.
"""

import sys
from collections.abc import Mapping

PACKAGE_PARENT = __file__.rpartition("/lbd/")[0]


def command(*words: str) -> list[str]:
    """Returns `lbd WORDS…` as an argument vector."""
    return [sys.executable, "-P", "-m", "lbd.cli.main", *words]


def from_source() -> bool:
    """Returns whether we run from a source tree (or an editable installation of one)."""
    return not PACKAGE_PARENT.endswith(("site-packages", "dist-packages"))


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """Returns `base`, with the path of our code if we run from a source tree."""
    return {**base, "PYTHONPATH": PACKAGE_PARENT} if from_source() else dict(base)
