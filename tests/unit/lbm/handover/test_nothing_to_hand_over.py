"""What the journal says if a handover fails."""

from types import SimpleNamespace

import pytest

from lbd.lbm.handover import saving


@pytest.mark.parametrize(
    ("outbound", "inbound", "level"),
    [({}, [], "INFO"), ({"h1-1": 0}, [], "WARNING"), ({}, ["a"], "WARNING")],
)
async def test_a_failed_handover_is_an_alarm_only_if_it_ends_commands(
    outbound, inbound, level, monkeypatch, caplog
):
    async def fails(*_):
        raise TimeoutError

    monkeypatch.setattr(saving, "leave", fails)
    caplog.set_level("INFO", "lbd.lbm")
    links = SimpleNamespace(host=SimpleNamespace(executions=inbound))
    await saving.hand_over(links, SimpleNamespace(commands=outbound), None, None, lambda _: None)
    assert [one.levelname for one in caplog.records] == [level]
