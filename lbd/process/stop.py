"""How a daemon is told to end, and tells that it has let go of everything."""

import asyncio
from collections.abc import Callable


def notify_nobody() -> None:
    """Stands in where no service manager has started us."""


def report_to_nobody(_line: str) -> bool:
    """Likewise."""
    return False


class Stop(asyncio.Event):
    """That the daemon is to end; perhaps to make way for another, which goes on where it was."""

    def __init__(
        self,
        leaving: Callable[[], None] = notify_nobody,
        report: Callable[[str], bool] = report_to_nobody,
    ) -> None:
        """`leaving` lets who has started us know that the next one may begin; `report` passes it
        a line, and is false if there is nobody."""
        super().__init__()
        self.makes_way = False
        self.leaving = leaving
        self.report = report
