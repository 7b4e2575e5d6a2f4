"""A queued attempt ends with its lease, and starts, reports and removals happen once: guards of
"never two attempts alive" that were once untested."""

import asyncio
import errno
import subprocess
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config
from lbd.keeper.limits.time_limits import (
    CPU_US,
    LEASE,
    LEASE_UNTIL_MS,
    LOOK_S_MAX,
    Limits,
)
from lbd.keeper.local_account import Admit
from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution import Asked, Timer
from lbd.lbm.core.execution_events import OUT_OF_LEASE, Treatment
from lbd.lbm.core.jobs import Jobs
from lbd.lbm.core.leases import Leases
from lbd.lbm.core.slots import Slots
from lbd.lbm.inbound.executions import Executions
from lbd.lbm.inbound.submitted import Submitted
from lbd.lbm.keeper_link import Forked, ProcessExit, Spawned
from lbd.lbm.queue.attempt import Attempt
from lbd.lbm.queue.dispatcher_line import DispatcherLine
from lbd.local import frames
from lbd.model import JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from lbd.process.boot_clock import clock_s
from tests.unit.until import until

KILLED = 9
KEY = JobId("7"), 1


class Link:
    """The link to a keeper that starts what it is told to and ends nothing."""

    weighs_cpu, pid, uid = False, 1, 0

    def __init__(self):
        self.told, self.spawns, self.orders = [], [], []
        self.process = 1  # number of the next process
        self.checked = []
        self.answers = asyncio.Event()  # holds back the answers to questions
        self.answers.set()
        self.forbids = None

    async def spawn(self, order, descriptors, stopped, limit):
        spawned = Spawned(stopped)
        spawned.begun.set_result(Forked(self.process, ""))
        self.orders.append((order, limit))
        self.spawns.append(spawned)
        return spawned

    async def ask(self, order, patience_s):
        self.checked.append(order)
        await self.answers.wait()
        if self.forbids is not None:
            raise self.forbids
        return ""

    async def send(self, *order):
        self.told.append(order)

    say = send


class Spool:
    def __init__(self):
        self.shown, self.when_shown, self.files = set(), {}, SimpleNamespace()

    def ended(self, job, attempt, *, spooled=True):
        return ""

    def is_full(self):
        return False


async def admit(user, uid, origin):
    return Admit(None)


def start_of(**fields):
    request = lbm_pb2.RunRequest(argv=[b"true"], directory=b"/", closed_fds=7, **fields)
    spec = pb.StoredSpec(run_request=request.SerializeToString())
    return pb.Start(
        job=KEY[0], attempt=KEY[1], lease_s=30.0, spec=spec, origin="h2", user="ann", uid=1001
    )


@pytest.fixture
def host():
    slots = Slots(2, 10)
    return SimpleNamespace(
        config=Config(), rules=SimpleNamespace(config=Config(), owner=""), link=Link(), slots=slots,
        jobs=Jobs(10), submitted=Submitted(), admit=admit, changed=lambda: None,
        job_began=lambda *_: None, job_ended=lambda *_: None, executions=Executions(slots),
    )  # fmt: skip


@pytest.fixture
def news():
    return []


@pytest.fixture
def attempt(host, news):
    return attempt_of(host, news)


def attempt_of(host, news, kind=Attempt, **fields):
    client = SimpleNamespace(spool=Spool())
    return kind(host, client, start_of(**fields), news.append, clock_s() + 30.0)


async def begin(attempt):
    attempt.begin()
    await until(lambda: attempt.execution.process is not None)


@pytest.fixture
def sleeping():
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


async def test_it_ends_with_its_lease_though_the_keeper_does_nothing(host, attempt, sleeping):
    host.link.process = sleeping.pid
    await begin(attempt)
    attempt.execution.timers[Timer.LEASE] = clock_s()
    attempt.feed(e.Tick())
    await until(lambda: sleeping.poll() is not None)
    assert sleeping.returncode == -KILLED


async def test_the_order_tells_the_keeper_until_when_it_may_start_and_run(host, attempt):
    """So it ends with its lease even if we hang, or are read late."""
    await begin(attempt)
    ((order, limit),) = host.link.orders
    ((_, body),) = frames.Splitter(1 << 16).feed(limit)
    until_ms = int(attempt.execution.timers[Timer.LEASE] * 1e3)
    assert order.start_by_ms == int(dict(frames.fields(body))[LEASE_UNTIL_MS]) == until_ms


