"""Ending a job of thousands of processes by portions, between which the keeper serves the others.

To read, stop and kill each of 12,000 takes a second or two. And those that are all killed at once
leave the processors to nobody else, the keeper among them, until the last has ended.

So what is done with many is a generator that yields after each portion; the keeper goes on with it
at its next turn. A job may begin others meanwhile: until nothing is left of it there is another
round, and a cgroup that can be killed as a whole is, once the many have been.

Of many the youngest die first: so most of them have a parent, which stands still, and only the
death of that makes the keeper theirs. It would look through all its living children, for each that
it reaps.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from lbd.load import cgroup, process_table
from lbd.load.process_table import TaskStat

PORTION = 100
PAUSE_S = 0.005  # from one to the next
One = TypeVar("One")


def by_portions(many: Sequence[One]) -> Iterator[Sequence[One]]:
    return (many[at : at + PORTION] for at in range(0, len(many), PORTION))


def tasks_of(pids: Iterable[int]) -> Generator[None, None, dict[int, TaskStat]]:
    """Of those that are there."""
    found: dict[int, TaskStat] = {}
    for number, portion in enumerate(by_portions(list(pids))):
        if number:
            yield
        found |= {pid: task for pid in portion if (task := process_table.task_of(pid)) is not None}
    return found


def begun_in(members: Callable[[], Iterable[int]]) -> Generator[None, None, dict[int, int]]:
    """When each member of a group began, in ticks. Another process may have its number by then, so
    those count that are members still."""
    began = yield from tasks_of(members())
    still = set(members())
    return {pid: task.started_ticks for pid, task in began.items() if pid in still}


def kill_begun(began: Mapping[int, int], leader: int = 0) -> Generator[None, None, None]:
    """Stopped first, so that no shell lives to say what became of its child. `began`: when each
    did, in ticks: another may have its number by now."""
    oldest_first = sorted(began.items(), key=lambda one: (one[0] != leader, one[1], one[0]))
    for number, order in ((signal.SIGSTOP, oldest_first), (signal.SIGKILL, oldest_first[::-1])):
        for portion in by_portions(order):
            for pid, ticks in portion:
                with contextlib.suppress(OSError):
                    process_table.send_signal(pid, ticks, number)
            if len(began) > PORTION:
                yield


def kill_group(group: str, leader: int, *, has_kill: bool) -> Generator[None, None, None]:
    """What is in a cgroup; `has_kill`: it may have a file that does so."""
    members = partial(cgroup.members, Path(group))
    has_kill = has_kill and os.path.exists(f"{group}/cgroup.kill")
    if not has_kill or len(members()) > PORTION:
        yield from kill_begun((yield from begun_in(members)), leader)
    if has_kill:
        Path(group, "cgroup.kill").write_text("1")


def at_once(steps: Generator[None, None, One]) -> One:
    """Without a pause: nobody waits, or they are few."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: One = end.value
            return found
