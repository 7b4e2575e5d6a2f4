"""How lim.sock handles drains, revoked hosts and changes, on every host of the cluster."""

import asyncio
import pwd
import shutil
import time

import pytest

from lbd.lim.daemon import Lim
from lbd.lim.socket import Operations
from lbd.local.json_socket import Refusal
from lbd.net.lim_network import Traffic
from tests.unit.lim.daemons import LBM, NOBODY, PLACE, Daemon
from tests.unit.until import until


async def test_drain_of_another_host_is_confirmed_and_kept(two, tmp_path, caplog):
    caplog.set_level("INFO", "lbd.lim")
    one, other = two
    assert await one.ask({"op": "drain", "host": "h2", "drained": True}) == {
        "host": "h2",
        "drained": True,
    }
    assert "drained, as h1 asks" in caplog.messages  # its certificate says so, nothing else
    assert (tmp_path / "h2/state/drained").exists()
    assert one.lim.state.table.state("h2", 0)[0].value == "drained"
    assert (await other.ask(LBM))["drained"] is True
    assert Lim(other.lim.config, None).state.drained  # after a restart
    await one.ask({"op": "drain", "host": "h2", "drained": False})
    assert not (tmp_path / "h2/state/drained").exists()


async def shown_drained(daemon, host):
    """Returns the drained hosts as `lbctl status` shows them there."""
    hosts = (await daemon.ask({"op": "status"}))["hosts"]
    return next(one["drained"] for one in hosts if one["name"] == host)


async def test_all_hosts_know_who_drained_a_host_when_and_why(two):
    one, other = two
    began_s = time.time()
    drain = {"op": "drain", "host": "h2", "drained": True}
    await one.ask({**drain, "reason": "disk\nsdb"})
    await until(lambda: "h2" in other.lim.state.settings.drain_notes)
    note = await shown_drained(one, "h2")
    assert note == await shown_drained(other, "h2") == (await other.ask(LBM))["drain"]
    assert (note["reason"], note["by"]) == ("disk sdb", f"{pwd.getpwuid(0).pw_name}@h1")
    assert began_s <= note["since"] <= time.time()
    again = Lim(one.lim.config, None).state  # after a restart, even of all LIMs
    assert again.settings.drain_notes == one.lim.state.settings.drain_notes
    # Once more: the first note stays, unless there is another reason.
    assert (await one.ask(drain))["before"] == note
    assert await shown_drained(one, "h2") == note
    assert (await one.ask({**drain, "reason": "fan"}))["before"] == note
    assert (await shown_drained(one, "h2"))["reason"] == "fan"
    await one.ask({**drain, "drained": False})
    await until(lambda: not other.lim.state.settings.drain_notes)
    assert not one.lim.state.settings.drain_notes
    # h1 knows h2's own state from what h2 sends next.
    await until(lambda: one.lim.state.table.state("h2", time.monotonic())[0].value != "drained")
    assert await shown_drained(one, "h2") is None


async def test_a_command_that_a_drain_keeps_out_is_told_who_drained_and_why(two):
    """It read `drained`, without who and why."""
    one, _ = two
    for host, more, begins in (
        ("h1", {"wanted": "h1"}, "h1 cannot take it: drained by "),
        ("h2", {"must_leave": True}, "no other host can take it now (h2: drained by "),
    ):
        await one.ask({"op": "drain", "host": host, "drained": True, "reason": "disk sdb"})
        with pytest.raises(Refusal) as caught:
            await one.ask({**PLACE, **more})
        assert str(caught.value).startswith(begins)
        assert "@h1 since " in str(caught.value)
        assert str(caught.value).rstrip(")").endswith(": disk sdb")


async def test_a_drain_of_this_host_is_recorded_too(two):
    one, other = two
    await one.ask({"op": "drain", "host": "h1", "drained": True, "reason": "move"})
    await until(lambda: "h1" in other.lim.state.settings.drain_notes)
    assert (await shown_drained(one, "h1"))["reason"] == "move"


