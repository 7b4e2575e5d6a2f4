"""The site's own load command, with real processes."""

import asyncio
import os
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lbd.config.schema import LoadConfig
from lbd.lim.site_command import ERROR_BYTES_MAX, SiteCommand
from tests.unit.until import until

# A run that is cancelled while it is being killed is reaped later, as `put_an_end_to` says.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <function Popen.__del__:pytest.PytestUnraisableExceptionWarning"
)


@asynccontextmanager
async def running(script, timeout_s=5.0):
    load = LoadConfig(
        site_command=("sh", "-c", script), site_period_s=0.2, site_timeout_s=timeout_s
    )
    command = SiteCommand(load, "h7")
    task = asyncio.create_task(command.run())
    yield command
    task.cancel()
    await asyncio.wait([task])


async def test_it_is_run_repeatedly(tmp_path):
    (tmp_path / "h7").write_text("gpu 1\n")
    async with running(f"cat {tmp_path}/$LBD_HOST") as command:
        await until(lambda: command.loads.at(time.monotonic()) == {"gpu": 1.0})
        (tmp_path / "h7").write_text("gpu 2\n")
        await until(lambda: command.loads.at(time.monotonic()) == {"gpu": 2.0})
    assert (command.fault, command.tried) == ("", True)


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("echo gpu x", 'printed "gpu x", which is not a name and a number of at least 0'),
        ("exit 3", "failed with exit status 3"),
        ("echo a >&2; echo 'no  gpu' >&2; echo >&2; exit 3", "failed with exit status 3: no gpu"),
        ("yes no gpu | head -100000 >&2; exit 4", "failed with exit status 4: no gpu"),
        ("yes gpu 1", "printed more than 4096 bytes"),
        ("yes no gpu >&2", f"printed more than {ERROR_BYTES_MAX} bytes on standard error: no gpu"),
        ("yes a >&2 & wait", f"printed more than {ERROR_BYTES_MAX} bytes on standard error: a"),
        ("setsid sleep 10 >&2 & exit 6", "failed with exit status 6"),
        ("exec >&-; sleep 100", "took longer than 0.3 s"),
        ("sleep 100 & wait", "took longer than 0.3 s"),
    ],
)
async def test_a_failure_is_one_line_each_time_it_changes(script, fault, caplog):
    async with running(script, 0.3 if "took longer" in fault else 600.0) as command:
        await until(lambda: command.tried)
        assert command.fault == fault
        assert command.loads.at(time.monotonic()) == {}
        await until(lambda: command._failures > 1)
    said = [record.getMessage() for record in caplog.records]
    assert [one for one in said if "site_command" in one] == [
        f"load.site_command sh: {fault}; its last values are used until they are too old"
    ]


async def test_a_failure_that_is_told_in_other_words_each_time_is_one_line(tmp_path, caplog):
    async with running(f"echo . >>{tmp_path}/n; wc -c <{tmp_path}/n >&2; exit 3") as command:
        await until(lambda: command._failures > 2)
        assert command.fault.startswith("failed with exit status 3: ")
    assert sum("site_command" in record.getMessage() for record in caplog.records) == 1


async def test_a_missing_program():
    load = LoadConfig(site_command=("/no/such",), site_period_s=0.2)
    command = SiteCommand(load, "h7")
    task = asyncio.create_task(command.run())
    await until(lambda: command.tried)
    task.cancel()
    await asyncio.wait([task])
    assert command.fault


async def test_nothing_of_it_is_left_when_the_lim_stops(tmp_path):
    pids = tmp_path / "pids"
    async with running(f"sleep 100 & echo $$ $! >{pids}.new; mv {pids}.new {pids}; wait"):
        await until(pids.exists)
    for pid in map(int, pids.read_text().split()):
        await until(lambda pid=pid: is_gone(pid))


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return not os.path.exists(f"/proc/{pid}")
