"""LBMs are restarted at any moment, even while they resume what an earlier restart has left."""

import asyncio
import itertools
import random

import pytest

from lbd.lbm.link import wire as tags
from tests.unit.lbm.handover.two_lbms import Clock, Command, World

PAIRS = (("h1", "h2"), ("h2", "h1"))
RESTARTS = (("h1",), ("h2",), ("h1", "h2"), ("h2", "h1"))
GAPS_S = (0.0, 0.1, 0.3)
LATER_S = [0.01 * step for step in range(25)]  # streams are resumed within this time


def run(seed, restarts):
    """Returns what each end of each command was sent, what it received, and what was given up."""
    with asyncio.Runner(loop_factory=Clock) as runner:
        return runner.run(restarted(random.Random(seed), restarts))


async def restarted(rng, restarts):
    """`restarts` names the hosts to restart, each with its delay in seconds after the last."""
    world = World(rng)
    commands = [Command(world, number, *pair) for number, pair in enumerate(PAIRS)]
    for command in commands:
        await command.start()
    said = {command.name: ([], []) for command in commands}

    async def talk():
        for number in itertools.count():
            for command in commands:
                for numbers, is_said in zip(said[command.name], command.say(number), strict=True):
                    numbers.extend([number] * is_said)
            await asyncio.sleep(rng.uniform(0, 0.05))

    talking = asyncio.create_task(talk())
    for after_s, hosts in restarts:
        await asyncio.sleep(after_s)
        await world.restart(*hosts)
    talking.cancel()
    await asyncio.sleep(5)
    heard = {command.name: command.heard() for command in commands}
    return said, heard, list(world.ended)


@pytest.mark.parametrize("seed", range(40))
def test_every_message_arrives_once_and_in_order(seed):
    rng = random.Random(seed)
    restarts = [
        (rng.uniform(0, rng.choice(GAPS_S)), rng.choice(RESTARTS))
        for _ in range(rng.randint(1, 4))
    ]  # fmt: skip
    said, heard, ended = run(seed, restarts)
    assert heard == said
    assert ended == []


@pytest.mark.parametrize("second", [("h1",), ("h2",)])
@pytest.mark.parametrize("first", RESTARTS)
def test_an_lbm_is_restarted_while_it_resumes_what_another_restart_has_left(first, second):
    for later_s in LATER_S:
        said, heard, ended = run(1, [(0.1, first), (later_s, second)])
        assert heard == said, f"{later_s:g} s later"
        assert ended == [], f"{later_s:g} s later"


def test_a_batch_within_a_batch_ends_nothing_when_the_lbm_is_restarted():
    """It was kept unread for the next LBM, which could not read it and ended."""

    async def poisoned():
        world = World(random.Random(1))
        command, other = Command(world, 1, "h1", "h2"), Command(world, 2, "h2", "h1")
        await command.start()
        await other.start()
        for _ in range(2):  # sent together
            command.there().put(tags.BATCH, b"\5")
        await asyncio.sleep(1)
        await world.restart("h1")
        await asyncio.sleep(5)
        return [tag for tag, _ in command.talk()._inbox], other.heard(), world.ended

    with asyncio.Runner(loop_factory=Clock) as runner:
        assert runner.run(poisoned()) == ([tags.BATCH] * 2, ([], []), [])


def test_a_workdir_is_handed_over_with_the_conversation_that_made_it_alone():
    """A host asked for those of others as an LBM wrote itself down, before the names were checked,
    and so had them removed under the commands that ran there."""

    async def hijacked():
        world = World(random.Random(1))
        command = Command(world, 1, "h2", "h1")
        await command.start()
        world.lbms["h1"].host.admit = never
        talk = await world.lbms["h2"].streams.converse("h1", "")
        talk.put(tags.WORKDIR, command.request)
        await asyncio.sleep(1)
        await world.restart("h1")
        await asyncio.sleep(5)
        talk.hang_up(0)
        await asyncio.sleep(5)
        return world.ended, command.there() is not None

    async def never(*_):
        await asyncio.get_running_loop().create_future()

    with asyncio.Runner(loop_factory=Clock) as runner:
        assert runner.run(hijacked()) == ([], True)
