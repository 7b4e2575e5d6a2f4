"""Ends a job of thousands of processes in portions, between which the keeper serves other jobs.

To read, stop and kill 12,000 processes takes a second or two. Processes that are all killed at once
leave no processor to anybody else, the keeper included, until the last one has ended.

So work on many processes is a generator that yields after each portion; the keeper resumes it at
its next turn. A job may start more processes meanwhile, so rounds are repeated until nothing is
left; a cgroup that can be killed as a whole is killed that way once the many have been signalled.

All processes are stopped before any is killed: each one killed lets a fork bomb that is at its
limit of processes start another, without end. A cgroup is frozen first where the kernel can do so.

Without a cgroup, a child whose parent has ended is hardly found. So none may be overlooked before
the first is killed: only a look that begins when all found so far have stopped, and finds nobody
new, has found all. That a process was sent SIGSTOP is not enough: a fork that is under way goes on,
and where a thousand processes wait for a processor, or for each other, it may be under way for
long. (SIGKILL ends it, but makes room for others.) Its child is stopped as soon as its parent shows
it: until the next look at all processes it would begin many others.

The youngest die first, so that most still have a stopped parent and become the keeper's children
only when that parent dies. The keeper would otherwise search all its living children for each one
it reaps.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from lbd.load import cgroup, kernel_threads, process_table
from lbd.load.process_table import Entry, with_descendants
from lbd.process.boot_clock import clock_s

PORTION = 100
PAUSE_S = 0.005  # between two portions
# Killed processes may have started others, so they are killed again; processes that hang in the
# kernel may be many, so the interval grows.
AGAIN_S, AGAIN_S_MAX = 0.1, 2.0
STOP_S = 1.0  # for all that were sent SIGSTOP; who has not stopped then waits in the kernel
LOOKS = 8  # for processes begun meanwhile, before all are killed: somebody may continue them
One = TypeVar("One")
Look = Callable[[Mapping[int, int]], Generator[None, None, Mapping[int, int]]]


def longer_s(again_s: float) -> float:
    """Returns the next interval between two kills."""
    return min(2 * again_s, AGAIN_S_MAX)


def by_portions(many: Sequence[One]) -> Iterator[Sequence[One]]:
    return (many[at : at + PORTION] for at in range(0, len(many), PORTION))


def entries_of(pids: Iterable[int]) -> Generator[None, None, dict[int, Entry]]:
    """Returns those that exist, without the kernel's threads."""
    found: dict[int, Entry] = {}
    for number, portion in enumerate(by_portions(list(pids))):
        if number:
            yield
        for pid in portion:
            if not kernel_threads.is_one(pid) and (entry := process_table.entry_of(pid)):
                found[pid] = entry
    return found


def lives_in(members: Callable[[], Iterable[int]]) -> Generator[None, None, dict[int, int]]:
    """Returns the life of each member of a group. A pid may have passed to another process
    meanwhile, so only those that are still members count."""
    entries = yield from entries_of(members())
    still = set(members())
    return {pid: entry.life for pid, entry in entries.items() if pid in still}


def signal_members(
    members: Callable[[], Iterable[int]], number: int, leader: int = 0
) -> Generator[None, None, list[int]]:
    """Signals the members of a group, with as few calls for each as can be: as long as they run,
    they leave little of a processor to who stops them. The latest are first, the leader is last.
    Returns them.

    A pid may be reused; a pidfd always means the process it was opened for. So if the pid is still
    a member's once the pidfd is open, the signal reaches that member, or nobody if it has ended.
    """
    found = sorted(members(), key=lambda pid: (pid == leader, -pid))
    for order, portion in enumerate(by_portions(found)):
        if order:
            yield
        handles: dict[int, int] = {}
        for pid in portion:
            with contextlib.suppress(OSError):
                handles[pid] = os.pidfd_open(pid)
        still = set(members())
        for pid, handle in handles.items():
            if pid in still:
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(handle, number)
            os.close(handle)
    return found


