"""Fuzz target for the messages of a worker of `lbd.Executor`, as its client reads them."""

import contextlib
import json

from lbd.local.frames import pack
from lbd.python import wire
from lbd.python.core.actions import Start
from lbd.python.core.pool import PoolLimits
from lbd.python.core.worker_hosts import WorkerHost
from lbd.python.crew import Crew, WorkerSettings
from lbd.python.pickles import Packed
from lbd.python.task_future import TaskFuture
from lbd.python.worker import hello

TASKS = 3
RESULT_BYTES = 1000


class NoProcess:
    """Stands in for a worker's `lbrun`: what is sent goes nowhere."""

    has_unsent = is_watched = False

    def send(self, *parts: bytes) -> None:
        pass


def answers_of_a_worker(data: bytes) -> None:
    """No task is answered twice, and a protocol error is reported as one: nothing else is
    raised."""
    crew = Crew(PoolLimits(slots=1), WorkerSettings(None, (), "python", 1 << 20, RESULT_BYTES))
    for number in range(TASKS):
        future = TaskFuture(number, crew.cancel)
        crew._calls[number] = future, Packed(b"", b"")
        crew._do(crew._pool.submit(number, {}, 0.0))
    started = crew._pool.look_at([WorkerHost("h1")], 0.0)
    assert [type(action) for action in started] == [Start]
    crew._processes[0] = NoProcess()
    incoming = wire.Incoming(RESULT_BYTES)
    answered: list[int] = []
    with contextlib.suppress(*crew.PROTOCOL_ERRORS):
        for tag, body in incoming.feed(data):
            assert len(body) <= RESULT_BYTES + wire.SMALL_LIMIT_BYTES
            answered += [future.number for future, _, _ in crew._heard(0, tag, body)]
    assert len(set(answered)) == len(answered) <= TASKS


HELLO = pack(wire.HELLO, json.dumps(hello()).encode())
FIRST = pack(wire.RESULT, wire.RESULT_HEAD.pack(0, wire.VALUE, 0.001) + b"x")
SECOND = pack(wire.RESULT, wire.RESULT_HEAD.pack(1, wire.TEXT, 0.001) + b"why")
SEEDS = {
    "answers_of_a_worker": (
        HELLO + FIRST + SECOND,
        HELLO + FIRST + pack(wire.RETURNED, wire.pack_ids([1])),
        HELLO + pack(wire.MISSING, wire.pack_ids([0])),
        HELLO + pack(wire.STORED, b"0123456789abcdef") + FIRST + FIRST,
        pack(wire.HELLO, b'{"version": %d, "python": "3.1", "host": "x"}' % wire.VERSION),
        pack(wire.HELLO, b"[" * 5000),
    ),
}
ALL = (answers_of_a_worker,)
