"""The workers of one executor, as processes. Carries out what `core/pool.py` decides.

One thread starts the workers and reads from them. The thread that submits a task also sends it,
which saves a thread switch. All decisions are made under one lock; futures are answered without it,
because that runs the user's code.
"""

import itertools
import json
import math
import os
import secrets
import selectors
import struct
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from random import Random

from lbd.client.installed import lbrun_program
from lbd.errors import LbdError
from lbd.local.frames import pack
from lbd.python import wire
from lbd.python.cluster_hosts import find_hosts, need_words
from lbd.python.core import actions
from lbd.python.core.actions import Action
from lbd.python.core.pool import Pool, PoolLimits
from lbd.python.core.worker_hosts import ANYWHERE
from lbd.python.failures import NoWorkers, TaskKilled, TaskLost
from lbd.python.import_path import client_path
from lbd.python.pickles import Packed
from lbd.python.task_future import TaskFuture, resolve
from lbd.python.worker_process import WorkerProcess, WorkerSettings, end_of
from lbd.text.one_line import one_line

PYTHON = ".".join(map(str, sys.version_info[:2]))
RUN_S_MAX = 1e9
AT_ONCE = 16  # tasks submitted before the thread gets a chance at the lock
Answer = tuple[TaskFuture, int, bytes]


