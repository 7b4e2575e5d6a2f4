"""Whether this host still has its place in the cluster, for a daemon that must not act without it.

A backup of a lost host may have been restored on another machine, which then has the host's name
and a new certificate; the old one is revoked. If the lost machine comes back, only the other hosts
know that. What they say counts only as the list of revocations that the authority has signed, so no
host can take another one's place away by lying; one that says nothing, or an old list, is no worse
than one that is off.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from random import Random

from lbd.errors import LbdError
from lbd.net.tls import LOOK_S, Tls
from lbd.net.trust_calls import TrustCalls

ASKED_AT_ONCE = 16
LATER_S = 1.0  # how long the other answers may take after the first
AGAIN_S = 1.0
Hosts = Callable[[], dict[str, str]]  # the other hosts' LIMs: name -> "address:port"


class Standing:
    def __init__(self, tls: Tls, calls: TrustCalls, hosts: Hosts) -> None:
        self._tls = tls
        self._calls = calls
        self._hosts = hosts
        self._rng = Random()
        self._ended = asyncio.Event()
        tls.when_revoked(self._revoked)

    @property
    def is_out(self) -> bool:
        """Whether this host is revoked."""
        return self._tls.is_revoked(self._tls.identity)

    def ends(self, ended: asyncio.Event) -> None:
        """Sets `ended` as soon as this host is revoked."""
        self._ended = ended

    def _revoked(self, _hosts: set[str]) -> None:
        if self.is_out:
            self._ended.set()

    async def readmitted(self, stop: asyncio.Event) -> None:
        """Waits until this host has joined again, or `stop` is set."""
        while self.is_out and not stop.is_set():
            await wait(stop, LOOK_S)

    async def confirmed(
        self, wait_s: float, stop: asyncio.Event, waits: Callable[[Collection[str]], None]
    ) -> bool:
        """Waits until another host has said what it knows of revocations. Returns False if none has
        for `wait_s`, or `stop` is set; True if no other host was ever met. `waits` is called once,
        with some of the hosts that do not answer."""
        deadline_s, said = time.monotonic() + wait_s, False
        while not stop.is_set():
            hosts = self._hosts()
            asked = self._rng.sample(sorted(hosts), min(ASKED_AT_ONCE, len(hosts)))
            if not asked or await self._hear({name: hosts[name] for name in asked}):
                return True
            if time.monotonic() >= deadline_s:
                return False
            if not said:
                waits(asked)
                said = True
            await wait(stop, AGAIN_S)
        return False

    async def _hear(self, hosts: dict[str, str]) -> bool:
        """Returns whether one of the hosts has answered."""

        async def ask(name: str, target: str) -> bool:
            try:
                await self._calls.exchange(name, target)
            except LbdError:
                return False
            return True

        tasks = {asyncio.create_task(ask(*host), name="ask") for host in hosts.items()}
        waiting, heard = set(tasks), False
        try:
            while waiting and not heard:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                heard = any(task.result() for task in done)
            if waiting:  # one of them may know more
                await asyncio.wait(waiting, timeout=LATER_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return heard


async def wait(stop: asyncio.Event, wait_s: float) -> None:
    try:
        async with asyncio.timeout(wait_s):
            await stop.wait()
    except TimeoutError:
        return
