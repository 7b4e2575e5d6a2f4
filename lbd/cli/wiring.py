"""Where the outside world is chosen: the event loop, the log, the way a daemon is told to stop."""

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable

import uvloop

from lbd.errors import LbdError

DaemonMain = Callable[[asyncio.Event], Awaitable[None]]


def set_up_log(program: str) -> None:
    """One line a record on stderr, beginning with the program's name."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format=f"{program}: %(message)s", force=True
    )


def run_daemon(program: str, main: DaemonMain) -> int:
    """Run `main(stop)` until it returns; TERM and INT set `stop`, and only that ends it well."""
    set_up_log(program)

    async def body() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await main(stop)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(body())
    except BaseExceptionGroup as group:
        raise told(group) or group from None
    return 0


def told(group: BaseExceptionGroup[BaseException]) -> LbdError | None:
    """The first error of ours in what a task group raised: it has the line for the person."""
    for problem in group.exceptions:
        if isinstance(problem, LbdError):
            return problem
        if isinstance(problem, BaseExceptionGroup) and (found := told(problem)):
            return found
    return None