async def test_the_note_on_a_host_that_is_down_is_kept(two):
    one, other = two
    other.network.silent = True
    drain = {"op": "drain", "host": "h2", "drained": True, "reason": "repair"}
    assert (await one.ask(drain))["when_back"] is True
    assert (await shown_drained(one, "h2"))["reason"] == "repair"
    other.network.silent = False
    await until(lambda: other.lim.state.drained)
    assert (await shown_drained(other, "h2"))["reason"] == "repair"


async def test_a_change_reports_on_how_many_hosts_it_is_in_force(two):
    one, other = two
    changed = await one.ask({"op": "algorithm", "name": "LOWEST"})
    assert changed == {
        "algorithm": "LOWEST", "was": "GLOBAL", "hosts": 2, "changed": 2, "missing": [],
        "down": [],
    }  # fmt: skip
    assert other.lim.state.in_force.lim.algorithm == "LOWEST"
    assert await one.ask({"op": "algorithm"}) == {"algorithm": "LOWEST"}
    other.network.silent = True
    changed = await one.ask({"op": "param", "name": "min_gain", "value": 0.25})
    assert (changed["was"], changed["value"]) == (0.1, 0.25)
    assert (changed["hosts"], changed["changed"], changed["missing"]) == (2, 1, ["h2"])
    assert changed["down"] == []  # as far as is known yet


async def test_a_host_that_is_down_counts_among_those_that_a_change_is_for(two):
    one, other = two
    other.stop.set()
    await other.task
    await until(lambda: one.lim.state.table.entries["h2"].left)
    changed = await one.ask({"op": "param", "name": "min_gain", "value": 0.2})
    assert (changed["hosts"], changed["changed"]) == (2, 1)
    assert changed["missing"] == changed["down"] == ["h2"]


async def test_a_host_counts_as_down_once_it_is_known_to_be_revoked(two):
    """Its last sample is not old yet. A later sample means that the host has joined again."""
    one, _ = two
    entry = one.lim.state.table.entries["h2"]
    learnt_s = max(entry.heard_at_s, entry.sampled_at_s)
    one.operations = Operations(
        one.lim, Traffic(), lambda name, heard_s: name == "h2" and heard_s <= learnt_s
    )

    async def shown():
        hosts = (await one.ask({"op": "status"}))["hosts"]
        return {host["name"]: (host["state"], host["revoked"]) for host in hosts}

    entry.heard_at_s = entry.sampled_at_s = learnt_s
    assert await shown() == {"h1": ("up", False), "h2": ("down", True)}
    one.operations.has_new_certificate = lambda name: name == "h2"
    assert await shown() == {"h1": ("up", False), "h2": ("down", False)}
    entry.sampled_at_s = learnt_s + 0.001
    assert await shown() == {"h1": ("up", False), "h2": ("up", False)}


async def test_drain_of_a_host_that_does_not_answer(two):
    one, other = two
    other.network.silent = True
    drain = {"op": "drain", "host": "h2", "drained": True}
    assert await one.ask(drain) == {"host": "h2", "drained": True, "when_back": True}
    again = Lim(one.lim.config, None).state  # after a restart, even of all LIMs
    assert again.table.drains == {"h2": True}
    assert (0, "") < again.settings.version < one.lim.state.settings.version
    other.network.silent = False
    await until(lambda: other.lim.state.drained)


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_machine_inherits_the_drain_of_the_one_it_replaces(two, tmp_path, leaves):
    """The replaced one was up when it was drained, and knew; but its disk is lost. A host that has
    left is not drained."""
    one, other = two
    drain = {"op": "drain", "host": "h2", "drained": True, "reason": "disk"}
    await one.ask(drain)
    await until(lambda: "h2" in other.lim.state.settings.drain_notes)
    if leaves:
        assert await other.ask({**drain, "drained": False, "leaves": True})
        assert other.lim.state.drained, "it takes nothing until it has gone"
        await until(lambda: not one.lim.state.settings.drain_notes)
    await asyncio.sleep(0.01)  # that drain is older than the new machine's LIM
    other.stop.set()
    await other.task
    shutil.rmtree(tmp_path / "h2/state")
    new = Daemon(other.lim.config, other.network._exchange)
    await new.start()
    if leaves:
        await until(lambda: new.lim.state.settings.version == one.lim.state.settings.version)
    else:
        await until(lambda: new.lim.state.drained)
        assert (await shown_drained(new, "h2"))["reason"] == "disk"
        await one.ask({**drain, "drained": False})
        await until(lambda: new.lim.state.settings.version == one.lim.state.settings.version)
    assert not new.lim.state.drained
    new.stop.set()
    await new.task


