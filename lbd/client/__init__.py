"""The Python interface: `Client`, `Job`, `Completed` and two errors; `lbd.client.aio` for asyncio.

Each name is imported on first use, since `lbrun` and `lbsh` live in this package too.
"""

TYPE_CHECKING = False  # importing typing would cost a millisecond
if TYPE_CHECKING:
    from lbd.client import aio as aio
    from lbd.client.calls import Client as Client
    from lbd.client.calls import Completed as Completed
    from lbd.client.calls import IsArray as IsArray
    from lbd.client.calls import Job as Job
    from lbd.client.calls import JobFailed as JobFailed

LAZY = {
    "Client": "calls", "Completed": "calls", "IsArray": "calls", "Job": "calls",
    "JobFailed": "calls", "aio": "aio",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in LAZY:
        raise AttributeError(f"module 'lbd.client' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"{__name__}.{LAZY[name]}")
    return getattr(module, name, module)
