"""Where the large arguments of tasks are: the promises of `core/pool.py`, in random histories
too."""

from random import Random

import pytest

from lbd.python.core.actions import DropBlob, End, Fail, Send, SendBlob, ShareBlob
from lbd.python.core.pool import LOSSES_MAX
from lbd.python.core.worker_hosts import WorkerHost
from tests.unit.python.core.pool_scene import MIB, Scene


def test_a_blob_goes_to_a_host_once_and_others_there_wait_for_it():
    scene = Scene([WorkerHost("h1", slots=2)], slots=2)
    first, second = scene.submit(x=MIB), scene.submit(x=MIB)
    one, other = scene.start_all()
    assert scene.take(SendBlob) == [SendBlob(one, b"x", first, is_own=False)]
    assert scene.take(Send) == [Send(one, first)]
    scene.do(scene.pool.stored(one, b"x", 0.0))
    assert scene.take(SendBlob) == []
    assert scene.take(Send) == [Send(other, second)]


def test_a_blob_is_sent_again_if_the_worker_that_brought_it_was_lost():
    scene = Scene([WorkerHost("h1", slots=2)], slots=2)
    first, second = scene.submit(x=MIB), scene.submit(x=MIB)
    one, other = scene.start_all()
    scene.take(SendBlob)
    scene.take(Send)
    scene.end(one)
    assert scene.take(SendBlob) == [SendBlob(other, b"x", first, is_own=True)]
    assert scene.take(Send) == [Send(other, first)]
    assert list(scene.pool.waiting) == [second]


def test_a_worker_alone_on_its_host_shares_its_blobs_with_the_next_one():
    scene = Scene([WorkerHost("h1", slots=2)], slots=2)
    first = scene.submit(x=MIB)
    (one,) = scene.start_all()
    assert scene.take(SendBlob) == [SendBlob(one, b"x", first, is_own=True)]
    second = scene.submit(x=MIB)
    (other,) = scene.start_all()
    assert scene.take(ShareBlob) == []  # it has not arrived yet
    scene.do(scene.pool.stored(one, b"x", 0.0))
    assert scene.take(ShareBlob) == [ShareBlob(one, b"x")]
    assert scene.take(Send) == [Send(one, first)]
    scene.do(scene.pool.stored(one, b"x", 0.0))
    assert scene.take(SendBlob) == []
    assert scene.take(Send) == [Send(other, second)]


def test_the_private_blobs_of_a_worker_go_with_it():
    scene = Scene([WorkerHost("h1", slots=2)], slots=1)
    first = scene.submit(x=MIB)
    (one,) = scene.start_all()
    scene.do(scene.pool.stored(one, b"x", 0.0))
    scene.take(SendBlob)
    scene.end(one)
    scene.pass_s(2.0)
    (other,) = scene.start_all()
    assert scene.take(SendBlob) == [SendBlob(other, b"x", first, is_own=True)]


class Blobs:
    """What the workers of all hosts can open, as their frames arrive in order."""

    def __init__(self, scene):
        self.scene = scene
        self.host_of = {}
        self.tasks = {}
        self.own = set()  # (worker, blob)
        self.files = set()  # (host, blob)
        self.answers = []  # (worker, blob, whether it is in a file then)

    def forget_the_dead(self):
        workers = self.scene.pool.workers
        self.host_of = {number: worker.host for number, worker in workers.items()}
        self.own = {(worker, blob) for worker, blob in self.own if worker in workers}
        self.answers = [answer for answer in self.answers if answer[0] in workers]
        hosts = set(self.host_of.values())
        self.files = {(host, blob) for host, blob in self.files if host in hosts}

    def saw(self, action):
        if isinstance(action, SendBlob):
            self.own.add((action.worker, action.blob))
            self.answers.append((action.worker, action.blob, not action.is_own))
        elif isinstance(action, ShareBlob):
            assert (action.worker, action.blob) in self.own
            self.answers.append((action.worker, action.blob, True))
        elif isinstance(action, DropBlob):
            host = self.host_of[action.worker]
            self.files.discard((host, action.blob))
            self.own.discard((action.worker, action.blob))
        elif isinstance(action, Send):
            for blob in self.tasks[action.task]:
                file = self.host_of[action.worker], blob
                assert (action.worker, blob) in self.own or file in self.files

    def answer(self, rng):
        # Those of one worker arrive in order.
        number = rng.choice(self.answers)[0]
        at = next(i for i, answer in enumerate(self.answers) if answer[0] == number)
        _, blob, is_file = self.answers.pop(at)
        if is_file:
            self.own.discard((number, blob))
            self.files.add((self.host_of[number], blob))
        self.scene.do(self.scene.pool.stored(number, blob, self.scene.now_s))


