"""The LBM's keeper over time: connects to it, replaces it while idle, restarts it, ends it."""

import asyncio
import contextlib
import logging
import time
from itertools import chain, repeat
from pathlib import Path

from lbd.config.schema import Config
from lbd.errors import LbdError, Unavailable
from lbd.keeper import protocol as keeper
from lbd.lbm.keeper_link import KeeperLink
from lbd.lbm.keeper_start import places_of
from lbd.lbm.owner.rules import InForce
from lbd.local import frames
from lbd.process.stop import Stop

log = logging.getLogger("lbd.lbm")

SOCKET = "keeper.sock"
KEEPER_S = 10.0
PAUSES_S = (0.1, 0.3, 1.0, 3.0)
STOP_TIMEOUT_S = 5.0


class KeeperWatch:
    """Holds the connection to the keeper and makes a new one when it is lost."""

    def __init__(self, config: Config, rules: InForce, stop: Stop) -> None:
        self._config, self._rules, self._stop = config, rules, stop
        self.link = KeeperLink(self._lost)
        self._gone = asyncio.Event()
        self._is_being_replaced = False

    async def connect(self) -> None:
        """Connects to the keeper. Raises LbdError."""
        path, until_s = (
            Path(self._config.host.runtime_dir) / SOCKET,
            time.monotonic() + KEEPER_S,
        )
        while True:
            try:
                await self.link.connect(path, self._config)
                break
            except Unavailable:  # `lbd keeper` is being started beside us
                if time.monotonic() > until_s or self._stop.is_set():
                    raise
                await asyncio.sleep(PAUSES_S[0])
        await self.link.send_totals(self._rules.config.limits)
        # The keeper holds the ports while their daemons are away.
        places = frames.field(keeper.PLACES, places_of(self._config).encode())
        await self.link.say(frames.pack(keeper.PORTS, places))
        log.info("keeper pid=%d containment=%s", self.link.pid, self.link.about.containment)

    async def end(self) -> None:
        if self.link.alive:
            await self.link.send(keeper.QUIT)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await self._gone.wait()
        self.link.close()

    def own_socket(self) -> tuple[str, ...]:
        """The name of its socket, if we start the keeper: otherwise the next keeper may listen
        there by now."""
        return () if self._config.daemons.keeper == "apart" else (SOCKET,)

    async def replace(self) -> None:
        """Replaces a keeper that is idle, since it may be an older version. Raises LbdError."""
        self._is_being_replaced = True
        await self.end()
        self._is_being_replaced = False
        self._gone.clear()
        await self.connect()

    def _lost(self) -> None:
        """Handles the loss of the keeper. The kernel (PDEATHSIG) and we end its jobs; a new keeper
        takes the next ones."""
        if self._stop.is_set() or self._is_being_replaced:
            self._gone.set()
            return
        log.warning("the keeper has ended; starting a new one")
        self._restarting = asyncio.create_task(self._start_again(), name="restart the keeper")

    async def _start_again(self) -> None:
        """Tries for as long as it takes: what keeps a keeper away, such as a full disk, may go."""
        said = ""
        for pause_s in chain(PAUSES_S, repeat(PAUSES_S[-1])):
            if self._stop.is_set():
                return
            try:
                await self.connect()
                if self.link.pid == self.link.lost_pid:  # it is alive, and ends what it had
                    await self.replace()
                self.link.adopted()
                return
            except (LbdError, OSError) as problem:
                if str(problem) != said:
                    said = str(problem)
                    log.warning("no keeper yet: %s", said)
            await asyncio.sleep(pause_s)
