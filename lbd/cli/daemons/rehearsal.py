"""What the daemons of a host would refuse of their configuration, before any of them is started."""

import importlib
import os
import select
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress

from lbd.cli.daemons.privilege import become
from lbd.config.schema import Config
from lbd.errors import ConfigError, LbdError
from lbd.keeper.run_as import LocalUser

PATIENCE_S = 10.0  # a key on a file server that is away: the daemons will find out by themselves
LINE_BYTES = 4096


def rehearse(config: Config, names: Sequence[str], account: LocalUser | None) -> None:
    """Has a child look as the user they run as: what it imports for that is not for us to keep.

    Raises ConfigError with what the first of them would say.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, look(config, names, account).encode()[:LINE_BYTES])
        finally:
            os._exit(0)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], PATIENCE_S)
        said = os.read(reading, LINE_BYTES).decode(errors="replace") if ready else ""
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if said:
        raise ConfigError(said)


def look(config: Config, names: Sequence[str], account: LocalUser | None) -> str:
    """Returns what is wrong, "" if nothing is."""
    if account is not None:
        become(account)
    try:
        for name in names:
            module = importlib.import_module(f"lbd.cli.daemons.{name}")
            check: Callable[[Config], object] = module.check
            check(config)
    except LbdError as problem:
        return str(problem)
    return ""
