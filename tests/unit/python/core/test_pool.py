"""Which worker runs which task; the promises of `core/pool.py`, also by chance."""

from random import Random

import pytest

from lbd.python.core.actions import (
    AskBack,
    DropBlob,
    End,
    Fail,
    Look,
    Send,
    SendBlob,
    ShareBlob,
    Start,
)
from lbd.python.core.pool import LOSSES_MAX, TRIES, Pool, PoolLimits
from lbd.python.core.worker_hosts import WorkerHost

HOSTS = [WorkerHost("h1", slots=2), WorkerHost("h2", slots=2)]
MIB = 1 << 20


class Scene:
    """A pool, its clock, and what it has asked for and nobody has looked at yet."""

    def __init__(self, hosts=HOSTS, seed=1, **limits):
        self.pool = Pool(PoolLimits(**limits), Random(seed))
        self.hosts = hosts
        self.now_s = 0.0
        self.actions = []
        self.next_task = 0

    def take(self, kind):
        found = [action for action in self.actions if isinstance(action, kind)]
        self.actions = [action for action in self.actions if not isinstance(action, kind)]
        return found

    def do(self, actions):
        self.actions += actions
        while self.take(Look):
            self.actions += self.pool.look_at(self.hosts, self.now_s)

    def submit(self, **blobs):
        task, self.next_task = self.next_task, self.next_task + 1
        sizes = {name.encode(): size for name, size in blobs.items()}
        self.do(self.pool.submit(task, sizes, self.now_s))
        return task

    def start_all(self):
        """Every worker that was asked for is ready; where each is."""
        started = {start.worker: start.host for start in self.take(Start)}
        for number in started:
            self.do(self.pool.ready(number, self.now_s))
        return started

    def result(self, number, task, run_s=1.0):
        assert self.pool.result(number, task, run_s, self.now_s)
        self.do(self.pool.tick(self.now_s))

    def end(self, number, reason="h1: gone"):
        self.do(self.pool.ended(number, reason, self.now_s))

    def pass_s(self, seconds):
        self.now_s += seconds
        self.do(self.pool.tick(self.now_s))


def test_workers_start_as_tasks_come_and_no_more_than_slots():
    scene = Scene(slots=3)
    for _ in range(5):
        scene.submit()
    assert len(scene.take(Start)) == 3


def test_without_a_number_of_slots_there_are_as_many_as_the_hosts_have():
    scene = Scene()
    for _ in range(9):
        scene.submit()
    assert sorted(start.host for start in scene.take(Start)) == ["h1", "h1", "h2", "h2"]


def test_a_first_task_goes_to_a_worker_and_the_next_waits_for_its_result():
    scene = Scene(slots=1)
    first, second = scene.submit(), scene.submit()
    (number,) = scene.start_all()
    assert scene.take(Send) == [Send(number, first)]
    scene.result(number, first)
    assert scene.take(Send) == [Send(number, second)]


def test_short_tasks_are_sent_in_advance():
    scene = Scene(slots=1)
    tasks = [scene.submit() for _ in range(10)]
    (number,) = scene.start_all()
    scene.take(Send)
    scene.result(number, tasks[0], run_s=0.005)
    assert [send.task for send in scene.take(Send)] == tasks[1:6]


def test_what_waits_behind_a_long_task_comes_back_for_an_idle_worker():
    scene = Scene(slots=2)
    tasks = [scene.submit() for _ in range(2)]
    one, other = scene.start_all()
    scene.take(Send)
    more = [scene.submit() for _ in range(4)]
    scene.result(one, tasks[0], run_s=0.001)
    scene.result(other, tasks[1], run_s=0.001)
    sent = {number: [s.task for s in scene.take(Send) if s.worker == number] for number in [one]}
    assert len(sent[one]) >= 2
    for task in [task for task in more if task not in sent[one]]:
        scene.result(other, task, run_s=0.001)
    scene.pass_s(0.2)
    assert scene.take(AskBack) == [AskBack(one)]
    assert scene.pool.returned(one, sent[one][1:])
    scene.pass_s(0.0)
    assert [send.worker for send in scene.take(Send)] == [other] * (len(sent[one]) - 1)


def test_tasks_of_a_lost_worker_go_first_to_another():
    scene = Scene(slots=2)
    first, second, third = (scene.submit() for _ in range(3))
    one, other = scene.start_all()
    scene.take(Send)
    scene.end(one)
    scene.result(other, second)
    assert scene.take(Send) == [Send(other, first)]
    assert scene.pool.waiting[0] == third


def test_a_task_that_is_lost_again_and_again_fails_with_the_last_reason():
    scene = Scene(slots=1)
    task = scene.submit()
    for _ in range(LOSSES_MAX):
        scene.pass_s(100)
        (number,) = scene.start_all()
        scene.end(number, "h2: signal 9")
    (failed,) = scene.take(Fail)
    assert (failed.task, failed.is_lost) == (task, True)
    assert failed.reason == f"its worker was lost {LOSSES_MAX} times, the last one on h2: signal 9"


def test_without_restart_a_lost_task_fails_at_once_and_nothing_is_sent_in_advance():
    scene = Scene(slots=1, restart=False)
    tasks = [scene.submit() for _ in range(3)]
    (number,) = scene.start_all()
    scene.result(number, tasks[0], run_s=1e-6)
    assert [send.task for send in scene.take(Send)] == tasks[:2]
    scene.end(number, "h1: gone")
    assert [failed.task for failed in scene.take(Fail)] == [tasks[1]]
    assert list(scene.pool.waiting) == tasks[2:]


