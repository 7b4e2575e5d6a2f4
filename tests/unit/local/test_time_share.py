"""How much of our time the messages of one host may take."""

import asyncio

import pytest

from lbd.local.rate_limit import BLOCKED_S_MAX, BURST_S, SHARE, TimeShares


class Clocks:
    """The wall clock and this thread's CPU time."""

    def __init__(self):
        self.now_s = self.used_s = 0.0

    def work(self, seconds):
        self.now_s += seconds
        self.used_s += seconds

    def wait(self, seconds):
        self.now_s += seconds


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def shares(clocks):
    return TimeShares(clock_s=lambda: clocks.now_s, cpu_s=lambda: clocks.used_s)


def wait_s(shares, clocks, host):
    return shares.turn_s(host, clocks.now_s, 1e9, 0.0)


def test_who_has_had_half_of_the_time_waits_and_others_do_not(shares, clocks):
    for _ in range(10):
        with shares.spending("h2"):
            clocks.work(1.0)
    waits_s = wait_s(shares, clocks, "h2")
    assert 10.0 / (clocks.now_s + waits_s + BURST_S / SHARE) <= SHARE
    assert waits_s < 10.0
    assert wait_s(shares, clocks, "h3") == 0


def test_what_waits_for_a_disk_counts_too(shares, clocks):
    """As with settings that are saved at once: each costs little CPU time, and a write to a disk
    for which everything else waits."""
    for _ in range(1000):
        with shares.spending("h2"):
            clocks.work(0.001)
            clocks.wait(0.02)
    assert wait_s(shares, clocks, "h2") > 10


def test_a_busy_machine_counts_for_little(shares, clocks):
    with shares.spending("h2"):
        clocks.work(0.001)
        clocks.wait(60.0)
    clocks.wait(1.0)
    assert wait_s(shares, clocks, "h2") == 0
    assert BLOCKED_S_MAX < BURST_S


async def test_of_many_that_wait_one_after_the_other_is_heard(shares, clocks):
    """They are the streams of a host: all would continue at once, each with as much as it likes."""
    shares.turn_s("h2", clocks.now_s, 1e9, BURST_S)
    heard = []

    async def hear(number):
        await shares.turn("h2")
        with shares.spending("h2"):
            clocks.work(1.0)
        heard.append(number)

    tasks = [asyncio.create_task(hear(number)) for number in range(3)]
    clocks.wait(0.01)  # the first may continue by now
    while not heard:  # noqa: ASYNC110  # nobody says so
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(heard) == 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
