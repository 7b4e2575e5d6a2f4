"""When the thread of an executor is woken."""

import math
import threading
import time
from concurrent import futures

from lbd.python.core.pool import PoolLimits
from lbd.python.core.worker_hosts import WorkerHost
from lbd.python.crew import Crew, WorkerSettings
from lbd.python.pickles import Packed

ASIDE_S = 0.3


class IdleCrew(Crew):
    """A crew that only records that it would start a worker."""

    def __init__(self):
        super().__init__(PoolLimits(slots=1), WorkerSettings(None, (), "python", 1 << 20, 1 << 20))
        self.starts = threading.Event()

    def _start(self, worker, host):
        self.starts.set()


def test_a_task_that_arrives_while_all_hosts_are_set_aside_is_started_later():
    crew = IdleCrew()
    now_s = time.monotonic()
    crew._pool.look_at([WorkerHost("h1")], now_s)
    crew._begin()
    while crew._sleeps_until_s != math.inf:  # the thread has nothing to wait for
        time.sleep(0.001)
    crew._pool._aside_until_s["h1"] = time.monotonic() + ASIDE_S
    (future,) = crew.submit([Packed(b"", b"")])
    assert crew.starts.wait(10)
    assert not future.done()


def test_a_waiter_for_a_cancelled_future_is_notified():
    crew = IdleCrew()
    cancelled, left = crew.submit([Packed(b"", b""), Packed(b"", b"")])
    assert cancelled.cancel()
    assert cancelled.cancel()  # as with any future
    assert futures.wait([cancelled, left], timeout=0).done == {cancelled}
    assert list(futures.as_completed([cancelled], timeout=0)) == [cancelled]
