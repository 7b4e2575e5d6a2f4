"""`lbd.Executor`: runs Python functions on the cluster's hosts, as a `concurrent.futures` executor.

Each worker is an ordinary command started by `lbrun`: owners' rules, slots and limits apply, and it
ends with its client. Tasks and results travel over its standard input and output.
"""

import atexit
import itertools
import sys
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent import futures
from functools import partial
from typing import ParamSpec, TypeVar, cast

from lbd.errors import LbdError
from lbd.model import Needs
from lbd.python import wire
from lbd.python.batches import call_each
from lbd.python.core.pool import PoolLimits
from lbd.python.crew import Crew
from lbd.python.pickles import Digests, Packed, pack_call, pack_function
from lbd.python.task_future import TaskFuture
from lbd.python.worker_process import WorkerSettings
from lbd.text.needs import read_features, read_needs

P = ParamSpec("P")
T = TypeVar("T")

CACHE_BYTES = 1 << 30
RESULT_BYTES = 1 << 28
IDLE_S = 60.0
OPEN: "weakref.WeakSet[Executor]" = weakref.WeakSet()


def needs_of(
    need: Collection[str] | Mapping[str, str | int],
    feature: Collection[str],
    not_feature: Collection[str],
) -> Needs:
    """Raises ValueError, TypeError."""
    for name, given in (("need", need), ("feature", feature), ("not_feature", not_feature)):
        if isinstance(given, str):
            raise TypeError(f"{name}={given!r}: a list")
    texts = [f"{name}={n}" for name, n in need.items()] if isinstance(need, Mapping) else list(need)
    resources, features = read_needs(texts), read_features(list(feature))
    return Needs(tuple(resources), tuple(features), tuple(read_features(list(not_feature))))


class Executor(futures.Executor):
    """Runs Python functions on the hosts of the cluster.

    - `slots`, or as other executors have it `max_workers`: maximum number of workers (default: as
      many as the hosts have slots).
    - `host`: the only host to use.
    - `exclude`: hosts never to use.
    - `need`, `feature`, `not_feature`: what each worker needs of its host, as `["gpu=1"]` or
      `{"gpu": 1}`.
    - `python`: the interpreter to start on the hosts, if it is not at the same path as this one.
    - `restart=False`: never run a task a second time.
    - `idle_s`: how long a worker without tasks stays.
    - `cache_bytes`: how many bytes of large arguments a host holds.
    - `result_bytes`: the size of the largest result.
    """

    def __init__(
        self,
        slots: int | None = None,
        *,
        max_workers: int | None = None,
        host: str | None = None,
        exclude: Collection[str] = (),
        need: Collection[str] | Mapping[str, str | int] = (),
        feature: Collection[str] = (),
        not_feature: Collection[str] = (),
        python: str | None = None,
        restart: bool = True,
        idle_s: float = IDLE_S,
        cache_bytes: int = CACHE_BYTES,
        result_bytes: int = RESULT_BYTES,
    ) -> None:
        if slots is not None and max_workers is not None:
            raise TypeError("slots= and max_workers= mean the same: give one")
        slots = max_workers if slots is None else slots
        if slots is not None and not isinstance(slots, int):
            raise TypeError(f"slots={slots!r}: a whole number")
        if slots is not None and slots < 1:
            raise ValueError(f"slots={slots}: an executor needs at least one")
        if not 0 < result_bytes < wire.FRAME_LIMIT_BYTES - wire.SMALL_LIMIT_BYTES:
            raise ValueError(f"result_bytes={result_bytes}: above 0 and below 4 GiB")
        needs = needs_of(need, feature, not_feature)
        if isinstance(exclude, str):
            raise TypeError(f"exclude={exclude!r}: a list of hosts")
        self._cache_bytes = cache_bytes
        self._crew = Crew(
            PoolLimits(slots, restart, idle_s, cache_bytes),
            WorkerSettings(
                host,
                tuple(exclude),
                python or sys.executable,
                cache_bytes,
                result_bytes,
                needs,
            ),
        )
        OPEN.add(self)

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> "futures.Future[T]":
        """Raises NotPicklable, in which case nothing has been queued."""
        packed = pack_call(pack_function(fn), args, kwargs)
        (future,) = self._submit([packed])
        return cast("futures.Future[T]", future)

    def map(  # type: ignore[explicit-any]  # as the standard library's
        self,
        fn: Callable[..., T],
        *iterables: Iterable[object],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:
        """Works as in any executor; `chunksize` calls form one task. Raises NotPicklable."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        end_s = None if timeout is None else time.monotonic() + timeout
        digests = Digests()
        calls = zip(*iterables, strict=False)
        if chunksize == 1:
            function = pack_function(fn)
            packed = [pack_call(function, call, {}, digests) for call in calls]
            return cast("Iterator[T]", in_order(self._submit(packed), end_s))
        function = pack_function(partial(call_each, fn))
        packed = []
        while batch := list(itertools.islice(calls, chunksize)):
            packed.append(pack_call(function, (batch,), {}, digests))
        lists = cast("Iterator[list[T]]", in_order(self._submit(packed), end_s))
        return itertools.chain.from_iterable(lists)

    def kill(self, future: "futures.Future[T]") -> bool:
        """Ends a task, even a running one; its future raises TaskKilled. False means too late."""
        if not isinstance(future, TaskFuture):
            raise TypeError("no future of lbd.Executor")
        return future.cancel() or self._crew.kill(future)

    def workers(self) -> dict[str, int]:
        """Returns the number of ready workers by host."""
        return self._crew.ready_by_host()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            self._crew.cancel_all()
        self._crew.close(wait=wait)

    def _submit(self, packed: list[Packed]) -> list[TaskFuture]:
        for call in packed:
            if (size := sum(map(len, call.blobs.values()))) > self._cache_bytes:
                limit = f"a host keeps at most cache_bytes={self._cache_bytes}"
                raise LbdError(f"the arguments of one call have {size} bytes, and {limit}")
        return self._crew.submit(packed)


def in_order(found: list[TaskFuture], end_s: float | None) -> Iterator[object]:
    """Yields the results in order. Cancels the rest if the caller stops early."""
    found.reverse()
    try:
        while found:
            left_s = None if end_s is None else end_s - time.monotonic()
            yield found.pop().result(left_s)
    finally:
        for future in found:
            future.cancel()


@atexit.register
def finish_all() -> None:
    """Waits for all tasks before the program exits, as other executors do."""
    for executor in list(OPEN):
        executor.shutdown()