async def replaced_from_copy(host, copy, state_dir):
    """Returns the machine that replaces a host, with what `lbctl restore` puts back of a copy."""
    await asyncio.sleep(0.01)  # what happened is older than the new machine's LIM
    host.stop.set()
    await host.task
    shutil.rmtree(state_dir)
    state_dir.mkdir()
    (state_dir / "settings.json").write_bytes(copy)
    new = Daemon(host.lim.config, host.network._exchange)
    await new.start()
    return new


@pytest.mark.parametrize(
    ("before", "since", "is_drained"),
    [
        ("none", "drained", True),
        ("drained", "unchanged", True),
        ("drained", "undrained", False),
        ("drained", "again", True),
        ("none", "unchanged", False),
        ("none", "drained while away", True),
    ],
)
async def test_a_machine_with_a_backup_is_drained_if_the_old_one_was(
    two, tmp_path, before, since, is_drained
):
    """The copy has none of its host's own files, and settings older than those of the others."""
    one, other = two
    drain, state_dir = {"op": "drain", "host": "h2", "drained": True}, tmp_path / "h2/state"
    await one.ask({"op": "algorithm", "name": "LOWEST", "save": True})
    if before == "drained":
        await one.ask({**drain, "reason": "before"})
    await until(lambda: other.lim.state.settings == one.lim.state.settings)
    copy = (state_dir / "settings.json").read_bytes()
    if since in ("undrained", "again"):
        await one.ask({**drain, "drained": False})
    if since in ("drained", "again"):
        await one.ask({**drain, "reason": "disk"})
    if since == "drained while away":
        other.network.silent = True
        assert (await one.ask({**drain, "reason": "disk"}))["when_back"]
    await one.ask({"op": "param", "name": "min_gain", "value": 0.5})
    new = await replaced_from_copy(other, copy, state_dir)
    await until(lambda: new.lim.state.settings.version == one.lim.state.settings.version)
    assert new.lim.state.drained is is_drained
    await until(lambda: one.lim.state.table.entries["h2"].drained is is_drained)
    assert Lim(new.lim.config, None).state.drained is is_drained, "after a restart, too"
    assert bool(await shown_drained(one, "h2")) is is_drained
    await one.ask({**drain, "drained": False})
    await until(lambda: new.lim.state.settings.version == one.lim.state.settings.version)
    assert not new.lim.state.drained
    new.stop.set()
    await new.task


async def test_a_host_restored_alone_is_drained_if_it_was_in_the_copy(two, tmp_path):
    one, other = two
    await one.ask({"op": "drain", "host": "h2", "drained": True, "reason": "disk"})
    await until(lambda: "h2" in other.lim.state.settings.drain_notes)
    (tmp_path / "h2/state/drained").unlink()
    assert Lim(other.lim.config, None).state.drained


async def test_ended_drains_are_known_everywhere_and_after_a_restart(two):
    one, other = two
    drain = {"op": "drain", "host": "h2", "drained": True}
    await one.ask({**drain, "reason": "disk"})
    await one.ask({**drain, "reason": "fan"})
    await one.ask(drain)  # as it was
    await until(lambda: other.lim.state.settings == one.lim.state.settings)
    await other.ask({**drain, "drained": False})
    await other.ask({**drain, "drained": False})
    await until(lambda: len(one.lim.state.settings.past_drains) == 2)
    found = (await one.ask({"op": "drains"}))["drains"]
    assert [(past["host"], past["reason"]) for past in found] == [("h2", "disk"), ("h2", "fan")]
    assert found[0]["until"] == found[1]["since"] <= found[1]["until"] <= time.time()
    assert {past["by"].partition("@")[0] for past in found} == {"root"}
    assert {past["until_by"].partition("@")[0] for past in found} == {"root"}
    assert Lim(other.lim.config, None).state.settings.past_drains == (
        one.lim.state.settings.past_drains
    )
    await one.ask({**drain, "reason": "move"})
    now = (await one.ask({"op": "drains"}))["drains"][2]
    assert (now["reason"], now["until"], now["until_by"]) == ("move", None, None)