def test_where_no_worker_starts_the_others_are_tried_and_then_all_tasks_fail():
    scene = Scene(slots=1)
    scene.submit()
    scene.submit()
    hosts = []
    while not (failed := scene.take(Fail)):
        assert len(hosts) < 2 * TRIES * len(HOSTS), f"never gives up: {hosts}"
        started = scene.take(Start)
        for start in started:
            hosts.append(start.host)
            scene.end(start.worker, f"{start.host}: no such directory")
        if not started:
            scene.pass_s(scene.pool.next_tick_s(scene.now_s) - scene.now_s)
    assert {hosts.count(host) for host in ("h1", "h2")} == {TRIES}
    assert [one.task for one in failed] == [0, 1]
    assert "no such directory" in failed[0].reason
    assert not failed[0].is_lost


def test_a_refused_worker_ends_and_its_host_is_not_asked_again():
    scene = Scene(slots=4)
    for _ in range(4):
        scene.submit()
    started = scene.take(Start)
    for start in started:
        if start.host == "h1":
            scene.do(scene.pool.refuse(start.worker, "another Python", 0.0))
            scene.end(start.worker)
    scene.pass_s(1e6)
    assert len(scene.take(End)) == 2
    assert {start.host for start in scene.take(Start)} <= {"h2"}


def test_a_blob_goes_to_a_host_once_and_others_there_wait_for_it():
    scene = Scene([WorkerHost("h1", slots=2)], slots=2)
    first, second = scene.submit(x=MIB), scene.submit(x=MIB)
    one, other = scene.start_all()
    assert scene.take(SendBlob) == [SendBlob(one, b"x", first, is_own=False)]
    assert scene.take(Send) == [Send(one, first)]
    scene.do(scene.pool.stored(one, b"x", 0.0))
    assert scene.take(SendBlob) == []
    assert scene.take(Send) == [Send(other, second)]


def test_a_blob_goes_again_when_the_worker_that_brought_it_was_lost():
    scene = Scene([WorkerHost("h1", slots=2)], slots=2)
    first, second = scene.submit(x=MIB), scene.submit(x=MIB)
    one, other = scene.start_all()
    scene.take(SendBlob)
    scene.take(Send)
    scene.end(one)
    assert scene.take(SendBlob) == [SendBlob(other, b"x", first, is_own=True)]
    assert scene.take(Send) == [Send(other, first)]
    assert list(scene.pool.waiting) == [second]


def test_what_a_worker_alone_on_its_host_was_sent_it_shares_with_the_next_one():
    scene = Scene([WorkerHost("h1", slots=2)], slots=2)
    first = scene.submit(x=MIB)
    (one,) = scene.start_all()
    assert scene.take(SendBlob) == [SendBlob(one, b"x", first, is_own=True)]
    second = scene.submit(x=MIB)
    (other,) = scene.start_all()
    assert scene.take(ShareBlob) == []  # it has not come yet
    scene.do(scene.pool.stored(one, b"x", 0.0))
    assert scene.take(ShareBlob) == [ShareBlob(one, b"x")]
    assert scene.take(Send) == [Send(one, first)]
    scene.do(scene.pool.stored(one, b"x", 0.0))
    assert scene.take(SendBlob) == []
    assert scene.take(Send) == [Send(other, second)]


def test_what_a_worker_had_for_itself_goes_with_it():
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
    """What the workers of all hosts can open, as their frames come in order."""

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
        # Of one worker they come in order.
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


def test_a_host_that_keeps_nothing_fails_the_task_in_the_end():
    scene = Scene(slots=1)
    scene.submit(x=MIB)
    (number,) = scene.start_all()
    for _ in range(LOSSES_MAX):
        assert scene.take(SendBlob)
        scene.do(scene.pool.stored(number, b"x", 0.0))
        scene.do(scene.pool.missing(number, 0, 0.0))
    assert [failed.task for failed in scene.take(Fail)] == [0]
    assert not scene.take(SendBlob)


def test_idle_workers_end_and_come_again():
    scene = Scene(slots=1, idle_s=10.0)
    task = scene.submit()
    (number,) = scene.start_all()
    scene.result(number, task)
    assert scene.pool.next_tick_s(0.0) == 10.0
    scene.pass_s(9.9)
    assert not scene.take(End)
    scene.pass_s(0.1)
    assert scene.take(End) == [End(number)]
    scene.submit()
    assert len(scene.take(Start)) == 1


def test_closing_lets_tasks_end_first():
    scene = Scene(slots=1)
    task = scene.submit()
    (number,) = scene.start_all()
    scene.do(scene.pool.close(0.0))
    assert not scene.take(End)
    scene.result(number, task)
    assert scene.take(End) == [End(number)]


def test_a_killed_task_ends_its_worker_and_the_rest_of_it_goes_on():
    scene = Scene(slots=1)
    tasks = [scene.submit() for _ in range(4)]
    (number,) = scene.start_all()
    scene.result(number, tasks[0], run_s=0.001)
    scene.do(scene.pool.kill(tasks[1], 0.0))
    assert scene.take(End) == [End(number, by_force=True)]
    scene.end(number)
    assert not scene.take(Fail)
    assert list(scene.pool.waiting) == tasks[2:]


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


def test_a_task_that_waits_after_it_was_lost_can_be_killed():
    scene = Scene(slots=1)
    task = scene.submit()
    (number,) = scene.start_all()
    scene.end(number)
    assert not scene.pool.kill(task, 0.0)
    assert not scene.pool.tasks
