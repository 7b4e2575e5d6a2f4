"""A command of a user of another host: its slot, its client and a restart of the LBM around it."""

import asyncio
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config, LbmConfig
from lbd.errors import LostContact
from lbd.keeper import protocol as keeper
from lbd.keeper import suspension
from lbd.keeper.local_account import Admit
from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution import Phase, Timer
from lbd.lbm.core.execution_events import Treatment
from lbd.lbm.core.jobs import Claims, Jobs
from lbd.lbm.core.slots import Slots
from lbd.lbm.inbound.attached_job import AttachedJob
from lbd.lbm.inbound.executions import Executions
from lbd.lbm.keeper_link import Forked, ProcessExit, Spawned
from lbd.lbm.link import wire as tags
from lbd.lbm.link.accepted_links import AcceptedLink, AcceptedLinks
from lbd.lbm.link.conversation import EARLY_BYTES, TOO_MUCH_AHEAD, Stream
from lbd.lbm.link.user_threads import UserThreads
from lbd.local.budget import Budget
from lbd.local.rate_limit import Rates
from lbd.net.gen import lbm_pb2
from tests.unit.lbm.handover.passing import handed_over
from tests.unit.until import until

TERM = 15


class Link:
    """The link to a keeper that starts what it is told to, and ends nothing by itself."""

    weighs_cpu, pid, uid = False, 1, 0

    def __init__(self):
        self.orders, self.spawned, self.has = [], [], {}

    def new(self, stopped):
        self.spawned.append(Spawned(stopped))
        return self.spawned[-1]

    async def spawn(self, order, descriptors, stopped, limit):
        spawned = self.new(stopped)
        spawned.begun.set_result(Forked(1, ""))
        return spawned

    def adopt(self, job, stopped, begun):
        return self.new(stopped)

    async def send(self, *order):
        self.orders.append(order)


class Talk:
    number, ahead_bytes, is_full = 1, 0, False

    def __init__(self):
        self.said, self.bodies = [], {}

    def put(self, tag, body=b"", linger_s=0.0):
        self.said.append(tag)
        self.bodies[tag] = body

    def follow(self, hear, lost):
        self.hear, self.lost = hear, lost


async def admit(user, uid, origin):
    return Admit(None)


def host_of(slots=1):
    slots = Slots(slots, max_waiting=10)
    return SimpleNamespace(
        config=Config(), rules=SimpleNamespace(config=Config(), load=0.0, owner="the owner"),
        link=Link(), slots=slots, jobs=Jobs(10), admit=admit, changed=lambda: None,
        threads=UserThreads(), workdirs=SimpleNamespace(path_of=lambda request: b""),
        job_began=lambda *_: None, job_ended=lambda *_: None, executions=Executions(slots),
        windows=Budget(0, 0),
    )  # fmt: skip


@pytest.fixture
async def host():
    host = host_of()
    yield host
    host.executions.leaving = False
    host.executions.resize(9, 9)

    def have_ended():
        for spawned in host.link.spawned:
            if not spawned.exited.done():
                spawned.exited.set_result(ProcessExit(0, 0.0, 0.0, 0, False))
        return not list(host.executions)

    await until(have_ended)


def begin(host, number, **fields):
    request = lbm_pb2.RunRequest(
        job_id=f"h1-{number}", origin="h1", user="ann", argv=[b"true"], directory=b"/",
        closed_fds=7, **fields,
    )  # fmt: skip
    job = AttachedJob(host, Talk(), Claims(host.jobs))
    serving = asyncio.create_task(job.serve(request))
    return job, serving


async def running(host, number=1):
    job, serving = begin(host, number)
    await until(lambda: tags.STARTED in job.talk.said)
    return job, serving


async def in_workdir(host, number, step, **fields):
    """Returns a step of the workdir `h1-9`."""
    host.workdirs.path_of = lambda request: b"/"
    job, _ = begin(host, number, workdir={"id": "h1-9", "step": step}, **fields)
    await until(lambda: job.talk.said)
    return job


def exits(host, status=0):
    host.link.spawned[-1].exited.set_result(ProcessExit(status << 8, 0.0, 0.0, 0, False))


async def test_it_is_reported_with_its_end_and_forgotten(host):
    job, serving = await running(host)
    exits(host, 3)
    await asyncio.wait_for(serving, 20)
    assert job.talk.said == [tags.STARTED, tags.ENDED]
    assert (host.slots.used, list(host.executions)) == (0, [])
    assert host.jobs.ended[-1].exit_status == 3


async def test_one_task_runs_all_steps_of_a_command(host):
    """Each additional task costs a short command as much as a step itself."""
    made = []

    def make(loop, coroutine, **names):
        made.append(coroutine.__qualname__)
        return asyncio.Task(coroutine, loop=loop, **names)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(make)
    try:
        job, serving = begin(host, 1)
        await until(lambda: tags.STARTED in job.talk.said)
        exits(host)
        await asyncio.wait_for(asyncio.shield(serving), 20)
    finally:
        loop.set_task_factory(None)
    assert job.talk.said == [tags.STARTED, tags.ENDED]
    assert made == ["AttachedJob.serve"]


