"""Where the outside world is chosen: the event loop, the log, the way a daemon is told to stop."""

import asyncio
import faulthandler
import os
import signal
from collections.abc import Awaitable, Callable

import uvloop

from lbd.cli.journal import set_up_log
from lbd.config import Config
from lbd.errors import LbdError
from lbd.rpc.service_manager import ServiceManager, has_terminal
from lbd.supervise import EXIT_RESTART

Ready = Callable[[str], None]
DaemonMain = Callable[[asyncio.Event, Ready], Awaitable[None]]


def run_daemon(program: str, config: Config, main: DaemonMain) -> int:
    """Run `main(stop, ready)` until it returns; TERM and INT set `stop`, only that ends it well.

    So does USR2, for whoever has nothing to hand over; then another is to be started at once.
    `main` calls `ready(status)` when whoever depends on it may come.
    """
    set_up_log(program, config.host.name)
    faulthandler.enable()  # a watchdog ends us with ABRT: then the log says where we hung
    manager = ServiceManager(os.environ)

    restarting = False

    def make_way(stop: asyncio.Event) -> None:
        nonlocal restarting
        restarting = True
        stop.set()

    def end(stop: asyncio.Event) -> None:
        manager.tell("STOPPING=1")
        stop.set()

    async def body() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end, stop)
        if not has_terminal():  # then it is no hang-up; the LBM reads its rules again
            loop.add_signal_handler(signal.SIGHUP, lambda: None)
        loop.add_signal_handler(signal.SIGUSR2, make_way, stop)
        manager.feed_watchdog(loop)
        await main(stop, manager.ready)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(body())
    except BaseExceptionGroup as group:
        raise told(group) or group from None
    return EXIT_RESTART if restarting else 0


def told(group: BaseExceptionGroup[BaseException]) -> LbdError | None:
    """The first error of ours in what a task group raised: it has the line for the person."""
    for problem in group.exceptions:
        if isinstance(problem, LbdError):
            return problem
        if isinstance(problem, BaseExceptionGroup) and (found := told(problem)):
            return found
    return None