async def test_saved_settings_survive_a_restart_of_all_lims(two):
    one, other = two
    saved = await one.ask({"op": "algorithm", "name": "LOWEST", "save": True})
    assert (saved["saved"], saved["changed"]) == ("LOWEST", 2)
    await one.ask({"op": "param", "name": "smoothing_s", "value": 9, "save": True})
    await one.ask({"op": "algorithm", "name": "NOLB"})
    await one.ask({"op": "param", "name": "min_gain", "value": 0.5})
    assert (await other.ask({"op": "algorithm"}))["saved"] == "LOWEST"
    assert (await other.ask({"op": "param", "name": "smoothing_s"}))["saved"] == 9.0
    again = Lim(other.lim.config, None)
    lim, load = again.state.in_force.lim, again.state.in_force.load
    assert (lim.algorithm, lim.min_gain, load.smoothing_s) == ("LOWEST", 0.1, 9.0)
    assert again.sampler.config.smoothing_s == 9.0


async def test_the_settings_in_force_can_be_saved_and_all_of_them_reset(two):
    one, other = two
    await one.ask({"op": "param", "name": "min_gain", "value": 0.5})
    await one.ask({"op": "param", "name": "min_gain", "save": True})
    await one.ask({"op": "algorithm", "name": "NOLB", "save": True})
    assert Lim(other.lim.config, None).state.in_force.lim.min_gain == 0.5
    reset = await other.ask({"op": "param", "name": "min_gain", "reset": True})
    assert (reset["was"], reset["value"], "saved" in reset) == (0.5, 0.1, False)
    reset = await other.ask({"op": "algorithm", "reset": True})
    assert (reset["was"], reset["algorithm"], "saved" in reset) == ("NOLB", "GLOBAL", False)
    again = Lim(one.lim.config, None).state
    assert (again.in_force.lim.min_gain, again.in_force.lim.algorithm) == (0.1, "GLOBAL")


async def test_a_reset_first_ends_a_trial_and_then_drops_what_is_saved(two):
    one, other = two
    await one.ask({"op": "algorithm", "name": "LOWEST", "save": True})
    await one.ask({"op": "param", "name": "min_gain", "value": 0.5, "save": True})
    for _ in range(2):
        await one.ask({"op": "algorithm", "name": "NOLB"})
        await one.ask({"op": "param", "name": "min_gain", "value": 0.7})
        ended = await other.ask({"op": "algorithm", "reset": True})
        assert (ended["algorithm"], ended["saved"]) == ("LOWEST", "LOWEST")
        assert ended["trial_ended"]
        ended = await other.ask({"op": "param", "name": "min_gain", "reset": True})
        assert (ended["value"], ended["saved"], ended["trial_ended"]) == (0.5, 0.5, True)
    dropped = await one.ask({"op": "algorithm", "reset": True})
    assert (dropped["algorithm"], dropped["dropped"]) == ("GLOBAL", "LOWEST")
    await one.ask({"op": "param", "name": "min_gain", "value": 0.7})
    dropped = await one.ask({"op": "param", "name": "min_gain", "reset": True, "whole": True})
    assert (dropped["value"], "saved" in dropped) == (0.1, False)


async def test_a_user_can_neither_save_nor_reset(two):
    one, _ = two
    for more in ({"op": "algorithm"}, {"op": "param", "name": "min_gain"}):
        for what in ("save", "reset"):
            with pytest.raises(Refusal) as caught:
                await one.ask({**more, what: True}, NOBODY)
            assert caught.value.code == "denied"


async def test_who_changes_something_hears_that_it_was_not_saved(two):
    """Only the log said so, and the change was thought to outlive a restart."""
    one, _ = two
    one.lim.kept.path.mkdir()
    drain = {"op": "drain", "host": "h1", "reason": "fan"}
    for request in (drain, {"op": "algorithm", "name": "LOWEST", "save": True}):
        assert str(one.lim.kept.path) in (await one.ask(request))["unsaved"]
    one.lim.kept.path.rmdir()
    assert "unsaved" not in await one.ask(drain | {"drained": False})
