"""`lbd up`: runs and supervises this host's daemons, in the foreground. Also as PID 1 of a
container.

One thread, no event loop: signals are blocked and waited for, children are reaped as they end. As a
subreaper it inherits what its daemons leave behind, and ends that too before it returns. If it is
killed itself, the daemons get TERM: nothing runs unsupervised.
"""

import ctypes
import fcntl
import importlib
import json
import logging
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from lbd.cli.complaints import complain
from lbd.cli.daemons.journal import set_up_log
from lbd.cli.daemons.privilege import (
    become,
    check_program,
    daemons_account,
    hand_over,
    make_workdir_root,
)
from lbd.config.schema import Config
from lbd.errors import ConfigError, LbdError
from lbd.keeper.local_account import LocalUser
from lbd.process import self_start
from lbd.process.own_directory import RUNTIME, STATE, make_own
from lbd.process.pid_lock import remove_pid_file, take_pid_lock
from lbd.process.service_manager import (
    DISPATCHER_WANTED,
    FED_PER_TIMEOUT,
    LEAVING,
    NotifySocket,
    ServiceManager,
    has_terminal,
)
from lbd.process.supervise import (
    Abandon,
    Abort,
    Action,
    Finish,
    Kill,
    Ready,
    Say,
    Start,
    Supervisor,
    Terminate,
)
from lbd.trust.files import authority_dir

log = logging.getLogger(__name__)

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
HELD = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGIO}
TO_STOP = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
IDLE_S = 3600.0
PATIENCE_S = 10.0  # a key's file server may not answer; the daemons find out by themselves
LINE_BYTES = 4096
DAEMONS = ("lim", "lbm", "dispatcher", "metrics", "up")  # those with pid files
ROOTS = ("keeper", "authority")  # these run as root, the others do not


def run(config: Config, overrides: Sequence[str] = ()) -> int:
    """Runs until TERM or INT, or until its terminal hangs up. Without a terminal, HUP is passed to
    the LBM.

    Raises LbdError if another `lbd up` uses this runtime directory.
    """
    account = daemons_account(config)
    prepare(config, account)
    lock = take_pid_lock(Path(config.host.runtime_dir, "up.pid"), program="`lbd up`")
    rehearse(config, daemons_of(config, keeper=False), account)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    set_up_log("lbd up", config.host.name)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        return Shell(config, overrides, libc, account).run()
    finally:
        while signal.sigtimedwait(HELD, 0):  # a late signal must not end us with its default action
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(lock)
        remove_pid_files(config)


def remove_pid_files(config: Config) -> None:
    """Removes those of daemons that have ended, so that nothing looks as if they had crashed."""
    for directory in {config.host.runtime_dir, config.host.state_dir}:
        for daemon in DAEMONS:
            remove_pid_file(Path(directory, f"{daemon}.pid"))


def prepare(config: Config, account: LocalUser | None) -> None:
    """Creates what the daemons need. Raises ConfigError."""
    # first, because `hand_over` gives the state directory's contents away
    prepare_authority(config, account)
    if account is not None:
        check_program(account)
        hand_over(config, account)
    else:
        make_own(Path(config.host.runtime_dir), RUNTIME)
        make_own(Path(config.host.state_dir), STATE)
    if os.geteuid() == 0 and (said := make_workdir_root(config, account)):
        complain("lbd up", said)


def prepare_authority(config: Config, account: LocalUser | None) -> None:
    """Makes the authority's ledger readable for the daemons. Warns on errors."""
    if not authority_dir(config).exists():
        return
    # Imported only here, to save memory.
    from lbd.trust.authority import Authority
    from lbd.trust.root_directory import check_root_directory

    try:
        authority = Authority(authority_dir(config), config.tls.certificate_s)
        if account is not None and authority.exists():
            check_root_directory(authority.root)
            authority.show_to(account.gid)
    except ConfigError as problem:
        complain("lbd up", str(problem))


def daemons_of(config: Config, *, keeper: bool) -> tuple[str, ...]:
    """Returns the daemons in starting order. The LBM stops first, while there is a dispatcher to
    report to.

    `keeper`: include the keeper, which an LBM without privilege cannot start.
    """
    has_queue = config.host.name in config.dispatch.hosts
    beside = ["keeper"] if keeper else []
    if keeper and has_authority(config):
        beside.insert(0, "authority")
    if has_queue:
        beside.append("dispatcher")
    shown = ("metrics",) if config.metrics.listen else ()
    return ("lim", *beside, "lbm", *shown)


def has_authority(config: Config) -> bool:
    return Path(authority_dir(config), "authority.pem").exists()


