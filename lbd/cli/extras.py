"""Checks for libraries that only an extra installs."""

import importlib.util


def has_matplotlib() -> bool:
    try:
        return importlib.util.find_spec("matplotlib") is not None
    except ValueError:  # the import of it is blocked
        return False
