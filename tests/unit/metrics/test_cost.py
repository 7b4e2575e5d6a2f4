"""The cost of metrics if nobody asks for them: nothing."""

import asyncio
import subprocess
import sys

from lbd.cli.daemons.up import daemons_of
from lbd.config.schema import Config
from lbd.process import own_figures
from lbd.process.own_figures import OwnFigures

MODULES = ("lim", "lbm", "dispatcher", "up")


def test_no_daemon_imports_the_library():
    names = ", ".join(f"lbd.cli.daemons.{name}" for name in MODULES)
    program = f"import sys, {names}; print([m for m in sys.modules if 'prometheus' in m])"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"


def test_no_process_is_started():
    assert "metrics" not in daemons_of(Config(), keeper=False)


async def test_no_timer_runs_until_the_first_question_and_none_long_after(monkeypatch):
    monkeypatch.setattr(own_figures, "TICK_S", 0.005)
    monkeypatch.setattr(own_figures, "UNASKED_S", 0.02)
    figures = OwnFigures()
    assert not figures.is_measuring
    first = figures.answer()
    assert first["process_resident_memory_bytes"] > 1 << 20
    assert first["process_open_fds"] > 2
    assert figures.is_measuring
    async with asyncio.timeout(10):
        while figures.is_measuring:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert sum(figures.answer()["event_loop_lag_seconds"]["counts"]) >= 1
