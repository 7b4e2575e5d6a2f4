"""How a daemon is asked to end, and how it reports that it has released everything."""

import asyncio
from collections.abc import Callable


def notify_nobody() -> None:
    """Used if no service manager has started us."""


def report_to_nobody(_line: str) -> bool:
    """Used if no service manager has started us."""
    return False


class Stop(asyncio.Event):
    """Asks a daemon to end, perhaps to make way for another that continues where it was."""

    def __init__(
        self,
        leaving: Callable[[], None] = notify_nobody,
        report: Callable[[str], bool] = report_to_nobody,
    ) -> None:
        """`leaving` tells our starter that the next daemon may start; `report` passes it a line and
        returns False if there is no starter."""
        super().__init__()
        self.makes_way = False
        self.leaving = leaving
        self.report = report
