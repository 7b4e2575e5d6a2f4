"""A pool of workers and the events around it, for its tests."""

from random import Random

from lbd.python.core.actions import Look, Start
from lbd.python.core.pool import Pool, PoolLimits
from lbd.python.core.worker_hosts import WorkerHost

HOSTS = [WorkerHost("h1", slots=2), WorkerHost("h2", slots=2)]
MIB = 1 << 20


class Scene:
    """A pool, its clock, and its requests that have not been looked at yet."""

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
        """Makes every requested worker ready; returns where each is."""
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