def lives_of(session: int, known: Mapping[int, int]) -> Generator[None, None, dict[int, int]]:
    """Returns the lives of all living processes of a session, of those known, and of the
    descendants of both. `session`: 0 = none."""
    entries = yield from entries_of(process_table.pids())
    alive = {pid: entry for pid, entry in entries.items() if not entry.has_ended}
    first = {pid for pid, entry in alive.items() if known.get(pid) == entry.life}
    first |= {pid for pid, entry in alive.items() if session and entry.session == session}
    return {pid: alive[pid].life for pid in with_descendants(first, alive) & alive.keys()}


def kill_lives(
    lives: Mapping[int, int], leader: int = 0, look: Look | None = None
) -> Generator[None, None, dict[int, int]]:
    """Stops the processes first, so that no shell survives to report its child's death, then kills
    them. `lives`: by pid, which may be another process's by now. `look` finds those that they have
    started meanwhile. Returns all that were killed."""
    known: dict[int, int] = {}
    until_s = clock_s() + STOP_S
    for _ in range(LOOKS):
        known |= (new := {pid: life for pid, life in lives.items() if known.get(pid) != life})
        yield from _send(signal.SIGSTOP, sorted(new.items(), key=partial(_age, leader)))
        if look is None or not new:
            break
        yield from _stopped(list(new), known, until_s)
        lives = yield from look(known)
    yield from _send(signal.SIGKILL, sorted(known.items(), key=partial(_age, leader))[::-1])
    return known


def _stopped(
    pids: Sequence[int], known: dict[int, int], until_s: float
) -> Generator[None, None, None]:
    """Waits until the processes, which were sent SIGSTOP, can begin no others, though not beyond
    `until_s`. Stops their children that are not known, waits for these, too, and adds them."""
    while pids:
        left: list[int] = []
        for number, portion in enumerate(by_portions(pids)):
            if number:
                yield
            for pid in portion:
                if process_table.may_fork(pid):  # asked first: if not, these are all its children
                    left.append(pid)
                children = yield from entries_of(set(process_table.children_of(pid)) - known.keys())
                new = {child: entry.life for child, entry in children.items()}
                yield from _send(signal.SIGSTOP, list(new.items()))
                known |= new
                left += new
            if left:
                yield
        pids = left if clock_s() < until_s else ()


def _age(leader: int, one: tuple[int, int]) -> tuple[bool, int, int]:
    pid, life = one
    return pid != leader, life, pid


def _send(number: int, order: Sequence[tuple[int, int]]) -> Generator[None, None, None]:
    for portion in by_portions(order):
        for pid, life in portion:
            with contextlib.suppress(OSError):
                process_table.signal_life(pid, life, number)
        if len(order) > PORTION:
            yield


def kill_group(
    group: str, leader: int = 0, *, has_kill: bool = True
) -> Generator[None, None, list[int]]:
    """Kills what is in a cgroup; `has_kill`: the cgroup may have a cgroup.kill file. Returns whom
    it has met; the caller repeats it as long as anybody is left.

    cgroup.kill ends all processes that are in there at that moment, except those whose first thread
    has ended while others run on: Linux sends SIGKILL to the first thread alone, where it is lost.
    A signal to the process reaches the other threads, frozen or not. So each member is sent one,
    too.
    """
    members = partial(cgroup.members, Path(group))
    hold(group)
    has_kill = has_kill and os.path.exists(f"{group}/cgroup.kill")
    if not has_kill:
        yield from signal_members(members, signal.SIGSTOP)
    killed = yield from signal_members(members, signal.SIGKILL, leader)
    if has_kill:
        _write(f"{group}/cgroup.kill", b"1")
    return killed


def hold(group: str) -> None:
    """Keeps a cgroup's processes from running, else from starting others, as far as its hierarchy
    can."""
    _write(f"{group}/cgroup.freeze", b"1")
    _write(f"{group}/pids.max", b"0")


def _write(path: str, text: bytes) -> None:
    """Writes to a file of a cgroup, if there is one."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text)
        finally:
            os.close(descriptor)


def side_by_side(many: Iterable[Generator[None, None, None]], pause_s: float) -> None:
    """Runs the generators, each a step at a time, with pauses between."""
    left = list(many)
    while left := [steps for steps in left if not next(steps, True)]:
        time.sleep(pause_s)


def at_once(steps: Generator[None, None, One]) -> One:
    """Runs the generator without pauses, where nobody waits or the processes are few."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: One = end.value
            return found
