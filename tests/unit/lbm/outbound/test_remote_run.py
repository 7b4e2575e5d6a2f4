"""Whether an ended command could restart elsewhere, judged by the data that passed through us."""

import asyncio
import os
from types import SimpleNamespace

import pytest

from lbd.errors import LostContact
from lbd.lbm.core.pauses import Pauses
from lbd.lbm.link import wire
from lbd.lbm.link.conversation import FEW_BYTES, READ_AT_ONCE, Stream
from lbd.lbm.link.user_threads import StdFds
from lbd.lbm.link.window import EACH_BYTES, budget_of_windows
from lbd.lbm.outbound import remote_command
from lbd.lbm.outbound.remote_command import RemoteCommand
from lbd.lbm.outbound.remote_run import SHOWN_BYTES
from lbd.local.rate_limit import TimeShares
from lbd.net.gen import lbm_pb2
from tests.unit.lbm.outbound.far_host import FarHost, run_on, with_an_output
from tests.unit.until import until

ENDED = lbm_pb2.Ended(exit_status=0, cause="evicted").SerializeToString()


async def ended(given=b"", printed=b""):
    """Runs to an end after reading and printing this much."""
    far = FarHost()
    run = run_on(far)
    await run.start(lbm_pb2.RunRequest(job_id="1"))
    reading, writing = os.pipe()
    shown, printing = os.pipe()
    run.attach(StdFds(reading, printing, None))
    following = asyncio.create_task(run.follow(None))
    if given:
        os.write(writing, given)
        await asyncio.wait_for(far.has_input.wait(), 10)
    if printed:
        far.says(wire.STDOUT, printed)
    far.says(wire.ENDED, ENDED)
    await following
    assert far.typed == given
    run.close()
    os.close(writing)
    assert os.read(shown, 100) == printed
    os.close(shown)
    return run


@pytest.mark.parametrize(
    ("given", "printed", "untouched"),
    [(b"", b"", True), (b"in", b"", False), (b"", b"out", False), (b"in", b"out", False)],
)
async def test_a_command_that_has_read_or_printed_is_not_untouched(given, printed, untouched):
    assert (await ended(given, printed)).is_untouched is untouched


class Listener:
    """Each event that it handles takes a tenth of a second."""

    def __init__(self):
        self.now_s, self.heard = 0.0, []

    def clock_s(self):
        return self.now_s

    def stands_still(self, why):
        self.heard.append(why)
        self.now_s += 0.1

    def input_taken(self):
        pass


@pytest.mark.parametrize("before", [wire.STARTED, wire.QUEUED])
async def test_what_a_host_says_counts_by_what_it_takes_and_others_have_their_turn(before):
    """Everything that had arrived from a host, perhaps 49 MiB, was handled in one step, however
    long that took, and the host was read on at once: everybody's commands here had to wait."""
    far, listener, others = FarHost(), Listener(), []
    far.shares = TimeShares(clock_s=listener.clock_s, cpu_s=listener.clock_s)

    async def other():
        while True:
            others.append(len(listener.heard))
            await asyncio.sleep(0)

    run = run_on(far)
    await run.start(lbm_pb2.RunRequest(job_id="1"))
    for _ in range(3 * READ_AT_ONCE):
        far.says(before)
    for _ in range(2 * READ_AT_ONCE):
        far.says(wire.STILL, b"why")
    far.says(wire.ENDED, ENDED)
    beside = asyncio.create_task(other())
    await asyncio.wait_for(run.follow(listener), 10)
    beside.cancel()
    assert len(listener.heard) == 2 * READ_AT_ONCE
    assert any(0 < heard < 2 * READ_AT_ONCE for heard in others), "between two portions"
    assert far.shares.turn_s("h2", listener.now_s, float("inf"), 0.0) > 0.0, "it has to wait"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (b"1 in use of 1", "waiting for a slot on h2: 1 in use of 1"),
        (b"\xff" * (SHOWN_BYTES << 4), "waiting for a slot on h2: " + "\ufffd" * 999 + "…"),
    ],
)
async def test_a_command_that_waits_for_a_slot_says_so(monkeypatch, said, line):
    monkeypatch.setattr(remote_command, "REMARK_AFTER_S", 0.01)
    far, lines = FarHost(), []
    run = run_on(far)

    async def waits(message):
        far.says(wire.QUEUED, said)

    far.take = waits
    far.stream = Stream(waits)
    command = object.__new__(RemoteCommand)
    command.run, command._place, command._pauses = run, ("h2", "h2:1"), Pauses(are_wanted=True)
    command._client, command._remark = SimpleNamespace(warn=lines.append), None
    asked = run.start(lbm_pb2.RunRequest(job_id="1"), waits=command._waits)
    answer = asyncio.create_task(command._answered(asked))
    await until(lambda: lines)
    answer.cancel()
    assert len(lines[0]) < 1100
    assert lines == [line]


