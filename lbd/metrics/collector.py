"""Collects the answers of this host's daemons into one page, at most once a second."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lbd.local.json_client import OneQuestion
from lbd.local.json_socket import Json
from lbd.metrics.core.families import Answer, families
from lbd.metrics.core.table import LISTENER
from lbd.metrics.exposition import text_of
from lbd.text.one_line import one_line

KEPT_S = 1.0  # a page serves everybody who asks within this time
WAITS_CHARS = 100
ASK_S = 2.0  # a hung daemon must not delay the others' answers


class Collector:
    def __init__(
        self,
        runtime_dir: Path,
        daemons: Callable[[], Sequence[str]],
        own: Callable[[], Json],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`daemons`: names of those that should run here now. `own`: the metrics of the listener's
        own process."""
        self._runtime_dir = runtime_dir
        self._daemons = daemons
        self._own = own
        self._clock = clock
        self._page: tuple[float, bytes] | None = None
        self._making: asyncio.Task[bytes] | None = None
        self._unready = ""

    async def page(self) -> bytes:
        """Returns all metrics as text. Concurrent callers wait for the same page."""
        if self._page is not None and self._clock() < self._page[0] + KEPT_S:
            return self._page[1]
        if self._making is None:
            self._making = asyncio.create_task(self._make(), name="collect metrics")
        return await asyncio.shield(self._making)

    async def _make(self) -> bytes:
        try:
            began_s = self._clock()
            page = text_of(families(await self._answers()))
            self._page = began_s, page
            return page
        finally:
            self._making = None

    async def _answers(self) -> dict[str, Answer]:
        question: Json = {"op": "metrics"}
        names = self._daemons()
        asked = [
            OneQuestion(self._runtime_dir / f"{name}.sock").ask(question, ASK_S) for name in names
        ]
        found = dict(zip(names, await asyncio.gather(*asked), strict=True))
        answers: dict[str, Answer] = {name: said for name, said in found.items() if said}
        self._unready = why_unready(found)
        up = [[name, int(said is not None)] for name, said in found.items()]
        answers[LISTENER] = {**self._own(), "up": [*up, [LISTENER, 1]]}
        return answers

    async def unready(self) -> str:
        """Returns which daemons do not answer, or cannot serve, as of the last second; "" if all
        do."""
        await self.page()
        return self._unready

    async def close(self) -> None:
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)


def why_unready(found: Mapping[str, Json | None]) -> str:
    """`found`: the answer of each daemon; its `waits` says what one cannot serve without."""
    missing = [name for name, said in found.items() if said is None]
    parts = [f"no answer: {', '.join(missing)}"] if missing else []
    for name, said in found.items():
        if said and (why := said.get("waits")):
            parts.append(f"{name} waits: {one_line(str(why), WAITS_CHARS)}")
    return "; ".join(parts)
