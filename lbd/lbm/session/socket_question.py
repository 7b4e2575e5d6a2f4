"""One question over lbm.sock (`lbctl`), and the answer to it."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial

from lbd.lbm.session.client import Attending
from lbd.local.caller import Caller
from lbd.local.json_socket import Json, reply_to
from lbd.local.long_answers import LongAnswers, encode

SEND_S = 10.0
ORDERS = ("queue.act", "command.kill", "signal", "reload", "cut")
JsonHandler = Callable[[Json, Caller], Awaitable[Json]]


@dataclass(frozen=True, slots=True)
class SocketQuestion:
    question: Json
    caller: Caller
    sock: socket.socket

    async def is_answered(
        self,
        answer: JsonHandler,
        turns: LongAnswers,
        gone: Callable[[], Coroutine[object, object, None]],
    ) -> bool:
        """Answers it, unless its client is `gone` before: then nobody would read the answer. What
        was ordered is done all the same."""
        reply = self._reply(answer, turns)
        if "id" not in self.question or self.question.get("op") in ORDERS:
            return await reply
        attending = Attending(partial(hung_up, gone), lambda: None)
        try:
            return await attending.run(reply)
        finally:
            await attending.end()

    async def _reply(self, answer: JsonHandler, turns: LongAnswers) -> bool:
        async with turns.turn(self.caller.person, str(self.question.get("op"))):
            reply = await reply_to(self.question, answer(self.question, self.caller))
            if "id" in self.question:
                message = await encode({"id": self.question["id"], **reply})
                async with asyncio.timeout(SEND_S):
                    await asyncio.get_running_loop().sock_sendall(self.sock, message)
        return True


async def hung_up(gone: Callable[[], Coroutine[object, object, None]]) -> None:
    """Returns once the client is `gone`. One whose next frame is invalid gets its answer
    first."""
    with contextlib.suppress(ValueError):
        return await gone()
    await asyncio.get_running_loop().create_future()