async def test_of_a_text_without_end_a_line_is_read():
    far, listener = FarHost(), Listener()
    run = run_on(far)
    await run.start(lbm_pb2.RunRequest(job_id="1"))
    far.says(wire.STILL, b"\xff" * (SHOWN_BYTES << 4))
    far.says(wire.ENDED, ENDED)
    await run.follow(listener)
    assert listener.heard == ["\ufffd" * 999 + "…"]


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize(
    ("end", "fault"),
    [
        ({"user_cpu_s": float("nan")}, "cpu_s"),
        ({"system_cpu_s": float("inf")}, "cpu_s"),
        ({"user_cpu_s": -5.0, "system_cpu_s": 6.0}, "cpu_s"),
        ({"user_cpu_s": 1e300}, "cpu_s"),
        ({"exit_status": -(2**31)}, "exit_status"),  # lbrun exited with 0 for this failure
        ({"exit_status": 256}, "exit_status"),
        ({"signal": -9}, "signal"),
        ({"signal": 65, "exit_status": 300}, "exit_status, signal"),
        ({"cause": "\x1b[2J"}, "cause"),
    ],
)
async def test_an_end_that_no_command_can_have_is_none(end, fault, is_early):
    far = FarHost()
    run = run_on(far)

    async def runs(message):
        far.says(wire.STARTED)
        if is_early:
            far.says(wire.ENDED, lbm_pb2.Ended(**end).SerializeToString())

    far.stream = Stream(runs)
    await run.start(lbm_pb2.RunRequest(job_id="1"))
    told = pytest.raises(LostContact, match=f"protocol error from h2: its end: {fault}$")
    if is_early:
        with told:
            run.ended_already()
        return
    far.says(wire.ENDED, lbm_pb2.Ended(**end).SerializeToString())
    with told:
        await run.follow(None)


async def test_the_largest_figures_of_an_end_are_believed():
    far = FarHost()
    run = run_on(far)
    await run.start(lbm_pb2.RunRequest(job_id="1"))
    end = lbm_pb2.Ended(exit_status=255, signal=64, cause="signalled", user_cpu_s=1e11)
    far.says(wire.ENDED, end.SerializeToString())
    assert await run.follow(None) == end


async def test_what_a_host_sends_about_a_workdir_fills_no_memory():
    """Nobody reads on once there is a workdir: 49 MiB were kept of each."""
    far = FarHost()
    run = run_on(far)
    await run.start(lbm_pb2.WorkdirRequest(id="h1-1"), wire.WORKDIR)
    talk = far.stream.conversations[1]
    for _ in range(9):
        far.says(wire.STDOUT, bytes(1 << 20))
    assert sum(len(body) for _, body in talk._inbox) <= FEW_BYTES


@pytest.mark.parametrize("end", [(wire.ENDED, ENDED), (wire.FAILED, b"gone"), (wire.REFUSED, b"")])
async def test_what_a_host_sends_after_the_end_is_not_kept(end):
    """Where the output was read slowly, or files were fetched: 49 MiB for each command."""
    far = FarHost()
    far.starts = end[0] != wire.REFUSED
    run = run_on(far)
    starting = asyncio.create_task(run.start(lbm_pb2.RunRequest(job_id="1")))
    if far.starts:
        await starting
        starting = asyncio.create_task(run.follow(None))
    await asyncio.sleep(0)
    talk = far.stream.conversations[1]
    far.says(*end)
    await asyncio.wait((starting,))
    for _ in range(9):
        far.says(wire.STDOUT, bytes(1 << 20))
    assert not talk._inbox
    run.close()


async def test_a_host_that_sends_more_output_than_was_granted_has_lost_the_command():
    far = FarHost()
    async with with_an_output(far) as (_, following, _):
        for _ in range(3):
            far.says(wire.STDOUT, bytes(wire.FIRST_WINDOW_BYTES))
        with pytest.raises(LostContact, match="protocol error from h2: more than its stream"):
            await asyncio.wait_for(following, 10)


async def test_output_is_granted_as_it_is_read_within_the_budget_of_its_user():
    """Output that nobody read took 16 MiB for each command in the LBM where it was typed."""
    windows = budget_of_windows()
    windows.add(os.getuid(), EACH_BYTES - 3 * wire.FIRST_WINDOW_BYTES)
    far = FarHost()
    async with with_an_output(far, windows) as (_, following, shown):
        for _ in range(64):
            far.says(wire.STDOUT, bytes(wire.FIRST_WINDOW_BYTES))
            count = 0
            while count < wire.FIRST_WINDOW_BYTES:
                count += len(await asyncio.to_thread(os.read, shown, 1 << 16))
        await until(lambda: far.granted[1] == 4 * wire.FIRST_WINDOW_BYTES)
        far.says(wire.ENDED, ENDED)
        await asyncio.wait_for(following, 10)
    assert windows.held == EACH_BYTES - 3 * wire.FIRST_WINDOW_BYTES
