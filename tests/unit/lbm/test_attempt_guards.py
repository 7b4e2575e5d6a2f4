"""An attempt of the queue ends with its lease, and what is started, told and forgotten is so once:
guards of "never two attempts alive" that no test had guarded."""

import asyncio
import contextlib
import subprocess
from types import SimpleNamespace

import pytest

from lbd.config import Config
from lbd.lbm.attempt import OUT_OF_LEASE, Attempt
from lbd.lbm.attempts import Attempts, Held
from lbd.lbm.limits import CPU_US, LEASE, LEASE_MS, LOOK_S_MAX, Limit, Limits, Process
from lbd.lbm.link import Begun, Exit, Spawned
from lbd.lbm.state import Jobs, Slots
from lbd.lbm.submitted import Submitted
from lbd.lbm.users import Admit
from lbd.model import JobId
from lbd.rpc.boot_clock import clock_s
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.gen import lbm_pb2

KILLED = 9
KEY = JobId("7"), 1


class Link:
    """A keeper that begins what it is told to and ends nothing."""

    weighs_cpu, pid, uid = False, 1, 0

    def __init__(self):
        self.told, self.spawns = [], []
        self.process = 1  # of what it begins

    async def spawn(self, order, descriptors, stopped, limit):
        loop = asyncio.get_running_loop()
        spawned = Spawned(loop.create_future(), loop.create_future(), stopped)
        spawned.begun.set_result(Begun(self.process, ""))
        self.spawns.append(spawned)
        return spawned

    async def tell(self, *order):
        self.told.append(order)

    say = tell


class Spool:
    def ended(self, job, attempt, *, spooled=True):
        return ""

    def is_full(self):
        return False


async def admit(user, uid, origin):
    return Admit(None)


async def has_turn(name, user, width):
    return True


def start_of():
    request = lbm_pb2.RunRequest(argv=[b"true"], directory=b"/", closed_fds=7)
    spec = pb.StoredSpec(run_request=request.SerializeToString())
    return pb.Start(
        job=KEY[0], attempt=KEY[1], lease_s=30.0, spec=spec, origin="h2", user="ann", uid=1001
    )


@pytest.fixture
def host():
    return SimpleNamespace(
        config=Config(), rules=SimpleNamespace(config=Config()), link=Link(), slots=Slots(2, 10),
        jobs=Jobs(10), submitted=Submitted(), admit=admit, changed=lambda: None, slot_events={},
        job_began=lambda *_: None, job_ended=lambda _: None, leaving=False,
    )  # fmt: skip


@pytest.fixture
def news():
    return []


@pytest.fixture
def attempt(host, news):
    return attempt_of(host, news)


def attempt_of(host, news, kind=Attempt):
    client = SimpleNamespace(spool=Spool())
    return kind(host, client, start_of(), news.append, lambda: 30.0, has_turn)


@contextlib.asynccontextmanager
async def running(attempt):
    task = asyncio.create_task(attempt.run())
    try:
        await until(lambda: attempt.begun)
        yield task
    finally:
        task.cancel()


async def until(holds):
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110  # nobody says so
            await asyncio.sleep(0.01)


@pytest.fixture
def sleeping():
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


async def test_with_its_lease_it_ends_though_the_keeper_does_nothing(host, attempt, sleeping):
    host.link.process = sleeping.pid
    async with running(attempt):
        attempt.lease_over()
        await until(lambda: sleeping.poll() is not None)
    assert sleeping.returncode == -KILLED


async def test_one_that_its_keeper_ended_with_its_lease_is_lost(host, attempt, news):
    """Not "signalled": the user has not killed it, and it is to begin elsewhere."""
    async with running(attempt) as task:
        host.link.spawns[0].exited.set_result(Exit(KILLED, 0.0, 0.0, 0, False, LEASE))
        await task
    assert (news[-1].event, news[-1].cause, news[-1].reason) == ("ended", "lost", OUT_OF_LEASE)


