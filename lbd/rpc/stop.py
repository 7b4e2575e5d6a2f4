"""How a daemon is told to end, and tells that it has let go of everything."""

import asyncio
from collections.abc import Callable


def nobody_is_told() -> None:
    """Where nothing has started us that asks."""


class Stop(asyncio.Event):
    """That the daemon is to end; perhaps to make way for another, which goes on where it was."""

    def __init__(self, leaving: Callable[[], None] = nobody_is_told) -> None:
        """`leaving`: tells who has started us that the next one may begin."""
        super().__init__()
        self.makes_way = False
        self.leaving = leaving
