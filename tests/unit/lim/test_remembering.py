import asyncio
from contextlib import suppress

import pytest

from lbd.lim.remembering import NAME, Remembering, resumed
from lbd.lim.socket import Operations
from lbd.local.json_socket import Refusal
from lbd.net.lim_network import Traffic
from tests.unit.lim.daemons import NOBODY, config, running
from tests.unit.until import until

QUESTION = {"op": "loads", "span": "month", "hosts": ["h1", "nowhere"]}


def known(reply, host):
    return [point for point in reply["loads"][host] if point is not None]


async def test_loads_outlive_a_lim_and_every_user_may_ask_for_them(tmp_path):
    async with running(config(tmp_path), alone=True) as (one,):
        await until(lambda: one.lim.state.table.entries["h1"].sample is not None)
        remembering = Remembering(one.lim.state, tmp_path)
        task = asyncio.create_task(remembering.run())
        await until(lambda: remembering.loads.lines()[1:])
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
        again = Operations(one.lim, Traffic(), past_loads=resumed(tmp_path / NAME))
        reply = await again.handle(QUESTION, NOBODY)
    assert len(known(reply, "h1")) == 1
    assert reply["loads"]["nowhere"] == []
    assert reply["step_s"] == 3600.0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"span": "year"}, "no span"),
        ({"hosts": ["h1"] * 51}, "50 names"),
        ({"hosts": "h1"}, "50 names"),
    ],
)
async def test_an_invalid_question_is_refused(tmp_path, wrong, says):
    async with running(config(tmp_path), alone=True) as (one,):
        with pytest.raises(Refusal, match=says):
            await one.ask({**QUESTION, **wrong})


async def test_each_unusable_file_is_one_line(tmp_path, caplog):
    path = tmp_path / NAME
    path.write_text("{}\n")
    async with running(config(tmp_path), alone=True) as (one,):
        remembering = Remembering(one.lim.state, tmp_path)
        assert "another release" in caplog.messages[-1]
        path.unlink()
        path.mkdir()
        caplog.clear()
        for _ in range(3):
            remembering.write([])
    (line,) = (text for text in caplog.messages if "past" in text)
    assert "cannot save" in line