class Crew:
    """One class because one lock guards all of it."""

    # raised for frames that break the protocol
    PROTOCOL_ERRORS = (ValueError, struct.error, KeyError, TypeError, RecursionError)

    def __init__(self, limits: PoolLimits, settings: WorkerSettings) -> None:
        self._settings = settings
        self._name = secrets.token_hex(16)
        self._lock = threading.Lock()
        self._pool = Pool(limits, Random())
        self._calls: dict[int, tuple[TaskFuture, Packed]] = {}
        self._numbers = itertools.count()
        self._processes: dict[int, WorkerProcess] = {}
        self._later: deque[Action] = deque()  # actions left to the thread
        self._failed: list[tuple[TaskFuture, LbdError]] = []
        self._selector = selectors.DefaultSelector()
        self._wake = -1
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._sleeps_until_s = 0.0

    # Called by the owner of the executor

    def submit(self, calls: Sequence[Packed]) -> list[TaskFuture]:
        found: list[TaskFuture] = []
        for first in range(0, len(calls), AT_ONCE):
            with self._lock:
                if self._is_closed:
                    raise RuntimeError("cannot schedule new futures after shutdown")
                self._begin()
                now_s = time.monotonic()
                for call in calls[first : first + AT_ONCE]:
                    number = next(self._numbers)
                    future = TaskFuture(number, self.cancel)
                    self._calls[number] = future, call
                    found.append(future)
                    sizes = {digest: len(data) for digest, data in call.blobs.items()}
                    self._do(self._pool.submit(number, sizes, now_s))
                # Time alone may act on these: if all hosts are set aside, no event comes.
                self._rouse(self._pool.next_tick_s(now_s) or math.inf)
        return found

    def _begin(self) -> None:
        if self._thread is None:
            self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._selector.register(self._wake, selectors.EVENT_READ)
            self._thread = threading.Thread(target=self._run, name="lbd.Executor", daemon=True)
            self._thread.start()

    def cancel(self, number: int) -> bool:
        """Returns whether the task had not been sent to a worker, and now never will be."""
        with self._lock:
            if number not in self._pool.waiting or self._calls[number][0].running():
                return False
            self._pool.cancel(number)
            del self._calls[number]
            self._rouse()
            return True

    def cancel_all(self) -> None:
        with self._lock:
            waiting = [self._calls[number][0] for number in self._pool.waiting]
        for future in waiting:
            future.cancel()

    def kill(self, future: TaskFuture) -> bool:
        with self._lock:
            if future.number not in self._calls:
                return False
            del self._calls[future.number]
            self._do(self._pool.kill(future.number, time.monotonic()))
        future.set_exception(TaskKilled("the task was killed"))
        return True

    def ready_by_host(self) -> dict[str, int]:
        with self._lock:
            workers = self._pool.workers.values()
            return dict(Counter(worker.host for worker in workers if worker.can_run))

    def close(self, *, wait: bool) -> None:
        with self._lock:
            self._is_closed = True
            self._do(self._pool.close(time.monotonic()))
            self._rouse()
            thread = self._thread
        if wait and thread is not None and thread is not threading.current_thread():
            thread.join()

    def _rouse(self, at_s: float = -math.inf) -> None:
        """Wakes the thread, unless it wakes by `at_s` anyway."""
        if self._wake >= 0 and at_s < self._sleeps_until_s:
            os.eventfd_write(self._wake, 1)

    def _do(self, wanted: list[Action]) -> None:
        """Carries out actions with the lock held. Leaves the slow ones to the thread."""
        for action in wanted:
            if isinstance(action, actions.Send):
                future, call = self._calls[action.task]
                if not future.running():  # it runs already if a worker was lost with it
                    future.set_running_or_notify_cancel()
                task = wire.TaskFrame(action.task, call.function, call.arguments)
                self._send(action.worker, wire.pack_task(task))
            elif isinstance(action, actions.SendBlob):
                data = self._calls[action.task][1].blobs[action.blob]
                frame = wire.pack_blob(action.blob, len(data), is_own=action.is_own)
                self._send(action.worker, frame, {action.blob: data})
            elif isinstance(action, actions.ShareBlob | actions.DropBlob):
                tag = wire.SHARE if isinstance(action, actions.ShareBlob) else wire.DROP
                self._send(action.worker, pack(tag, action.blob))
            elif isinstance(action, actions.AskBack):
                self._send(action.worker, pack(wire.ASK_BACK))
            elif isinstance(action, actions.Tell):
                print(f"lbd.Executor: {action.text}", file=sys.stderr)
            elif isinstance(action, actions.Fail):
                future, _ = self._calls.pop(action.task)
                kind = TaskLost if action.is_lost else NoWorkers
                self._failed.append((future, kind(action.reason)))
                self._rouse()
            else:
                self._later.append(action)
                self._rouse()

    def _send(self, worker: int, frame: bytes, blob: Mapping[bytes, bytes] | None = None) -> None:
        process = self._processes[worker]
        process.send(frame, blob)
        if process.has_unsent and not process.is_watched:
            self._rouse()

    # The thread

    def _run(self) -> None:
        try:
            while self._goes_on():
                self._turn()
        except BaseException as problem:  # a bug here must not leave futures unanswered
            self._give_up(problem)
            raise
        finally:
            self._selector.close()
            with self._lock:
                os.close(self._wake)
                self._wake = -1

    def _goes_on(self) -> bool:
        with self._lock:
            return not self._is_closed or bool(self._calls or self._processes or self._failed)

    def _turn(self) -> None:
        with self._lock:
            later, self._later = self._later, deque()
            failed, self._failed = self._failed, []
            self._watch_unsent()
            wait_s = None if not (later or failed) else 0.0
            if wait_s is None and (at_s := self._pool.next_tick_s(time.monotonic())) is not None:
                wait_s = max(0.001, at_s - time.monotonic())
            self._sleeps_until_s = math.inf if wait_s is None else time.monotonic() + wait_s
        for future, problem in failed:
            future.set_exception(problem)
        for action in later:
            self._do_later(action)
        answers: list[Answer] = []
        for key, _ in self._selector.select(wait_s):
            if key.fd == self._wake:
                os.eventfd_read(self._wake)
            else:
                number, what = key.data
                answers += what(number)
        with self._lock:
            self._do(self._pool.tick(time.monotonic()))
        for answer in answers:
            resolve(*answer)

    def _watch_unsent(self) -> None:
        for number, process in self._processes.items():
            if process.has_unsent != process.is_watched:
                process.is_watched = process.has_unsent
                if process.has_unsent:
                    self._selector.register(
                        process.input, selectors.EVENT_WRITE, (number, self._write)
                    )
                else:
                    self._selector.unregister(process.input)

    def _do_later(self, action: Action) -> None:
        if isinstance(action, actions.Look):
            try:
                hosts = find_hosts(
                    self._settings.host, self._settings.exclude, self._settings.needs
                )
            except LbdError as problem:
                hosts = []
                print(f"lbd.Executor: {problem}", file=sys.stderr)
            with self._lock:
                named = f"no host {self._settings.host} is up" if self._settings.host else ""
                nobody = "no host has what is needed" if self._settings.needs else "no host is up"
                self._do(self._pool.look_at(hosts, time.monotonic(), named or nobody))
        elif isinstance(action, actions.Start):
            self._start(action.worker, action.host)
        elif isinstance(action, actions.End):
            with self._lock:
                process = self._processes.get(action.worker)
                if process is not None and action.by_force:
                    process.kill()
                elif process is not None:
                    process.end()

    def _start(self, number: int, host: str) -> None:
        settings = self._settings
        there = ["-H", host] if host != ANYWHERE else []
        try:
            argv = [lbrun_program(), "-T", "--no-restart", "--name", "python", *there]
            argv += [*need_words(settings.needs), "--"]
            # -P: import nothing from the working directory, where anybody may have put modules
            argv += [settings.python, "-P", "-m", "lbd.python.worker"]
            process = WorkerProcess(argv, os.environ, settings.result_bytes)
        except (OSError, LbdError) as problem:
            with self._lock:
                self._do(self._pool.ended(number, one_line(str(problem)), time.monotonic()))
            return
        with self._lock:
            self._processes[number] = process
        for descriptor, what in (
            (process.output, self._read),
            (process.errors, self._read_errors),
            (process.end_seen, self._ended),
        ):
            self._selector.register(descriptor, selectors.EVENT_READ, (number, what))

    def _write(self, number: int) -> list[Answer]:
        with self._lock:
            process = self._processes.get(number)
            if process is None:  # it ended earlier in this turn
                return []
            process.write()
            if not process.has_unsent:
                self._selector.unregister(process.input)
                process.is_watched = False
                process.close_if_sent()
        return []

    def _read(self, number: int) -> list[Answer]:
        process = self._processes.get(number)
        if process is None:  # it ended earlier in this turn
            return []
        answers: list[Answer] = []
        try:
            frames = process.read()
            if frames is None:
                self._selector.unregister(process.output)
                process.is_at_end = True
                return []
            with self._lock:
                for frame in frames:
                    answers += self._heard(number, *frame)
        except self.PROTOCOL_ERRORS as problem:
            process.fault = str(problem)
        if process.fault:
            process.kill()
        return answers

    def _heard(self, number: int, tag: bytes, body: bytes) -> list[Answer]:
        """Handles one frame from a worker. Raises ValueError for a protocol error."""
        worker, now_s = self._pool.workers[number], time.monotonic()
        if tag == wire.HELLO and not worker.ready:
            self._greet(number, json.loads(body))
        elif not worker.ready:
            raise ValueError("a frame before the first one")
        elif tag == wire.RESULT:
            task, how, run_s = wire.RESULT_HEAD.unpack_from(body)
            if not 0 <= run_s < RUN_S_MAX or not self._pool.result(number, task, run_s, now_s):
                raise ValueError("a result that nobody waits for")
            future, _ = self._calls.pop(task)
            return [(future, how, body[wire.RESULT_HEAD.size :])]
        elif tag == wire.STORED:
            self._do(self._pool.stored(number, body, now_s))
        elif tag == wire.RETURNED:
            if not self._pool.returned(number, wire.read_ids(body)):
                raise ValueError("tasks come back that it did not have")
        elif tag == wire.MISSING:
            (task,) = wire.read_ids(body)
            self._do(self._pool.missing(number, task, now_s))
        else:
            raise ValueError("a second greeting")
        return []

    def _greet(self, number: int, hello: dict[str, object]) -> None:
        """Handles a worker's first frame: sends the settings if its lbd and Python match ours."""
        process, now_s = self._processes[number], time.monotonic()
        there = f"Python {hello['python']}" if hello["version"] == wire.VERSION else "another lbd"
        if there != f"Python {PYTHON}":
            reason = (
                f"{one_line(str(hello['host']))} has {there} and this is Python {PYTHON}, "
                "so functions cannot be sent there; give python=, or exclude that host"
            )
            print(f"lbd.Executor: {reason}", file=sys.stderr)
            self._do(self._pool.refuse(number, reason, now_s))
            return
        settings = client_path() | {
            "executor": self._name,
            "cache_bytes": self._settings.cache_bytes,
            "result_bytes": self._settings.result_bytes,
        }
        process.send(pack(wire.SETTINGS, json.dumps(settings).encode()))
        self._do(self._pool.ready(number, now_s))

    def _read_errors(self, number: int) -> list[Answer]:
        """Passes on what the worker's functions print to the user."""
        process = self._processes.get(number)
        if process is None or process.is_silent:
            return []
        data = process.read_errors()
        if data is None:
            self._selector.unregister(process.errors)
            process.is_silent = True
        elif self._pool.workers[number].ready:
            print(process.said(data).decode(errors="replace"), end="", file=sys.stderr, flush=True)
        return []

    def _ended(self, number: int) -> list[Answer]:
        answers: list[Answer] = []
        process = self._processes[number]
        while not process.is_at_end:  # results sent before it ended still count
            before = process.read_bytes
            answers += self._read(number)
            if process.read_bytes == before:
                break
        self._read_errors(number)
        for descriptor, is_watched in (
            (process.output, not process.is_at_end),
            (process.errors, not process.is_silent),
            (process.end_seen, True),
            (process.input, process.is_watched),
        ):
            if is_watched:
                self._selector.unregister(descriptor)
        with self._lock:  # no other thread may write to what is closed here
            status = process.finish()
            del self._processes[number]
            worker = self._pool.workers[number]
            how = process.last_words(had_tasks=worker.ready)
            if process.fault:
                how = f"what no worker says has come from there: {process.fault}"
            reason = f"{worker.host or 'this host'}: {how or end_of(status)}"
            self._do(self._pool.ended(number, reason, time.monotonic()))
        return answers

    def _give_up(self, problem: BaseException) -> None:
        with self._lock:
            self._is_closed = True
            futures = [future for future, _ in self._calls.values()]
            processes = list(self._processes.values())
        for process in processes:
            process.kill()
        for future in futures:
            if not future.done():
                future.set_exception(LbdError(f"the executor has failed: {problem!r}"))
