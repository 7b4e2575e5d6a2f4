"""A worker of an executor: `python -m lbd.python.worker`, started by `lbrun` on some host.

Tasks arrive on standard input and results go to standard output. A function that prints does not
reach that pipe: its output goes to standard error. The main thread runs the functions, another
thread reads. At the end of its input the client is gone, and the worker ends together with every
process it started.
"""

import contextlib
import json
import os
import pickle
import platform
import signal
import sys
import threading
import time
import traceback
from collections import OrderedDict, deque

from lbd.local.frames import pack
from lbd.python import wire
from lbd.python.host_cache import HostCache, place
from lbd.python.import_path import is_believed
from lbd.python.pickles import Function, dumps, shown, unpack_arguments
from lbd.python.pipes import read_exactly
from lbd.python.wire import TaskFrame

FUNCTIONS_MAX = 64


class Missing(Exception):
    """The host does not have a blob."""


class Worker:
    def __init__(self, tasks: int, results: int) -> None:
        self._input = tasks
        self._output = results
        self._writing = threading.Lock()
        self._changed = threading.Condition()
        self._tasks: deque[TaskFrame] = deque()
        self._runs = False
        self._functions: OrderedDict[bytes, Function] = OrderedDict()
        self._cache: HostCache | None = None
        self._refused: dict[bytes, str] = {}  # why the host has no room for a blob, by digest
        self._result_bytes = 0

    # The thread that reads

    def read(self) -> None:
        """Never returns."""
        try:
            while True:
                size, tag = wire.HEADER.unpack(read_exactly(self._input, wire.HEADER.size))
                self._heard(tag, read_exactly(self._input, size))
        except (EOFError, OSError):
            pass
        except Exception:
            traceback.print_exc()
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._cache is not None:
            self._cache.leave()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # it may be the user's own object by now
                stream.flush()
        if self._runs:
            os.killpg(0, signal.SIGKILL)
        os._exit(0)

    def _heard(self, tag: bytes, body: bytes) -> None:
        """Raises ValueError, OSError, EOFError."""
        if tag == wire.TASK:
            task = wire.read_task(body)
            with self._changed:
                self._tasks.append(task)
                self._changed.notify()
        elif tag in (wire.BLOB, wire.OWN_BLOB):
            self._store(*wire.BLOB_HEAD.unpack(body), is_own=tag == wire.OWN_BLOB)
        elif tag == wire.SHARE:
            # no room: the other workers are sent the blob, and report that
            with contextlib.suppress(OSError):
                self._settled_cache.share(body)
            self._write(pack(wire.STORED, body))
        elif tag == wire.DROP:
            self._settled_cache.drop(body)
        elif tag == wire.ASK_BACK:
            with self._changed:
                back = [task.number for task in self._tasks]
                self._tasks.clear()
            self._write(pack(wire.RETURNED, wire.pack_ids(back)))
        elif tag == wire.SETTINGS:
            self._settle(body)
        else:
            raise ValueError(f"a frame tagged {tag!r}")

    def _settle(self, body: bytes) -> None:
        settings = json.loads(body)
        stamps: dict[str, str] = settings.get("stamps", {})
        known = [entry for entry in settings["path"] if is_believed(entry, stamps.get(entry))]
        sys.path[:] = [*known, *(entry for entry in sys.path if entry not in known)]
        self._result_bytes = int(settings["result_bytes"])
        name = f"{settings['executor']}-{host_name()}"
        self._cache = HostCache(place(int(settings["cache_bytes"])), name)

    @property
    def _settled_cache(self) -> HostCache:
        assert self._cache is not None, "settings come first"
        return self._cache

    def _store(self, digest: bytes, size: int, *, is_own: bool) -> None:
        """Stores a blob. If there is no room, remembers why, for the tasks that need it."""
        cache = self._settled_cache
        try:
            (cache.store_own if is_own else cache.store)(digest, size, self._input)
            self._refused.pop(digest, None)
        except OSError as problem:
            self._refused[digest] = f"{size} bytes of arguments: {problem.strerror}"
        self._write(pack(wire.STORED, digest))

    # The main thread

    def run(self) -> None:
        """Never returns."""
        self._write(pack(wire.HELLO, json.dumps(hello()).encode()))
        while True:
            with self._changed:
                while not self._tasks:
                    self._runs = False
                    self._changed.wait()
                task = self._tasks.popleft()
                self._runs = True
            began_s = time.perf_counter()
            try:
                how, payload = self._result_of(task)
            except Missing:
                self._write(pack(wire.MISSING, wire.pack_ids([task.number])))
                continue
            if len(payload) > self._result_bytes:
                size = f"{len(payload)} bytes, and result_bytes={self._result_bytes}"
                how, payload = wire.TEXT, f"the result has {size}".encode()
            ran_s = time.perf_counter() - began_s
            head = wire.RESULT_HEAD.pack(task.number, how, ran_s)
            self._write(pack(wire.RESULT, head + payload))

    def _result_of(self, task: TaskFrame) -> tuple[int, bytes]:
        """Raises Missing."""
        try:
            function = self._function(task.function)
            args, kwargs = unpack_arguments(task.arguments, self._open_blob, self._read_blob)
            value = function(*args, **kwargs)
        except Missing:
            raise
        except BaseException as problem:  # the function may raise SystemExit or KeyboardInterrupt
            return raised(problem)
        try:
            return wire.VALUE, packed(value)
        except Exception as problem:  # pickling may run arbitrary code
            return wire.TEXT, f"the result {shown(value)} cannot be pickled: {problem}".encode()

    def _function(self, pickled: bytes) -> Function:
        function = self._functions.get(pickled)
        if function is None:
            function = pickle.loads(pickled)  # noqa: S301  # the user's own
            self._functions[pickled] = function
            if len(self._functions) > FUNCTIONS_MAX:
                self._functions.popitem(last=False)
        return function

    def _open_blob(self, digest: bytes) -> memoryview:
        cache = self._cache_with(digest)
        try:
            return cache.open(digest)
        except FileNotFoundError:
            raise Missing from None

    def _read_blob(self, digest: bytes) -> bytes:
        cache = self._cache_with(digest)
        try:
            return cache.read(digest)
        except FileNotFoundError:
            raise Missing from None

    def _cache_with(self, digest: bytes) -> HostCache:
        if digest in self._refused:
            raise MemoryError(f"{host_name()} has no room for {self._refused[digest]}")
        return self._settled_cache

    def _write(self, data: bytes) -> None:
        with self._writing:
            view = memoryview(data)
            while view:
                view = view[os.write(self._output, view) :]