def test_the_least_recently_used_blob_makes_room():
    scene = Scene(slots=1, cache_bytes=3 * MIB)
    tasks = [scene.submit(**{name: MIB}) for name in "abcad"]
    (number,) = scene.start_all()
    for task, name in zip(tasks, "abcad", strict=True):
        scene.do(scene.pool.stored(number, name.encode(), 0.0))
        scene.result(number, task)
    assert scene.take(DropBlob) == [DropBlob(number, b"b")]


def test_on_a_host_that_keeps_nothing_the_task_fails_eventually():
    scene = Scene(slots=1)
    scene.submit(x=MIB)
    (number,) = scene.start_all()
    for _ in range(LOSSES_MAX):
        assert scene.take(SendBlob)
        scene.do(scene.pool.stored(number, b"x", 0.0))
        scene.do(scene.pool.missing(number, 0, 0.0))
    assert [failed.task for failed in scene.take(Fail)] == [0]
    assert not scene.take(SendBlob)


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_every_task_is_answered_once_whatever_happens(seed, restart):
    rng = Random(seed)
    limit = 4 * MIB
    scene = Scene(
        [WorkerHost(f"h{n}", slots=2) for n in range(1, 4)],
        seed, slots=5, restart=restart, cache_bytes=limit, idle_s=5.0,
    )  # fmt: skip
    sent, answered, ending, blobs = {}, [], set(), Blobs(scene)
    tasks = 60

    def look():
        blobs.forget_the_dead()
        for action in scene.actions:
            if isinstance(action, Send):
                assert restart or action.task not in sent, "it ran twice"
                sent[action.task] = action.worker
            elif isinstance(action, Fail):
                answered.append(action.task)
            elif isinstance(action, End):
                ending.add(action.worker)
            blobs.saw(action)
        scene.actions = []
        assert not any(b._size_bytes() > limit for b in scene.pool._blobs_by_host.values())

    steps = 0
    while len(answered) < tasks:
        steps += 1
        assert steps < 20_000, f"seed {seed}: {len(answered)} of {tasks} answered"
        scene.now_s += rng.expovariate(5.0)
        workers = list(scene.pool.workers.items())
        busy = [(number, worker) for number, worker in workers if worker.sent]
        what = rng.random()
        if scene.next_task < tasks and what < 0.3:
            names = rng.sample("abcdef", rng.choice((0, 0, 1, 2)))
            blobs.tasks[scene.next_task] = [name.encode() for name in names]
            scene.submit(**dict.fromkeys(names, MIB))
        elif blobs.answers and what < 0.5:
            blobs.answer(rng)
        elif busy and what < 0.8:
            number, worker = rng.choice(busy)
            answered.append(worker.sent[0])
            scene.result(number, worker.sent[0], rng.choice((1e-5, 1e-3, 1.0)))
        elif workers and what < 0.85:
            number, worker = rng.choice(workers)
            if not worker.ready and number not in ending:
                scene.do(scene.pool.ready(number, scene.now_s))
        elif workers and what < 0.88:
            scene.end(rng.choice(workers)[0])
        elif ending and what < 0.92:
            number = ending.pop()
            if number in scene.pool.workers:
                scene.end(number)
        else:
            for number, worker in workers:
                if not worker.ready and number not in ending:
                    scene.do(scene.pool.ready(number, scene.now_s))
            scene.pass_s(rng.choice((0.01, 0.2, 3.0)))
        look()
    assert sorted(answered) == list(range(tasks))