class Shell:
    """Carries out the supervisor's decisions."""

    def __init__(
        self,
        config: Config,
        overrides: Sequence[str],
        libc: ctypes.CDLL,
        account: LocalUser | None,
    ) -> None:
        """`account` is the user for all daemons but those in `ROOTS`."""
        self._names = daemons_of(config, keeper=account is not None)
        self._account = account
        self._config = config
        self._supervisor = Supervisor(config.up, self._names)
        if account is not None:
            overrides = (*overrides, "daemons.keeper=apart")
        self._options = [word for override in overrides for word in ("--set", override)]
        if account is not None:  # the account's own default directories would differ
            host = config.host
            for key, path in (("runtime_dir", host.runtime_dir), ("state_dir", host.state_dir)):
                self._options += ["--set", f"host.{key}={json.dumps(path)}"]
        if config.path:
            self._options += ["--config", config.path]
        self._libc = libc
        self._manager = ServiceManager(os.environ)
        notify = f"{config.host.runtime_dir}/up.notify"
        self._notices = NotifySocket(notify, account.uid if account else None)
        if os.geteuid() == 0 and account is None:
            log.info("%s run as root, as daemons.user says", " and ".join(self._names))
        signal_arrivals(self._notices.socket.fileno())
        self._watchdog_s = config.up.watchdog_s
        self._pids: dict[int, str] = {}
        self._abandoned: set[int] = set()  # daemons that the kernel cannot end yet
        self._code: int | None = None

    def run(self) -> int:
        try:
            while self._code is None:
                self._reap()
                self._hear()
                orphans = self._orphans() if self._supervisor.stopping else []
                self._carry_out(self._supervisor.tick(time.monotonic(), len(orphans)))
                if self._code is None:
                    self._wait()
        finally:
            self._notices.close()
        return self._code

    def _wait(self) -> None:
        due_s = self._supervisor.next_due_s()
        pause_s = IDLE_S if due_s is None else max(0.0, due_s - time.monotonic())
        if self._manager.watchdog_s:
            self._manager.notify("WATCHDOG=1")
            pause_s = min(pause_s, self._manager.watchdog_s / FED_PER_TIMEOUT)
        info = signal.sigtimedwait(HELD, pause_s)
        if info is not None and info.si_signo == signal.SIGHUP and not has_terminal():
            self._send("lbm", signal.SIGHUP)
        elif info is not None and info.si_signo in TO_STOP:
            self._manager.notify("STOPPING=1")
            self._carry_out(self._supervisor.stop())

    def _hear(self) -> None:
        """Handles the daemons' notifications; also notices an authority that was moved here."""
        is_apart = self._account is not None and "authority" not in self._supervisor.daemons
        if is_apart and has_authority(self._config):
            self._supervisor.want("authority", "lim", time.monotonic())
        for pid, lines in self._notices.received():
            name = self._pids.get(pid)
            if name is None:
                continue
            if "WATCHDOG=1" in lines:
                self._supervisor.alive(name, time.monotonic())
            if "READY=1" in lines:
                self._carry_out(self._supervisor.ready(name))
            if DISPATCHER_WANTED in lines and name == "lim":
                self._supervisor.want("dispatcher", "lbm", time.monotonic())
            if LEAVING in lines:
                self._supervisor.leaving(name, time.monotonic())

    def _reap(self) -> None:
        """Reaps every child that has ended: our daemons and what we inherited."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            name = self._pids.pop(pid, None)
            self._abandoned.discard(pid)
            if name is not None:
                code = os.waitstatus_to_exitcode(status)
                self._carry_out(self._supervisor.exited(name, code, time.monotonic()))

    def _orphans(self) -> list[int]:
        """Returns our descendants that are not daemons of ours."""
        with suppress(psutil.Error):
            children = psutil.Process().children(recursive=True)
            ours = self._pids.keys() | self._abandoned
            return [child.pid for child in children if child.pid not in ours]
        return []

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Say(text):
                    log.info(text)
                case Start(name):
                    self._start(name)
                case Terminate(name):
                    self._send(name, signal.SIGTERM)
                case Kill(name):
                    self._send(name, signal.SIGKILL)
                case Abort(name):
                    self._send(name, signal.SIGABRT)
                case Abandon(name):
                    self._abandon(name)
                case Ready():
                    self._manager.ready(f"{' and '.join(self._names)} running")
                case Finish(code):
                    self._code = code

    def _abandon(self, name: str) -> None:
        pids = {pid for pid, owner in self._pids.items() if owner == name}
        for pid in pids:
            del self._pids[pid]
        self._abandoned |= pids

    def _send(self, name: str, number: int) -> None:
        daemons = [pid for pid, owner in self._pids.items() if owner == name]
        for pid in daemons if name else self._orphans():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _start(self, name: str) -> None:
        me = os.getpid()
        account = self._account if name not in ROOTS else None

        def prepare() -> None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
            if account is not None:
                become(account)  # clears the parent-death signal, so it is set afterwards
            self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != me:
                os._exit(128 + signal.SIGTERM)

        # This process has no other threads, so running code between fork and exec is safe.
        started = subprocess.Popen(
            self_start.command(name, *self._options),
            stdin=subprocess.DEVNULL,
            env=self_start.environment(os.environ) | self._notices.environment(self._watchdog_s),
            preexec_fn=prepare,
        )
        started.returncode = 0  # we reap it ourselves; Popen must not wait for this pid
        self._pids[started.pid] = name
        self._carry_out([Say(f"{name} started, pid {started.pid}")])


def signal_arrivals(descriptor: int) -> None:
    """Requests SIGIO for this process whenever data arrives at the descriptor."""
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_ASYNC)


def rehearse(config: Config, names: Sequence[str], account: LocalUser | None) -> None:
    """Checks, before any daemon is started, that the daemons accept their configuration.

    A child process checks as their user, so that the modules it imports do not stay in our memory.
    Raises ConfigError with the first daemon's message.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, look(config, names, account).encode()[:LINE_BYTES])
        finally:
            os._exit(0)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], PATIENCE_S)
        said = os.read(reading, LINE_BYTES).decode(errors="replace") if ready else ""
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if said:
        raise ConfigError(said)


def look(config: Config, names: Sequence[str], account: LocalUser | None) -> str:
    """Returns what is wrong, "" if nothing is."""
    if account is not None:
        become(account)
    try:
        for name in names:
            module = importlib.import_module(f"lbd.cli.daemons.{name}")
            check: Callable[[Config], object] = module.check
            check(config)
    except LbdError as problem:
        return str(problem)
    return ""
