"""What all daemons share at run time: the event loop, the log, and how they stop."""

import asyncio
import faulthandler
import gc
import os
import signal
import time
from collections.abc import Awaitable, Callable

import uvloop

from lbd.cli.complaints import complain
from lbd.cli.daemons.journal import set_up_log
from lbd.config.schema import Config
from lbd.errors import (
    EXIT_NO_ADDRESS,
    EXIT_NOT_HERE,
    EXIT_RESTART,
    LbdError,
    NoAddress,
    NotHere,
)
from lbd.launch.rlimits import raise_descriptor_limit
from lbd.process import last_words, log_level
from lbd.process.service_manager import LEAVING, ServiceManager, has_terminal
from lbd.process.steady_threads import SteadyThreads
from lbd.process.stop import Stop

NO_ADDRESS_PAUSE_S = 5.0  # so that trying again for hours costs little
GARBAGE_THRESHOLDS = (20_000, 20, 50)

Ready = Callable[[str], None]
DaemonMain = Callable[["Stop", Ready], Awaitable[None]]


def run_daemon(program: str, config: Config, main: DaemonMain) -> int:
    """Runs `main(stop, ready)` until it returns, which must only happen after TERM or INT set
    `stop`.

    USR2 sets `stop` too, for a daemon that has nothing to hand over; another one must then start at
    once. `main` calls `ready(status)` when programs that depend on it may connect.

    A link may come up after us, and a port may be taken for a while. systemd then tries again, as
    it does not after exit status 2, so we end with another one.
    """
    # Before 0.23, uvloop's libuv uses io_uring for files and epoll_ctl unasked. The latter outlives
    # the closing of descriptors, and we gain nothing from either. Later versions leave files alone,
    # and the rest cannot be turned off there.
    os.environ.setdefault("UV_USE_IO_URING", "0")
    set_up_log(program, config.host.name)
    raise_descriptor_limit()
    faulthandler.enable()  # a watchdog ends us with ABRT; the log then shows where we hung
    manager, daemon = ServiceManager(os.environ), program.removeprefix("lbd ")

    stop = Stop(lambda: manager.notify(LEAVING), manager.report)

    def make_way() -> None:
        stop.makes_way = True
        stop.set()

    def end() -> None:
        manager.notify("STOPPING=1")
        stop.set()

    async def body() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end)
        # without a terminal HUP is no hang-up; it makes the LBM reread its rules
        if not has_terminal():
            loop.add_signal_handler(signal.SIGHUP, lambda: None)
        loop.add_signal_handler(signal.SIGUSR2, make_way)
        manager.feed_watchdog(loop)
        log_level.follow(loop, config.host.runtime_dir, config.log.level)

        def ready(status: str) -> None:
            manager.ready(status)
            last_words.forget(config.host.runtime_dir, daemon)
            look_for_garbage_seldom()

        await main(stop, ready)

    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(body())
    except (BaseExceptionGroup, LbdError) as problem:
        error = first_error(problem) if isinstance(problem, BaseExceptionGroup) else problem
        if error is not None:
            last_words.leave(config.host.runtime_dir, daemon, str(error))
        if (status := ended_by(error, program, manager)) is None:
            raise error or problem from None
        return status
    return EXIT_RESTART if stop.makes_way else 0


def ended_by(error: Exception | None, program: str, manager: ServiceManager) -> int | None:
    """Says what ended us, and returns the exit status, where nobody has to correct the
    configuration; returns None elsewhere."""
    if isinstance(error, NotHere) and manager.report("READY=1"):  # else it counts as failed
        complain(program, error)
        return EXIT_NOT_HERE
    if isinstance(error, NoAddress):
        complain(program, error)
        time.sleep(NO_ADDRESS_PAUSE_S)
        return EXIT_NO_ADDRESS
    return None


def new_loop() -> asyncio.AbstractEventLoop:
    loop = uvloop.new_event_loop()
    loop.set_default_executor(SteadyThreads())
    return loop


def look_for_garbage_seldom() -> None:
    """Objects that exist now stay for good; a job makes some objects and few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


def first_error(group: BaseExceptionGroup[BaseException]) -> LbdError | None:
    """Returns the first LbdError in a task group's exceptions, which has the message for people."""
    for problem in group.exceptions:
        if isinstance(problem, LbdError):
            return problem
        if isinstance(problem, BaseExceptionGroup) and (found := first_error(problem)):
            return found
    return None