async def test_an_attempt_that_its_keeper_ended_with_its_lease_is_lost(host, attempt, news):
    """It is not "signalled": the user has not killed it, and it is to start elsewhere."""
    await begin(attempt)
    host.link.spawns[0].exited.set_result(ProcessExit(KILLED, 0.0, 0.0, 0, False, LEASE))
    await until(lambda: attempt.is_over)
    assert (news[-1].event, news[-1].cause, news[-1].reason) == ("ended", "lost", OUT_OF_LEASE)


async def test_start_and_end_are_reported_with_their_times(host, attempt, news):
    """Even to a dispatcher that was away when they happened."""
    earliest_s = clock_s()
    await begin(attempt)
    host.link.spawns[0].exited.set_result(ProcessExit(0, 0.0, 0.0, 0, False))
    await until(lambda: attempt.is_over)
    again = list(attempt.reports(has_ended=True))
    assert [one.event for one in (*news, *again)] == ["begun", "ended", "begun"]
    assert again[0].at_s == news[0].at_s
    assert earliest_s <= news[0].at_s <= news[1].at_s <= clock_s()


@pytest.mark.parametrize(
    ("said", "phase"), [({"origin": ""}, "request"), ({"user": "bob"}, "request"), ({}, "")]
)
async def test_an_attempt_without_a_named_user_does_not_run(host, news, said, phase):
    """No dispatcher can have it run in nobody's name."""
    start = start_of()
    start.spec.run_request = lbm_pb2.RunRequest(
        argv=[b"true"], directory=b"/", closed_fds=7, origin="h2", user="ann", uid=1001
    ).SerializeToString()
    for name, value in said.items():
        setattr(start, name, value)
    client = SimpleNamespace(spool=Spool())
    attempt = Attempt(host, client, start, news.append, clock_s() + 30.0)
    attempt.begin()
    await until(lambda: news)
    assert [(one.event, one.phase) for one in news] == [("refused" if phase else "begun", phase)]
    assert bool(host.link.spawns) is not bool(phase)


@pytest.mark.parametrize(("number", "hint"), [(errno.ENOENT, True), (errno.EACCES, False)])
async def test_a_missing_directory_is_reported_with_the_remedy(attempt, news, number, hint):
    """`lbrun` without the queue gave it, and `lbctl job` did not."""
    attempt.perform(e.ReportRefused("/x is not there", "chdir", number))
    (refused,) = news
    assert refused.reason.endswith("; --send takes files along, --fetch brings them back") is hint


class Staged(Attempt):
    """It waits for its files until the test releases it."""

    def _own_files(self):
        self.opening, self.let = asyncio.Event(), asyncio.Event()
        return self

    path = b"/"

    async def open(self, run_as):
        self.opening.set()
        await self.let.wait()

    async def collect(self, status):
        self.opening.set()
        await asyncio.get_running_loop().create_future()

    def close(self):
        pass


async def test_an_attempt_that_was_told_to_end_while_its_files_arrived_never_starts(host, news):
    attempt = attempt_of(host, news, Staged, workdir=lbm_pb2.WorkdirStep(id="7"))
    attempt.begin()
    await until(attempt.opening.is_set)
    attempt.feed(e.EndWanted(0, "cancel"))
    attempt.let.set()
    await until(lambda: attempt.is_over)
    assert host.link.spawns == []
    assert [(one.event, one.stop_reason) for one in news] == [("refused", "cancel")]
    assert host.slots.used == 0


async def test_an_attempt_that_is_to_end_does_not_wait_for_its_files(host, news):
    """Its user can stop the process that unpacks them: its slot was taken for ever."""
    attempt = attempt_of(host, news, Staged, workdir=lbm_pb2.WorkdirStep(id="7"))
    attempt.begin()
    await until(attempt.opening.is_set)
    attempt.feed(e.EndWanted(0, "cancel"))
    await until(lambda: attempt.is_over)
    assert host.slots.used == 0


async def test_nor_does_one_wait_whose_files_are_being_packed(host, news):
    attempt = attempt_of(host, news, Staged, workdir=lbm_pb2.WorkdirStep(id="7"))
    attempt.let.set()
    await begin(attempt)
    attempt.opening.clear()
    host.link.spawns[0].exited.set_result(ProcessExit(0, 0.0, 0.0, 0, False))
    await until(attempt.opening.is_set)
    attempt.feed(e.EndWanted(0, "cancel"))
    await until(lambda: attempt.is_over)
    last = news[-1]
    assert (last.event, last.exit_status, last.stop_reason) == ("ended", 125, "cancel")
    assert last.reason.startswith("--fetch it was asked to end")


# All attempts


@pytest.fixture
def attempts(host):
    client = SimpleNamespace(spool=Spool(), spools=SimpleNamespace(), leases=Leases())
    return DispatcherLine(host, client, lambda: None)


