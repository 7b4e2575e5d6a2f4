"""A host that joined finds its cluster again even if the host that it joined by is gone."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from lbd.config.schema import ClusterConfig, LimConfig
from lbd.lim import known_hosts
from lbd.lim.core.membership import GREETED_FIRST, GREETED_LATER
from lbd.lim.known_hosts import NAME, KnownHosts
from lbd.local.json_socket import Refusal
from lbd.model import HostId
from lbd.sim.faults.lim_hosts import lim_state, member
from tests.unit.lim.daemons import config, running, up
from tests.unit.until import until

ADDRESSES = {"a": "127.0.0.1", "b": "127.0.0.2", "c": "127.0.0.3"}


def joining(tmp_path, name):
    """Returns a host whose configuration names a's address and no other host."""
    target = "" if name == "a" else f"{ADDRESSES['a']}:{LimConfig().port}"
    own = config(tmp_path, name, hosts=())
    cluster = ClusterConfig(name="test", join=target)
    return replace(own, cluster=cluster, host=replace(own.host, address=ADDRESSES[name]))


async def test_hosts_meet_again_though_the_one_they_joined_by_is_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(known_hosts, "LOOK_S", 0.01)
    a, b, c = (joining(tmp_path, name) for name in ADDRESSES)
    path = tmp_path / "b/state" / NAME
    async with running(a, b, c) as daemons:
        follow = KnownHosts(path.parent, "test").follow(daemons[1].lim.state)
        task = asyncio.create_task(follow)
        await until(lambda: path.exists() and '"c"' in path.read_text())
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert path.stat().st_mode & 0o777 == 0o600
    async with running(b, c) as daemons:
        await until(lambda: up(daemons[0], "c") and up(daemons[1], "b"))
    path.unlink()
    async with running(b, c) as daemons:
        await asyncio.sleep(0.3)
        assert not up(daemons[0], "c")


async def test_a_host_that_is_stopped_soon_after_joining_has_recorded_the_others(tmp_path):
    a, b = (joining(tmp_path, name) for name in "ab")
    path = tmp_path / "b/state" / NAME
    async with running(a, b) as daemons:
        task = asyncio.create_task(KnownHosts(path.parent, "test").follow(daemons[1].lim.state))
        await until(lambda: up(daemons[1], "a"))
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert '"a"' in path.read_text()


async def test_a_forgotten_host_is_not_tried_again_at_the_next_start(tmp_path, monkeypatch):
    """The last host of a cluster tried one that was lost and forgotten at each start."""
    monkeypatch.setattr(known_hosts, "LOOK_S", 0.01)
    b, path = joining(tmp_path, "b"), tmp_path / "b/state" / NAME
    path.parent.mkdir(parents=True)
    both = known_hosts.written([member("a"), member("c")], "test")
    for forgotten, left in (("a", ["c"]), ("c", []), (None, [])):
        if forgotten == "a":
            path.write_bytes(both)
        async with running(b) as (daemon,):
            known = KnownHosts(path.parent, "test")
            task = asyncio.create_task(known.follow(daemon.lim.state))
            if forgotten:
                assert (await daemon.ask({"op": "forget", "host": forgotten}))["missing"] == []
                with pytest.raises(Refusal, match=f'no host "{forgotten}"'):
                    await daemon.ask({"op": "forget", "host": forgotten})
            await until(lambda known=known, left=left: names(known) == left)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        assert names(known) == left


def names(known):
    return [one.name for one in known.resumed()]


def greeted(actions):
    return [action.to for action in actions]


def test_remembered_hosts_are_greeted_in_turn_until_one_answers_and_then_once_more():
    names = [HostId(f"h{number}") for number in range(1, GREETED_FIRST + 20)]
    state = lim_state("x", remembered=names)
    said = greeted(state.membership.first_hellos())
    said += greeted(state.membership.greet_again(0.0, state._rng))
    assert said == names[: GREETED_FIRST + GREETED_LATER]
    assert state.membership.first_hellos()[0].body.wants_members
    state.membership.members_from([member(names[0])], 0.0)
    state.membership.hello_answered(names[0], names[0])
    later = [greeted(state.membership.greet_again(0.0, state._rng)) for _ in range(10)]
    # The host that is known by now is greeted like every host that has not said Hello itself.
    told = [name for names_said in later for name in names_said if name != names[0]]
    assert sorted(told) == sorted(names[1:])


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", '{"cluster": "test"}', '{"cluster": "test", "hosts": [["h1"]]}',
        '{"cluster": "test", "hosts": [["h1", "127.0.0.1", 0, 7902]]}',
        '{"cluster": "test", "hosts": [["h 1", "127.0.0.1", 7901, 7902]]}',
        '{"cluster": "test", "hosts": [[1, 2, 3, 4]]}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_file_is_ignored_with_a_line(tmp_path, caplog, text):
    (tmp_path / NAME).write_text(text)
    assert KnownHosts(tmp_path, "test").resumed() == []
    assert [message[:7] for message in caplog.messages] == ["ignored"]


def test_hosts_of_another_cluster_are_ignored(tmp_path, caplog):
    (tmp_path / NAME).write_bytes(known_hosts.written([member("h1")], "test"))
    assert KnownHosts(tmp_path, "other").resumed() == []
    (found,) = KnownHosts(tmp_path, "test").resumed()
    assert (found.name, found.lim_target, found.incarnation) == ("h1", "10.0.0.2:7901", 0)
    assert caplog.messages == []
