"""Writes all data to a descriptor, in several calls if needed."""

import os


def write_all(descriptor: int, data: bytes) -> None:
    """Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
