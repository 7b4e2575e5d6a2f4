"""`lim_network` without gRPC, for LIMs of one process: the same contract, every message encoded.

Both pass tests/unit/net/test_network_contract.py. For virtual time, see `virtual_cluster`.
"""

import asyncio
from collections.abc import Callable

from lbd.errors import PeerError, Unavailable
from lbd.lim.core.messages import Message
from lbd.net import convert

Answer = Callable[[Message], Message]


class Exchange:
    """Where the networks of one test meet: which network serves each "address:port"."""

    def __init__(self) -> None:
        self.served: dict[str, MemoryNetwork] = {}


class MemoryNetwork:
    def __init__(self, own_name: str, exchange: Exchange) -> None:
        self.own_name = own_name
        self.silent = False  # accepts messages and never answers, like a stopped process
        self._exchange = exchange
        self._cuts: set[str] = set()
        self._answer: Answer | None = None

    async def serve(self, address: str, port: int, answer: Answer) -> None:
        self._answer = answer
        self._exchange.served[f"{address}:{port}"] = self

    async def ask(self, name: str, target: str, message: Message, timeout_s: float) -> Message:
        """Returns the reply. Raises Unavailable if none comes in time, PeerError if it is
        malformed."""
        other = self._exchange.served.get(target)
        data = convert.encode(message)
        await asyncio.sleep(0)
        if other is None or other._answer is None:
            raise Unavailable(f"{name or target}: nobody listens")
        if name in self._cuts or self.own_name in other._cuts:
            raise Unavailable(f"{name}: cut off")
        if other.silent:
            await asyncio.sleep(timeout_s)
            raise Unavailable(f"{name or target}: no answer within {timeout_s:g} s")
        try:
            received = convert.decode(data)
        except PeerError as problem:
            raise PeerError(f"{name or target}: {problem}") from None
        return convert.decode(convert.encode(other._answer(received)))

    async def cut(self, names: set[str]) -> None:
        self._cuts = set(names)

    async def close(self) -> None:
        self._answer = None
