"""Opens an input file, gzipped or not, with one clear message for whatever is wrong with it."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from lbd.errors import ConfigError

UNREADABLE = (OSError, UnicodeDecodeError, EOFError, zlib.error)


def unreadable(path: str, problem: Exception) -> ConfigError:
    """Returns the error to raise for one of `UNREADABLE`."""
    if isinstance(problem, UnicodeDecodeError):
        return ConfigError(f"{path}: not a text file")
    if isinstance(problem, OSError) and not isinstance(problem, gzip.BadGzipFile):
        return ConfigError(f"{path}: {problem.strerror or problem}")
    return ConfigError(f"{path}: damaged gzip file: {problem}")


@contextmanager
def text_file(path: str) -> Iterator[TextIO]:
    """Raises ConfigError, also while it is read. Skips the byte order mark that some programs
    write."""
    try:
        with opened(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig") as text:
            yield text
    except UNREADABLE as problem:
        raise unreadable(path, problem) from None


def opened(path: str) -> BinaryIO | gzip.GzipFile:
    """Recognises gzip by its content (1f 8b), not by the name."""
    with Path(path).open("rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    return gzip.GzipFile(path) if compressed else Path(path).open("rb")
