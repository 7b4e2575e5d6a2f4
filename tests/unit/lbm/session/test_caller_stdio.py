"""A client's descriptors are requested once, and kept for another start if there may be one."""

import asyncio
import os

import pytest

from lbd.lbm.link.user_threads import UserThreads
from lbd.lbm.session.client import CallerStdio
from lbd.lbm.session.request import ClientRequest
from tests.unit.lbm.handover.passing import handed_over

ALL_BUT_OUTPUT = ClientRequest([b"true"], closed_fds=5)


class Caller:
    """It gives its end of a pipe when it is asked."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        self.asked = 0
        self.stdio = new(self)

    def ask(self):
        self.asked += 1
        self.stdio.came(ALL_BUT_OUTPUT, [self.writer])


def new(caller=None):
    threads = UserThreads().of(os.geteuid())
    return CallerStdio(threads, os.getuid(), caller.ask if caller else lambda: None)


@pytest.fixture
async def caller():
    caller = Caller()
    yield caller
    os.close(caller.reader)


async def until_ended(reader):
    """Waits until nobody has the other end."""
    os.set_blocking(reader, True)
    return await asyncio.wait_for(asyncio.to_thread(os.read, reader, 10), 20)


async def test_they_are_requested_once_and_taken_as_often_as_they_may_be_needed(caller):
    taken = [await caller.stdio.take(keep=True) for _ in range(2)]
    assert caller.asked == 1
    assert len({ends.stdout for ends in taken}) == 2
    for ends in taken:
        os.close(ends.stdout)
    caller.stdio.close()
    assert await until_ended(caller.reader) == b""


async def test_descriptors_taken_for_good_belong_to_the_taker_alone(caller):
    ends = await caller.stdio.take(keep=False)
    caller.stdio.close()
    os.write(ends.stdout, b"out")
    os.close(ends.stdout)
    assert await until_ended(caller.reader) == b"out"


async def test_after_a_restart_they_are_available_for_another_start(caller):
    """A client that has given them away is not asked for them again."""
    os.close((await caller.stdio.take(keep=True)).stdout)
    following = new()
    following.restore(handed_over(caller.stdio.left()), are_taken=True)
    caller.stdio.close()
    assert following.left().came is not None, "yet another LBM has them, too"
    ends = await asyncio.wait_for(following.take(keep=False), 20)
    assert (ends.stdin, ends.stderr) == (None, None)
    os.write(ends.stdout, b"out")
    os.close(ends.stdout)
    assert await until_ended(caller.reader) == b"out"


async def test_descriptors_that_a_command_has_are_not_taken_twice(caller):
    ends = await caller.stdio.take(keep=False)
    left = caller.stdio.left()
    assert (left.asked, left.came) == (True, None)
    following = new()
    following.restore(left, are_taken=True)
    assert following.have_come
    assert following.left().came is None
    os.close(ends.stdout)


async def test_as_many_arrive_as_are_open(caller):
    with pytest.raises(ValueError, match="received 2 descriptors instead of 1"):
        caller.stdio.came(ALL_BUT_OUTPUT, [caller.writer, caller.writer])
    assert not caller.stdio.have_come
    os.close(caller.writer)
