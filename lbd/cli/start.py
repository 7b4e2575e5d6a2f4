"""Where `lbd` and `lbctl` start.

Importing a program takes longer than anything else it does. An interrupt meanwhile ends it as it
ends any program, with no traceback; once imported, the program says itself how it ends.
"""

import _signal  # type: ignore[import-not-found]  # `signal` without its enums
from importlib import import_module


def lbd(argv: list[str] | None = None) -> int:
    return run("lbd.cli.main", argv)


def lbctl(argv: list[str] | None = None) -> int:
    return run("lbd.cli.lbctl", argv)


def run(module: str, argv: list[str] | None = None) -> int:
    """Imports a program and runs it. Returns its exit status."""
    is_heeded = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler  # not ignored
    if is_heeded:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    program = import_module(module)
    if is_heeded:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    status: int = program.main(argv)
    return status