def packed(value: object) -> bytes:
    """Uses pickle alone for simple values: cloudpickle takes ten times as long."""
    if value is None or type(value) in (int, float, bool, str, bytes):
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return dumps(value)


def raised(problem: BaseException) -> tuple[int, bytes]:
    """Returns the traceback as text, without our own frames, followed by the pickled exception."""
    frames = problem.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    lines = traceback.format_exception(type(problem), problem, frames)
    text = "".join(lines).encode(errors="replace")
    with contextlib.suppress(Exception):  # the exception may hold a lock, a socket or the like
        pickled = dumps(problem.with_traceback(None))
        return wire.RAISED, len(text).to_bytes(4, "little") + text + pickled
    return wire.TEXT, text


def host_name() -> str:
    return os.environ.get("LBD_HOST") or platform.node()


def hello() -> dict[str, str | int]:
    return {
        "version": wire.VERSION,
        "python": ".".join(map(str, sys.version_info[:2])),
        "implementation": platform.python_implementation(),
        "host": host_name(),
    }


def main() -> None:
    """Never returns."""
    with contextlib.suppress(OSError):  # it is a session leader already
        os.setpgid(0, 0)
    tasks, results = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it is no terminal
    worker = Worker(tasks, results)
    threading.Thread(target=worker.read, daemon=True).start()
    worker.run()


if __name__ == "__main__":
    main()