async def test_a_command_given_up_during_its_check_is_not_started(host):
    looked = asyncio.Event()

    async def look(user, uid, origin):
        await looked.wait()
        return Admit(None)

    host.admit = look
    job, serving = begin(host, 1)
    await until(lambda: list(host.executions))
    job.give_up()
    looked.set()
    await asyncio.wait_for(serving, 20)
    assert (job.talk.said, host.link.spawned, host.slots.used) == ([], [], 0)


async def test_a_command_given_up_as_it_starts_is_ended(host):
    begun = asyncio.Event()
    spawn = host.link.spawn

    async def slow(*order):
        await begun.wait()
        return await spawn(*order)

    host.link.spawn = slow
    job, serving = begin(host, 1)
    await until(lambda: job.execution.phase is Phase.SPAWNING if job.id else False)
    job.give_up()
    begun.set()
    await asyncio.wait_for(serving, 20)
    await until(lambda: (keeper.SIGNAL, "h1-1", TERM) in host.link.orders)
    exits(host)
    await until(lambda: job.is_over)
    assert (job.talk.said, host.slots.used) == ([], 0)


async def test_a_command_given_up_before_its_check_leaves_nothing(host):
    job, serving = begin(host, 1)
    job.give_up()
    await asyncio.wait_for(serving, 20)
    assert (job.talk.said, list(host.executions), host.jobs.running) == ([], [], {})


async def test_messages_of_its_origin_are_handled_as_they_arrive(host):
    job, _ = await running(host)
    job.talk.hear(tags.SIGNAL, memoryview(bytes((TERM,))))
    await until(lambda: (keeper.SIGNAL, "h1-1", TERM) in host.link.orders)
    job.talk.hear(tags.DELIVERED, memoryview(b"?"))  # it makes no sense, so the command is given up
    await until(lambda: job.execution.phase is Phase.ENDING)
    assert job.execution.reason == "its origin does not follow the protocol"


async def test_when_the_stream_of_its_origin_breaks_it_is_ended(host):
    job, _ = await running(host)
    job.talk.lost(LostContact("lost contact"))
    await until(lambda: job.execution.phase is Phase.ENDING)
    assert job.execution.reason == "lost contact"


async def test_without_its_client_it_is_ended_and_holds_its_slot_until_then(host):
    job, serving = await running(host)
    serving.cancel()
    await until(lambda: (keeper.SIGNAL, "h1-1", TERM) in host.link.orders)
    assert host.slots.used == 1
    exits(host)
    await until(lambda: job.is_over)
    assert job.talk.said == [tags.STARTED], "nobody is there to hear of its end"
    assert host.slots.used == 0


async def test_a_refused_command_may_be_sent_again(host):
    await running(host)
    second, serving = begin(host, 2)
    await asyncio.wait_for(serving, 20)
    assert second.talk.said == [tags.REFUSED]
    assert "h1-2" not in host.jobs.running
    second._claims.take("h1-2")


async def test_a_waiting_command_starts_with_the_slot_of_another(host):
    await running(host)
    second, _ = begin(host, 2, forced=True)
    await until(lambda: tags.QUEUED in second.talk.said)
    exits(host)
    await until(lambda: tags.STARTED in second.talk.said)


async def test_its_origin_learns_that_it_waits_and_begins_beyond_the_slots(host):
    host.config = Config(lbm=LbmConfig(named_wait_s=0.01))
    await running(host)
    job, _ = begin(host, 2, forced=True)
    await until(lambda: tags.STARTED in job.talk.said)
    assert job.talk.bodies[tags.QUEUED] == b"1 in use of 1"
    assert b"beyond its slots: 2 in use of 1" in job.talk.bodies[tags.STARTED]


async def test_while_the_lbm_leaves_no_waiting_command_starts(host):
    """The next LBM would not know that it had started."""
    _, first = await running(host)
    second, _ = begin(host, 2, forced=True)
    await until(lambda: tags.QUEUED in second.talk.said)
    host.executions.leaving = True
    exits(host)
    await asyncio.wait_for(first, 20)
    assert second.execution.phase is Phase.SLOT


async def restored(job):
    host = host_of()
    adopted = AttachedJob(host, Talk(), Claims(host.jobs))
    adopted.adopt(handed_over(job.left(None)))
    adopted.feed(e.Resumed())
    return host, adopted


async def test_the_next_lbm_completes_the_termination_that_the_last_one_started(host):
    job, serving = await running(host)
    serving.cancel()
    await until(lambda: job.execution.phase is Phase.ENDING)
    assert job.execution.timers[Timer.KILL] > 0
    job.execution.timers[Timer.KILL] = 1.0  # by now
    following, adopted = await restored(job)
    assert adopted.is_alone
    await until(lambda: (keeper.END_TREE, "h1-1") in following.link.orders)
    assert following.slots.used == 1


