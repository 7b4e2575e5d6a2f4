"""Everything to a descriptor, also if that takes several calls."""

import os


def write_all(descriptor: int, data: bytes) -> None:
    """Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
