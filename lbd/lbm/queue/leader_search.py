"""Finds the dispatcher that leads, among the hosts that may."""

import asyncio
import contextlib
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import NamedTuple

import grpc
import grpc.aio

from lbd.config.schema import Config
from lbd.errors import Unavailable
from lbd.lbm.session.cluster import Cluster
from lbd.model import target_of
from lbd.net.peers import Peers
from lbd.net.question import ChannelMayClose

RECONNECT_S = 3.0  # longer than gRPC's longest pause before it tries again (transport.py)


class NobodyLeads(Unavailable):
    """No dispatcher can be reached."""


class Leading(NamedTuple):
    host: str
    channel: grpc.aio.Channel  # ready, to its dispatcher
    is_news: bool = False  # several were asked, and this one is not doubted


class LeaderSearch:
    def __init__(self, config: Config, peers: Peers, cluster: Cluster) -> None:
        self._config, self._peers, self._cluster = config, peers, cluster
        self._searches: dict[tuple[object, ...], asyncio.Task[Leading]] = {}  # under way

    async def find(self, hosts: Sequence[str], last: str, doubted: str) -> Leading:
        """`last`: who led. `doubted`: a host whose dispatcher failed to answer. Raises NobodyLeads,
        Unavailable."""
        usual = last if len(hosts) > 1 else hosts[0]
        if len(hosts) == 1 or last != doubted:
            try:
                channel = await self._channel_to(usual)
                wakes = len(hosts) == 1  # of several, only one that listens is connected to
                if channel.get_state(try_to_connect=wakes) == grpc.ChannelConnectivity.READY:
                    return Leading(usual, channel)
            except Unavailable:
                if len(hosts) == 1:
                    raise
        return await self._found_for_all(tuple(hosts), doubted)

    async def _found_for_all(self, hosts: tuple[str, ...], doubted: str) -> Leading:
        """Searches once for all who wait: each search opens connections of its own. Raises
        NobodyLeads, Unavailable."""
        wanted = hosts, doubted
        if (search := self._searches.get(wanted)) is None:
            seeking = self._seek(hosts, doubted) if len(hosts) > 1 else self._only(hosts[0])
            search = self._searches[wanted] = asyncio.create_task(seeking, name="seek a leader")
            search.add_done_callback(partial(self._over, wanted))
        try:
            return await asyncio.shield(search)
        except Unavailable as problem:
            raise copy(problem) from None  # else its traceback keeps the frames of all who wait

    def _over(self, wanted: tuple[object, ...], search: "asyncio.Task[Leading]") -> None:
        del self._searches[wanted]
        search.cancelled() or search.exception()  # even if nobody waits any more

    async def _only(self, host: str) -> Leading:
        ready: dict[str, grpc.aio.Channel] = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(self._config.lbm.connect_timeout_s, RECONNECT_S)):
                await self._reach(host, ready)
        if not ready:
            raise NobodyLeads(f"the dispatcher on {host} cannot be reached; see `lbctl doctor`")
        return Leading(host, ready[host])

    async def _seek(self, hosts: Sequence[str], doubted: str) -> Leading:
        """Only the leader listens; but one that hangs still does, so a doubted host comes last."""
        ready: dict[str, grpc.aio.Channel] = {}
        trying = [asyncio.create_task(self._reach(host, ready), name=host) for host in hosts]
        try:
            async with asyncio.timeout(self._config.lbm.connect_timeout_s):
                for reached in asyncio.as_completed(trying):
                    await reached
                    if ready.keys() - {doubted}:
                        break
        except TimeoutError:
            pass
        finally:
            for task in trying:
                task.cancel()
            await asyncio.gather(*trying, return_exceptions=True)
        if not ready:
            raise NobodyLeads(f"no dispatcher is leading at the moment ({', '.join(hosts)})")
        found = min(ready, key=lambda host: host == doubted)
        return Leading(found, ready[found], is_news=found != doubted)

    async def _reach(self, host: str, ready: dict[str, grpc.aio.Channel]) -> None:
        """Tries a bare connection first: gRPC itself pauses for long after a refused one."""
        try:
            address, _, port = (await self._target(host)).rpartition(":")
            _, writer = await asyncio.open_connection(address.strip("[]"), int(port))
            writer.close()
            channel = await self._channel_to(host)
        except (Unavailable, OSError):
            return
        with contextlib.suppress(Unavailable), ChannelMayClose():
            channel.get_state(try_to_connect=True)
            await channel.channel_ready()
            ready[host] = channel

    async def _channel_to(self, host: str) -> grpc.aio.Channel:
        """Raises Unavailable."""
        return self._peers.channel(host, await self._target(host))

    async def _target(self, host: str) -> str:
        """Returns "address:port" of the host's dispatcher. Raises Unavailable."""
        address = (await self._cluster.lbm_of(host)).rpartition(":")[0].strip("[]")
        return target_of(address, self._config.dispatch.port)
