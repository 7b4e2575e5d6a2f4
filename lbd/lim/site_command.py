"""Runs `load.site_command` repeatedly, and keeps it within its bounds.

One run at a time, `load.site_period_s` apart, without input and in its own session. It is killed
with all of its session after `load.site_timeout_s`, when it has printed too much, and when the LIM
stops. It also dies with a LIM that is killed, if `setpriv` is available. What it has started in
another session may outlive it; a run does not wait for that beyond `load.site_timeout_s`.
"""

import asyncio
import logging
import os
import signal
import subprocess
import time
from contextlib import suppress

from lbd.config.schema import LoadConfig
from lbd.load import site
from lbd.text.one_line import one_line

log = logging.getLogger(__name__)

KILLED_WITHIN_S = 1.0
ENDED_POLL_S = 0.01
ERROR_BYTES_MAX = 1 << 20  # of standard error, in one run
SAID_BYTES = 500  # so many of these are kept
PIPE_BYTES = 1 << 16  # as much as a pipe holds
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C"}


def bound_to_us() -> tuple[str, ...]:
    """Returns a command prefix that makes it end with us, if there is a way."""
    import shutil  # imported here with all that it imports, since few hosts have such a command

    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()


class SiteCommand:
    """`fault` is what was wrong with the last run; "" if nothing was."""

    def __init__(self, load: LoadConfig, host: str) -> None:
        self.load = load
        self.loads = site.SiteLoads(load)
        self.fault = ""
        self.tried = not load.site_command  # it has succeeded or failed at least once
        self._environment = ENVIRONMENT | {"LBD_HOST": host}
        self._failures = 0
        self._reason = ""  # of `fault`, without what the command said of it
        self._said = ""  # the last line that the last run printed on standard error
        self._argv = (*bound_to_us(), *load.site_command) if load.site_command else ()

    async def run(self) -> None:
        """Runs until cancelled; returns at once without a command."""
        while self.load.site_command:
            try:
                self.loads.said(site.loads_in(await self._output()), time.monotonic())
            except (ValueError, OSError) as problem:
                self._failed(str(problem))
            else:
                self._worked()
            self.tried = True
            await asyncio.sleep(site.pause_s(self.load, self._failures))

    def _start(self) -> subprocess.Popen[bytes]:
        """Starts the command without asyncio, which forks under gRPC's threads and now and then
        crashes with a segmentation fault.

        This is vfork and exec, so it has started or failed before anything else can happen.
        """
        return subprocess.Popen(
            self._argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, cwd="/", env=self._environment,
        )  # fmt: skip

    async def _output(self) -> bytes:
        """Returns the output of one run. Raises ValueError with what was wrong, OSError if it
        cannot be started."""
        self._said = ""
        process = self._start()
        words = LastWords(process)
        try:
            async with asyncio.timeout(self.load.site_timeout_s) as limit:
                await words.hear(limit)
                output = await read_bounded(process)
                if len(output) <= site.OUTPUT_BYTES_MAX:
                    await until_ended(process.pid)
        except TimeoutError:
            if words.are_too_many:
                what = f"printed more than {ERROR_BYTES_MAX} bytes on standard error"
            else:
                what = f"took longer than {self.load.site_timeout_s:g} s"
            raise ValueError(what) from None
        finally:
            words.pause()
            await put_an_end_to(process)
            self._said = words.last_line()
        if process.returncode and len(output) <= site.OUTPUT_BYTES_MAX:
            raise ValueError(f"failed with exit status {process.returncode}")
        return output

    def _failed(self, reason: str) -> None:
        self._failures += 1
        self.fault = f"{reason}: {self._said}" if self._said else reason
        if reason != self._reason:
            what = f"load.site_command {self.load.site_command[0]}: {self.fault}"
            log.warning("%s; its last values are used until they are too old", what)
        self._reason = reason

    def _worked(self) -> None:
        if self.fault:
            log.info("load.site_command %s works again", self.load.site_command[0])
        self.fault, self._reason, self._failures = "", "", 0


class LastWords(asyncio.Protocol):
    """The end of what a command prints on standard error. It is read all the time, so that the
    command never waits for that, until it is too much: then its time is over."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        self._pipe = process.stderr
        self._heard, self._heard_bytes = b"", 0
        self._transport: asyncio.ReadTransport | None = None
        self._limit: asyncio.Timeout | None = None

    @property
    def are_too_many(self) -> bool:
        return self._heard_bytes > ERROR_BYTES_MAX

    async def hear(self, limit: asyncio.Timeout) -> None:
        loop, self._limit = asyncio.get_running_loop(), limit
        self._transport, _ = await loop.connect_read_pipe(lambda: self, self._pipe)

    def data_received(self, data: bytes) -> None:
        self._keep(data)
        if self.are_too_many:
            self.pause()
            if self._limit is not None and not self._limit.expired():
                self._limit.reschedule(0.0)

    def pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def _keep(self, data: bytes) -> None:
        self._heard = (self._heard + data)[-SAID_BYTES:]
        self._heard_bytes += len(data)

    def last_line(self) -> str:
        """Reads what is left, and closes the pipe."""
        if self._transport is not None:
            with suppress(OSError, ValueError):  # nothing more is there, or it has ended
                self._keep(os.read(self._pipe.fileno(), PIPE_BYTES))
            self._transport.close()
        lines = self._heard.decode(errors="replace").split("\n")
        return next((said for said in map(one_line, reversed(lines)) if said), "")


async def read_bounded(process: subprocess.Popen[bytes]) -> bytes:
    """Returns all that the command prints, or one byte more than allowed. Closes the pipe."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), process.stdout
    )
    output = b""
    try:
        while len(output) <= site.OUTPUT_BYTES_MAX:
            part = await reader.read(site.OUTPUT_BYTES_MAX + 1 - len(output))
            if not part:
                break
            output += part
    finally:
        transport.close()
    return output


async def until_ended(pid: int) -> None:
    """Waits for a child of ours without reaping it, so that its pid remains that of its process
    group."""
    while not has_ended(pid):  # noqa: ASYNC110  # it has closed its output and is about to end
        await asyncio.sleep(ENDED_POLL_S)


def has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


async def put_an_end_to(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and its whole session. What KILL does not end at once is reaped later."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(KILLED_WITHIN_S):
            await until_ended(process.pid)
    process.poll()