@pytest.mark.parametrize(
    ("said", "stage"), [({"origin": ""}, "late"), ({"user": "bob"}, "request"), ({}, "")]
)
async def test_what_nobody_vouches_for_does_not_run(host, news, said, stage):
    """A dispatcher of an older release sends no names: its jobs wait until it is up to date."""
    start = start_of()
    start.spec.run_request = lbm_pb2.RunRequest(
        argv=[b"true"], directory=b"/", closed_fds=7, origin="h2", user="ann", uid=1001
    ).SerializeToString()
    for name, value in said.items():
        setattr(start, name, value)
    client = SimpleNamespace(spool=Spool())
    attempt = Attempt(host, client, start, news.append, lambda: 30.0, has_turn)
    task = asyncio.create_task(attempt.run())
    await until(lambda: news)
    assert [(one.event, one.stage) for one in news] == [("refused" if stage else "begun", stage)]
    assert bool(host.link.spawns) is not bool(stage)
    task.cancel()


class Staged(Attempt):
    """It waits for its files until it is let."""

    def _take_stage(self):
        self.opening, self.let = asyncio.Event(), asyncio.Event()
        self._stage = self

    async def open(self, run_as):
        self.opening.set()
        await self.let.wait()
        return b"/"

    def close(self):
        pass


async def test_one_that_was_told_to_end_while_its_files_came_never_begins(host, news):
    attempt = attempt_of(host, news, Staged)
    task = asyncio.create_task(attempt.run())
    await until(lambda: hasattr(attempt, "opening") and attempt.opening.is_set())
    attempt.stop(0, "cancel")
    attempt.let.set()
    await asyncio.wait_for(task, 20)
    assert host.link.spawns == []
    assert [(one.event, one.wish) for one in news] == [("refused", "cancel")]
    assert host.slots.used == 0


# All of them


@pytest.fixture
def attempts(host):
    client = SimpleNamespace(spool=Spool(), own_logs=None)
    return Attempts(host, client, lambda: None)


async def test_leases_are_watched(attempts):
    ended = []
    attempt = SimpleNamespace(over=False, lease_over=lambda: ended.append(KEY))
    attempts._held[KEY] = Held(attempt, None)
    attempts._leases.until_s[KEY] = clock_s() - 1.0
    watching = asyncio.create_task(attempts._watch_leases())
    await until(lambda: ended)
    watching.cancel()


async def test_an_order_that_comes_twice_begins_one_attempt(attempts):
    start = start_of()
    start.anchor = attempts._leases.beat(clock_s())
    attempts._start(start)
    first = attempts._held[KEY]
    attempts._start(start)
    assert attempts._held[KEY] is first
    first.task.cancel()


@pytest.mark.parametrize("over", [False, True])
async def test_an_attempt_is_forgotten_only_once_it_has_ended(attempts, over):
    attempts._held[KEY] = Held(SimpleNamespace(over=over, name=JobId("7.1")), None)
    attempts._settled(KEY)
    assert (KEY in attempts._held) is not over


@pytest.mark.parametrize("lease_s", [float("nan"), 0.0, -1.0, float("inf")])
async def test_a_lease_that_cannot_be_is_not_believed(attempts, lease_s):
    """With NaN it would never have run out."""
    with pytest.raises(ValueError, match="lease"):
        attempts._hear(pb.WorkDown(reply=pb.BeatReply(number=1, lease_s=lease_s)))


async def test_an_order_that_cannot_be_followed_is_turned_away(attempts):
    start = start_of()
    start.anchor, start.cutoff_s = attempts._leases.beat(clock_s()), float("nan")
    attempts._start(start)
    (news,) = attempts._untold.take()
    assert (news.event, news.stage) == ("refused", "request")
    assert "cutoff_s" in news.reason
    assert not attempts._held


# The keeper's end


def test_what_processes_had_used_that_vanished_counts():
    """Their parent is gone as well, so nobody has waited for them."""
    gone, parent = 1 << 22, (1 << 22) + 1
    limit = Limit(gone, "")
    limit.alive = {gone: Process(parent, 5.0)}
    assert limit.used_s() == 5.0
    assert limit.used_s() == 5.0


def test_what_is_over_is_looked_at_again_soon_whatever_is_said_of_it_afterwards():
    """It is ended once more until it has ended."""
    limits = Limits()
    far = {LEASE_MS: b"60000", CPU_US: b"0"}
    limits.set("a", 1, "", {LEASE_MS: b"0", CPU_US: b"0"}, clock_s())
    assert limits.over() == ["a"]
    limits.set("a", 1, "", far, clock_s())
    assert limits.sooner_ms(-1) <= LOOK_S_MAX * 1000 + 1