async def test_leases_are_watched(attempts):
    attempt = start(attempts)
    await until(lambda: attempt.execution.process is not None)
    attempt.execution.timers[Timer.LEASE] = clock_s() - 1.0
    watching = asyncio.create_task(attempts._held.watch_leases())
    await until(lambda: attempt.execution.asked is Asked.KILL)
    watching.cancel()


def start(attempts, order=None):
    order = order or start_of()
    order.anchor = attempts._leases.heartbeat(clock_s())
    attempts._start(order)
    return attempts._held[KEY].attempt


async def test_its_job_has_the_id_and_the_name_that_users_know(host, attempts):
    order = start_of(name="fit")
    order.array, order.array_index = 3, 5
    start(attempts, order)
    await until(lambda: host.jobs.running)
    (job,) = host.jobs.running.values()
    assert (job.queued_as, job.name, job.queued_at) == ("3_5", "fit", "h2")


async def test_an_order_that_arrives_twice_starts_one_attempt(attempts):
    first = start(attempts)
    assert start(attempts) is first


@pytest.mark.parametrize("reported", [False, True])
async def test_an_attempt_is_forgotten_only_once_it_has_ended(attempts, reported):
    start(attempts).execution.is_reported = reported
    attempts._settled(pb.Held(job=KEY[0], attempt=KEY[1]))
    assert (KEY in attempts._held) is not reported


async def test_an_order_whose_lease_has_expired_on_arrival_is_refused(attempts):
    """The dispatcher may have started another: it granted this one from an old heartbeat."""
    start = start_of()
    start.anchor = attempts._leases.heartbeat(clock_s() - 2 * start.lease_s)
    attempts._start(start)
    (news,) = attempts._pending.take()
    assert (news.event, news.phase) == ("refused", "late")
    assert not attempts._held


async def test_an_impossible_order_is_refused(attempts):
    start = start_of()
    start.anchor, start.cutoff_s = attempts._leases.heartbeat(clock_s()), float("nan")
    attempts._start(start)
    (news,) = attempts._pending.take()
    assert (news.event, news.phase) == ("refused", "request")
    assert "cutoff_s" in news.reason
    assert not attempts._held


# The keeper's part


def test_an_attempt_that_is_to_end_is_checked_again_soon_whatever_is_said_later():
    """It is ended again until it has ended."""
    limits = Limits()
    far = {LEASE_UNTIL_MS: b"%d" % ((clock_s() + 60.0) * 1e3), CPU_US: b"0"}
    now = {LEASE_UNTIL_MS: b"%d" % (clock_s() * 1e3), CPU_US: b"0"}
    limits.set("a", 1, "", now)
    assert limits.over() == ["a"]
    limits.set("a", 1, "", far)
    assert limits.sooner_ms(-1) <= LOOK_S_MAX * 1000 + 1


@pytest.mark.parametrize("movable", [True, False])
async def test_it_is_moved_unless_its_dispatcher_forbids_that_or_its_output_was_shown(
    host, news, movable
):
    start = start_of()
    start.movable = movable
    spool = Spool()
    made = Attempt(host, SimpleNamespace(spool=spool), start, news.append, clock_s() + 30.0)
    await begin(made)
    assert made.is_movable is movable
    spool.shown.add(KEY)
    assert not made.is_movable
    made.owner_wants(Treatment.STILL, "h2's owner is back")
    assert (news[-1].event, news[-1].reason) == ("stopped", "h2's owner is back")
    made.owner_wants(Treatment.NONE)
    assert (news[-1].event, news[-1].reason) == ("continued", "")
    host.link.spawns[0].exited.set_result(ProcessExit(0, 0.0, 0.0, 0, False, ""))
    await until(lambda: made.is_over)
    assert not spool.shown


async def test_an_eviction_is_reported_with_its_reason(host, news):
    start = start_of()
    start.movable = True
    made = Attempt(host, SimpleNamespace(spool=Spool()), start, news.append, clock_s() + 30.0)
    await begin(made)
    for _ in range(2):
        made.owner_wants(Treatment.GO, "h2's owner is back; moves")
    host.link.spawns[0].exited.set_result(ProcessExit(KILLED, 0.0, 0.0, 0, False, ""))
    await until(lambda: made.is_over)
    end = news[-1]
    assert (end.event, end.cause) == ("ended", "evicted")
    assert end.reason == "h2's owner is back; moves"


async def test_a_slot_that_an_attempt_takes_is_reported_at_once(host, attempt):
    """`lbctl status` showed none in use on its own host for up to a second."""
    used = []
    host.changed = lambda: used.append(host.slots.used)
    await begin(attempt)
    assert used[0] == 1
