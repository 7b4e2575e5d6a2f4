"""Libraries that only an extra brings."""

import importlib.util


def has_matplotlib() -> bool:
    try:
        return importlib.util.find_spec("matplotlib") is not None
    except ValueError:  # somebody has forbidden it
        return False
