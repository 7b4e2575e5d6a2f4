"""The joblib backend: its batches are tasks of an executor that persists from call to call."""

import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache

from joblib.parallel import (
    AutoBatchingMixin,
    ParallelBackendBase,
    SequentialBackend,
    register_parallel_backend,
)

from lbd.python.batches import call
from lbd.python.cluster_hosts import find_hosts
from lbd.python.executor import Executor

NAME = "lbd"
Done = Callable[[Future[object]], None]


class LbdBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]  # has no types
    """`n_jobs` is the maximum number of workers; -1, the default here, means as many as the hosts
    have slots. `parallel_config` passes on the executor's options `host` and `restart`."""

    supports_retrieve_callback = True
    default_n_jobs = -1

    def configure(
        self,
        n_jobs: int = 1,
        parallel: object = None,
        prefer: object = None,
        require: object = None,
        **of_other_backends: object,
    ) -> int:
        del prefer, require, of_other_backends
        self.parallel = parallel
        workers = self.effective_n_jobs(n_jobs)
        self._executor = shared_executor(workers, **self.backend_kwargs)
        self._futures: weakref.WeakSet[Future[object]] = weakref.WeakSet()
        return workers

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is not None and n_jobs > 0:
            return n_jobs
        hosts = find_hosts(self.backend_kwargs.get("host"), ())
        return max(1, sum(host.slots for host in hosts))

    def submit(self, func: Callable[[], object], callback: Done | None = None) -> Future[object]:
        # so that large arrays are sent apart from the call
        future = self._executor.submit(call, func)
        self._futures.add(future)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    apply_async = submit  # the name in joblib before 1.5

    def retrieve_result_callback(self, out: Future[object]) -> object:
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        del ensure_ready
        for future in list(self._futures):
            self._executor.kill(future)

    def terminate(self) -> None:
        self.reset_batch_stats()

    def get_nested_backend(self) -> tuple[object, None]:
        """Runs nested calls one after another, because a worker has one slot."""
        return SequentialBackend(nesting_level=(self.nesting_level or 0) + 1), None


@cache
def shared_executor(slots: int, host: str | None = None, restart: bool = True) -> Executor:
    return Executor(slots, host=host, restart=restart)


def register() -> None:
    register_parallel_backend(NAME, LbdBackend)
