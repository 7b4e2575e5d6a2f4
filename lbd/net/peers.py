"""Channels to other hosts."""

import asyncio
from typing import TYPE_CHECKING

import grpc.aio

from lbd.errors import Unavailable
from lbd.net import release as wire
from lbd.net.transport import Options, Trust

if TYPE_CHECKING:
    from collections.abc import Collection

SPARE = 64  # channels more than two for each host that there is
PLACES = 8  # of one host: its daemons, and where they were before
RETIRED_S = 10 * 365.25 * 86400  # how long a retired channel waits for its last call to end


class Peers:
    """Warm channels by host and "address:port", and the hosts that a lab has cut off from us."""

    def __init__(self, trust: Trust, channel_options: Options) -> None:
        self.trust = trust
        self.metadata = (*trust.metadata, (wire.HEADER, wire.OWN.announcement()))
        self.cuts: set[str] = set()
        self.known: Collection[str] | None = None  # the hosts that there are, if that is known
        self._options = channel_options
        self._channels: dict[tuple[str, str], tuple[int, grpc.aio.Channel]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._closing_now: set[asyncio.Task[None]] = set()
        trust.when_revoked(self._give_up)

    def channel(self, name: str, target: str) -> grpc.aio.Channel:
        """Returns the channel to that host there. Raises Unavailable while it is cut off."""
        if name in self.cuts:
            raise Unavailable(f"{name} is cut off from here")
        generation = self.trust.generation
        made, channel = self._channels.pop((name, target), (0, None))
        if channel is not None and made != generation:
            self._close(channel, RETIRED_S)
            channel = None
        if channel is None:
            self._forget_places(name)
            self._forget_strangers()
            channel = self.trust.channel(name, target, self._options)
        self._channels[name, target] = (generation, channel)  # the last one used is last
        return channel

    def _forget_places(self, name: str) -> None:
        """Closes the channels that were used longest ago: a host says itself where it is, and may
        say something else each time."""
        known = [key for key in self._channels if key[0] == name]
        for key in known[: max(0, len(known) - PLACES + 1)]:
            self._close(self._channels.pop(key)[1], None)

    def _forget_strangers(self) -> None:
        """Closes the channels of hosts that are not known any more, once there are many: another
        host may name such, and have them forgotten again, without end."""
        if self.known is not None and len(self._channels) > SPARE + 2 * len(self.known):
            self._give_up({name for name, _ in self._channels if name} - set(self.known))

    async def cut(self, names: set[str]) -> None:
        """From now on behaves as if exactly these hosts were unreachable (the lab's `cut`)."""
        self.cuts.clear()
        self.cuts.update(names)
        self._give_up(names)
        await asyncio.gather(*self._closing_now)

    def _give_up(self, names: set[str]) -> None:
        for key in [key for key in self._channels if key[0] in names]:
            self._close(self._channels.pop(key)[1], None)

    def _close(self, channel: grpc.aio.Channel, grace_s: float | None) -> None:
        """Closes a channel: at once with all its calls, or once the last call has ended."""
        task = asyncio.create_task(channel.close(grace_s), name="close a channel")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        if grace_s is None:
            self._closing_now.add(task)
            task.add_done_callback(self._closing_now.discard)

    async def close(self) -> None:
        self._give_up({name for name, _ in self._channels})
        for task in self._closing - self._closing_now:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
