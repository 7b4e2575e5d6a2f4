"""Settings of lbd.toml that apply to all hosts: set at one LIM, saved by every other."""

import pytest

from lbd.lim.daemon import Lim
from lbd.lim.settings_file import SettingsFile
from lbd.local.json_socket import Refusal
from tests.unit.lim.daemons import LBM, NOBODY, config, running
from tests.unit.until import until


def share(**values):
    return {"op": "share", "values": {f"dispatch.{key}": one for key, one in values.items()}}


async def test_they_are_saved_everywhere_and_survive_a_restart_of_all_lims(two):
    one, other = two
    assert (await other.ask(LBM))["queue"] is None
    reply = await one.ask(share(host="h2", standby=[], lease_s=20))
    assert (reply["hosts"], reply["missing"]) == (2, [])
    saved = {"dispatch.host": '"h2"', "dispatch.standby": "[]", "dispatch.lease_s": "20"}
    assert (await other.ask({"op": "settings"}))["saved"] == saved
    assert (await other.ask(LBM))["queue"] == ("h2",)  # what its LBM uses
    again = Lim(other.lim.config, None)
    assert again.state.settings.saved == saved
    await other.ask(share(lease_s=None))
    await until(lambda: "dispatch.lease_s" not in one.lim.state.settings.saved)
    assert (await one.ask({"op": "settings"}))["queue"] == ("h2",)


async def test_every_follower_is_told_of_each_change(two):
    one, other = two
    heard = []
    other.lim.kept.follow = lambda settings: heard.append(settings.saved)
    await one.ask(share(host="h2"))
    assert heard == [{"dispatch.host": '"h2"'}]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (share(host="h7"), 'no host "h7"'),
        (share(store="postgresql://u:secret@db/x"), "is set per host"),
        (share(lease_s="soon"), "dispatch.lease_s"),
        ({"op": "share", "values": {"lim.min_gain": None}}, "cannot be set for the whole cluster"),
    ],
)
async def test_an_impossible_setting_is_refused_in_one_line_and_changes_nothing(
    two, request_, says
):
    with pytest.raises(Refusal, match=says):
        await two[0].ask(request_)
    assert two[0].lim.state.settings.counter == 0


async def test_only_administrators_may_share_settings(two):
    with pytest.raises(Refusal, match="only root and administrators"):
        await two[0].ask(share(host="h2"), NOBODY)


async def test_their_number_is_bounded(two):
    one, _ = two
    full = {f"lim.x{number}": "1" for number in range(128)}
    one.lim.state.settings.saved.update(full)
    with pytest.raises(Refusal, match="128 settings are already saved"):
        await one.ask(share(host="h2"))


async def test_nothing_in_a_damaged_file_is_followed(two, tmp_path):
    file = SettingsFile(tmp_path / "h1/state")
    file.path.write_text('{"counter": 5, "drains": {}, "saved": {"dispatch.host": 7}}')
    assert file.settings().saved == {}


async def test_a_host_alone_gets_no_queue_and_keeps_no_assignment(tmp_path):
    """No dispatcher could start, and the assignment went with the host into its next cluster."""
    async with running(config(tmp_path, "h1", ("h1",)), alone=True) as (one,):
        with pytest.raises(Refusal, match="needs certificates: run `lbctl init` or `lbctl join`"):
            await one.ask(share(host="h1", standby=[]))
        assert one.lim.state.settings.counter == 0
