"""Runs `load.site_command` again and again, and sees that it stays within its bounds.

One run at a time, `load.site_period_s` apart; without input, in a session of its own; what it has
started is killed with it after `load.site_timeout_s`, when it has printed too much, and when the
LIM stops. It dies with a LIM that is killed, too, where `setpriv` is there to see to that.
"""

import asyncio
import logging
import os
import shutil
import signal
import time
from contextlib import suppress

from lbd.config import LoadConfig
from lbd.load import site

log = logging.getLogger(__name__)

KILLED_WITHIN_S = 1.0
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C"}


class SiteCommand:
    """`fault` is what was wrong with the last run, "" if nothing was."""

    def __init__(self, load: LoadConfig, host: str) -> None:
        self.load = load
        self.loads = site.SiteLoads(load)
        self.fault = ""
        self.tried = not load.site_command  # it has said or failed to say something
        self._environment = ENVIRONMENT | {"LBD_HOST": host}
        self._failures = 0
        setpriv = shutil.which("setpriv")
        bound = (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()
        self._argv = (*bound, *load.site_command)

    async def run(self) -> None:
        """Until it is cancelled. Without a command there is nothing to do."""
        while self.load.site_command:
            try:
                self.loads.said(site.loads_in(await self._output()), time.monotonic())
            except (ValueError, OSError) as problem:
                self._failed(str(problem))
            else:
                self._worked()
            self.tried = True
            await asyncio.sleep(site.pause_s(self.load, self._failures))

    async def _output(self) -> bytes:
        """Of one run. Raises ValueError with what was wrong."""
        starting = asyncio.create_task(
            asyncio.create_subprocess_exec(
                *self._argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL, start_new_session=True, cwd="/",
                env=self._environment,
            )
        )  # fmt: skip
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:  # asyncio would end the command, not what that has started
            await put_an_end_to(await starting)
            raise
        try:
            async with asyncio.timeout(self.load.site_timeout_s):
                output = await read_bounded(process)
                status = None if len(output) > site.OUTPUT_BYTES_MAX else await process.wait()
        except TimeoutError:
            raise ValueError(f"took longer than {self.load.site_timeout_s:g} s") from None
        finally:
            await put_an_end_to(process)
        if status:
            raise ValueError(f"failed with exit status {status}")
        return output

    def _failed(self, reason: str) -> None:
        self._failures += 1
        if reason != self.fault:
            what = f"load.site_command {self.load.site_command[0]}: {reason}"
            log.warning("%s; what it said before holds until it is old", what)
        self.fault = reason

    def _worked(self) -> None:
        if self.fault:
            log.info("load.site_command %s works again", self.load.site_command[0])
        self.fault, self._failures = "", 0


async def put_an_end_to(process: asyncio.subprocess.Process) -> None:
    """And to all of its session; a pipe that outlives even that is not waited for."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(KILLED_WITHIN_S):
            while process.stdout is not None and await process.stdout.read(1 << 16):
                pass
            await process.wait()


async def read_bounded(process: asyncio.subprocess.Process) -> bytes:
    """All it prints, or one byte more than it may."""
    assert process.stdout is not None
    output = b""
    while len(output) <= site.OUTPUT_BYTES_MAX:
        part = await process.stdout.read(site.OUTPUT_BYTES_MAX + 1 - len(output))
        if not part:
            break
        output += part
    return output