@pytest.mark.parametrize(
    ("wanted", "order"),
    [(Treatment.NONE, suspension.AS_EVER), (Treatment.STILL, suspension.STAND_STILL)],
)
async def test_the_next_lbm_reports_once_how_a_command_is_treated(host, wanted, order):
    """It is unknown what the last one had reported."""
    job, _ = await running(host)
    following, adopted = await restored(job)
    for _ in range(2):
        adopted.owner_wants(wanted)
    await until(lambda: following.link.orders)
    assert following.link.orders == [(keeper.TREAT, "h1-1", order)]


async def test_files_are_unpacked_in_their_turn(host):
    """However many workdirs exist: no more of these steps run than there are slots."""
    await running(host)
    at_once = await in_workdir(host, 2, "unpack")
    assert at_once.talk.said == [tags.REFUSED]
    in_line = await in_workdir(host, 3, "unpack", forced=True)
    assert in_line.talk.said == [tags.QUEUED]
    assert host.slots.used == 1
    exits(host)
    await until(lambda: tags.STARTED in in_line.talk.said)
    assert host.slots.used == 1


async def test_the_results_of_a_command_are_packed_whatever_is_free(host):
    await running(host)
    job = await in_workdir(host, 2, "pack")
    assert job.talk.said == [tags.STARTED]


async def test_the_steps_of_a_workdir_run_one_after_the_other(host):
    first = await in_workdir(host, 1, "pack")
    assert first.talk.said == [tags.STARTED]
    second = await in_workdir(host, 2, "pack")
    assert second.talk.said == [tags.REFUSED]
    exits(host)
    await until(lambda: tags.ENDED in first.talk.said)
    third = await in_workdir(host, 3, "pack")
    assert third.talk.said == [tags.STARTED]


async def test_of_two_simultaneous_steps_the_first_runs(host):
    host.workdirs.path_of = lambda request: b"/"
    both = [begin(host, n, workdir={"id": "h1-9", "step": "pack"})[0] for n in (1, 2)]
    await until(lambda: all(job.talk.said for job in both))
    assert [job.talk.said for job in both] == [[tags.STARTED], [tags.REFUSED]]


class Wire:
    """The stream of h1, and what it was sent."""

    def __init__(self, host):
        host.requests, host.rates = Budget(1 << 20, 1 << 20), Rates(1e9, 1e9)
        self.said = []
        self.link = AcceptedLink(AcceptedLinks(host), Stream(self.write), ("h1", "stream"))

    async def write(self, message):
        self.said += [(tag, bytes(body)) for _, tag, body in tags.unpack(message)]

    def run(self, number):
        request = lbm_pb2.RunRequest(
            job_id=f"h1-{number}", origin="h1", user="ann", argv=[b"true"], directory=b"/",
            closed_fds=6, wants_stdin=True, forced=True,
        )  # fmt: skip
        self.link.hear(tags.pack(number, tags.RUN, request.SerializeToString()))

    def flood(self, number):
        self.link.hear(tags.pack(number, tags.STDIN, bytes(EARLY_BYTES)))

    def last_reason(self):
        tag, body = self.said[-1]
        assert tag == tags.REFUSED
        return lbm_pb2.Refused.FromString(body).reason


async def test_who_sends_too_much_ahead_is_refused_before_the_command_was_looked_at(host):
    wire = Wire(host)
    wire.run(1)
    wire.flood(1)
    await until(lambda: not wire.link.jobs)
    assert [tag for tag, _ in wire.said] == [tags.REFUSED]
    assert wire.last_reason() == TOO_MUCH_AHEAD


async def test_who_sends_too_much_ahead_is_refused_while_the_command_waits(host):
    await running(host, 9)  # in the only slot
    wire = Wire(host)
    wire.run(1)
    await until(lambda: wire.said)
    wire.flood(1)
    await until(lambda: not wire.link.jobs)
    assert [tag for tag, _ in wire.said] == [tags.QUEUED, tags.REFUSED]
    assert wire.last_reason() == TOO_MUCH_AHEAD


async def test_who_sends_too_much_ahead_learns_of_the_end_of_a_command_that_is_beginning(host):
    async def spawn(order, descriptors, stopped, limit):
        return host.link.new(stopped)

    host.link.spawn = spawn
    wire = Wire(host)
    wire.run(1)
    await until(lambda: host.link.spawned)
    wire.flood(1)
    host.link.spawned[-1].begun.set_result(Forked(1, ""))
    await until(lambda: (keeper.SIGNAL, "h1-1", TERM) in host.link.orders)
    exits(host)
    await until(lambda: not wire.link.jobs)
    assert [tag for tag, _ in wire.said] == [tags.STARTED, tags.ENDED]
    assert lbm_pb2.Ended.FromString(wire.said[-1][1]).cause == "lost"
