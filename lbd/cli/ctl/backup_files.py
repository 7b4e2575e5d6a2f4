"""Files of a backup: made where nobody else can exchange them, put in place whole."""

import functools
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lbd.errors import ConfigError, LbdError
from lbd.process.own_directory import fault_of
from lbd.process.whole_file import write_whole
from lbd.trust.files import opened, own_like


@contextmanager
def scratch(beside: Path) -> Iterator[Path]:
    """The directory of the new file, as a ledger may be large; but in none that another user could
    put another in place of."""
    try:
        is_ours = os.access(beside, os.W_OK) and not fault_of(beside)
    except OSError:
        is_ours = False
    root = beside if is_ours else None
    try:
        with tempfile.TemporaryDirectory(prefix=".lbd-", dir=root) as directory:
            yield Path(directory)
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        raise LbdError(f"{where}{problem.strerror}") from problem


def place(source: Path, to: Path, *, gives: bool = False) -> None:
    """A copy, for its owner alone; `gives`: that is to be the directory's. Raises ConfigError."""
    try:
        with source.open("rb") as data, opened(to.parent, os.O_DIRECTORY) as directory:
            fill = functools.partial(filled, data, directory if gives else None)
            write_whole(to.name, b"", 0o600, True, fill, directory)
    except OSError as problem:
        raise ConfigError(f"{to}: {problem.strerror}") from problem


def filled(data: io.BufferedReader, directory: int | None, descriptor: int) -> None:
    if directory is not None:
        own_like(descriptor, directory)
    with open(descriptor, "wb", closefd=False) as target:
        shutil.copyfileobj(data, target)
