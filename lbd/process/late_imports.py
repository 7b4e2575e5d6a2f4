"""Delays the execution of modules that other libraries import and a daemon seldom uses.

An `import` statement finds them as usual, but without content. The first access to an attribute
executes the module. `importlib.util.LazyLoader` does not serve: the second `import` of a module
accesses an attribute, which loads it.
"""

import sys
import threading
from collections.abc import Collection, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader  # importing it costs a MiB

# Memory, measured with Python 3.11 and protobuf 7.35, and what imports the module.
OF_DAEMONS = (
    "calendar",  # 0.1 MiB; protobuf's well-known types, which lbd does not use
    "locale",  # 0.3 MiB; subprocess, to read output as text
    "tokenize",  # 0.1 MiB; linecache, which a traceback loads
    "pkgutil",
    "asyncio.sslproto",  # 0.1 MiB; TLS of asyncio's streams; lbd uses gRPC's
    "google.protobuf.descriptor_database",
    "google.protobuf.text_encoding",
    "google.protobuf.internal.python_message",  # 1.1 MiB; for machines without the compiled version
    "ipaddress",  # 0.2 MiB; urllib.parse, which pathlib imports, for addresses in brackets
)
OF_KEEPER = (
    "copy",  # 0.1 MiB; dataclasses.asdict
    "queue",
    "selectors",  # 0.1 MiB; socket.sendfile
    "inspect",  # 0.7 MiB; dataclasses without a docstring get one from it
    "ipaddress",
)


def put_off(names: Collection[str]) -> None:
    """Delays these modules. Call it before anything imports them: loaded modules are not
    affected."""
    sys.meta_path.insert(0, Finder(names))


class Finder:
    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in self._names else None
        if spec is not None and spec.loader is not None:
            spec.loader = Late(spec.loader)  # type: ignore[assignment]
        return spec


class Late:
    def __init__(self, loader: "Loader") -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        lock, begun = threading.RLock(), list[bool]()

        def look_into(name: str) -> object:
            if name == "__path__":  # the import system reads it from each module
                raise AttributeError(name)
            with lock:  # another thread waits until the module is complete
                if not begun:
                    begun.append(True)
                    try:
                        self._loader.exec_module(module)
                    # such as too many descriptors: the next access tries again
                    except BaseException:
                        begun.clear()
                        raise
            try:
                found: object = vars(module)[name]
            except KeyError:
                said = f"module {module.__name__!r} has no attribute {name!r}"
                raise AttributeError(said) from None
            return found

        module.__getattr__ = look_into  # type: ignore[method-assign]
