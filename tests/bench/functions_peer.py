"""Python functions on four workers, one program for each library that can run them.

Run by a Python that has the library: `functions_peer.py LIBRARY`, with LIBRARY one of `lbd`,
`dask`, `ray`, `processes`. It starts workers, warms them up, prints READY, and then answers each
line of its standard input (`map N`, `call N`, `send BYTES`) with the seconds that the operation
took. `send` sends to each of the workers; the functions sleep so that each worker gets one, and
that time is not counted.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WORKERS = 4
MEETING_S = 0.2  # long enough that one worker cannot run two of them


def length_of(data: bytes, wait_s: float = 0.0) -> int:
    time.sleep(wait_s)
    return len(data)


class Library:
    """The operations of one library."""

    def __init__(
        self, map_all: Callable[[int], object], call: Callable[[], object],
        send: Callable[[bytes], object],
    ) -> None:  # fmt: skip
        self.map_all, self.call, self.send = map_all, call, send


@contextmanager
def lbd() -> Iterator[Library]:
    from lbd import Executor

    with Executor(slots=WORKERS) as executor, Executor(slots=1, host="h2") as elsewhere:
        while len(executor.workers()) < WORKERS:
            list(executor.map(time.sleep, [MEETING_S] * WORKERS))
        yield Library(
            lambda count: list(executor.map(time.sleep, [0] * count)),
            lambda: elsewhere.submit(time.sleep, 0).result(),
            lambda data: list(
                executor.map(length_of, [data] * WORKERS, [MEETING_S] * WORKERS)
            ),
        )  # fmt: skip


@contextmanager
def dask() -> Iterator[Library]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        Client(cluster) as client,
    ):

        def send(data: bytes) -> object:
            """As Dask's documentation advises for large arguments; `hash=False` is quicker."""
            there = client.scatter(data, broadcast=True, hash=False)
            sent = client.map(length_of, [there] * WORKERS, [MEETING_S] * WORKERS, pure=False)
            return client.gather(sent)

        client.wait_for_workers(WORKERS)
        yield Library(
            lambda count: client.gather(client.map(time.sleep, [0] * count, pure=False)),
            lambda: client.submit(time.sleep, 0, pure=False).result(),
            send,
        )


@contextmanager
def ray() -> Iterator[Library]:
    import ray as library

    library.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    sleep = library.remote(lambda seconds: time.sleep(seconds))
    length = library.remote(length_of)
    try:

        def send(data: bytes) -> object:
            there = library.put(data)
            return library.get([length.remote(there, MEETING_S) for _ in range(WORKERS)])

        library.get([sleep.remote(MEETING_S) for _ in range(WORKERS)])
        yield Library(
            lambda count: library.get([sleep.remote(0) for _ in range(count)]),
            lambda: library.get(sleep.remote(0)),
            send,
        )
    finally:
        library.shutdown()


@contextmanager
def processes() -> Iterator[Library]:
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(WORKERS) as executor:
        list(executor.map(time.sleep, [MEETING_S] * WORKERS))
        yield Library(
            lambda count: list(executor.map(time.sleep, [0] * count)),
            lambda: executor.submit(time.sleep, 0).result(),
            lambda data: list(
                executor.map(length_of, [data] * WORKERS, [MEETING_S] * WORKERS)
            ),
        )  # fmt: skip


def main() -> None:
    with LIBRARIES[sys.argv[1]]() as library:
        library.map_all(WORKERS * 10)
        library.call()
        print("READY", flush=True)
        for line in sys.stdin:
            what, amount = line.split()
            data = os.urandom(int(amount)) if what == "send" else b""
            began_s = time.perf_counter()
            if what == "map":
                library.map_all(int(amount))
            elif what == "call":
                for _ in range(int(amount)):
                    library.call()
            else:
                library.send(data)
            waited_s = MEETING_S if what == "send" else 0.0
            print(time.perf_counter() - began_s - waited_s, flush=True)


LIBRARIES = {"lbd": lbd, "dask": dask, "ray": ray, "processes": processes}

if __name__ == "__main__":
    main()
