"""lbd: load-balancing daemons for a few to a few hundred Linux hosts.

`lbd.Executor` and `lbd.joblib` are imported when they are first used: `lbrun` does without them.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # typing's own would cost a millisecond
if TYPE_CHECKING:
    from lbd import joblib as joblib
    from lbd.python.executor import Executor as Executor

LAZY = {"Executor": "python.executor", "joblib": "joblib", "client": "client"}


def __getattr__(name: str) -> object:
    if name not in LAZY:
        raise AttributeError(f"module 'lbd' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"{__name__}.{LAZY[name]}")
    return getattr(module, name, module)
