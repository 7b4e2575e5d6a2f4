"""Decides when a daemon is started, restarted, stopped and killed. Pure: `lbd up` carries it out.

    waiting ──start──▶ running ──died──▶ waiting, for twice as long each time
                          └──died of its configuration (exit 2)──▶ everything stops

- The pause before a restart doubles from `restart_backoff_s` up to `restart_backoff_max_s`. A
  daemon that ran for longer than that maximum starts at the shortest pause again.
- Exit 2 means that the configuration is wrong. A restart would only repeat the message, so
  everything stops. This does not apply to a daemon that ran with it before: the file was changed
  since, or a port was taken meanwhile, and the other daemon is useful as it is.
- Exit 4 means that the address is not there, or the port taken. If the daemon never ran with it,
  everything stops, with exit 1: who started us sees it, and may try again.
- Exit 3 means that the daemon was asked to make way for another, for example after an upgrade; the
  next one is started at once.
- Daemons are stopped from last to first, one after the other, because the LBM has jobs to end and
  asks the LIM while it does; each gets TERM, and KILL after `stop_timeout_s`.
- A daemon that has once reported that its event loop runs and is then silent for `watchdog_s`
  hangs: it gets ABRT, so that it reports where, and KILL soon after; then it is restarted.
- When the daemons are gone, the processes they left behind (a keeper whose LBM was dead already)
  get the same: TERM, then KILL. So nothing is left.
- The kernel may keep a process that has ended or was killed for as long as one of its threads is in
  a system call that cannot be interrupted (a dead file server, a FUSE that never answers). That is
  waited for at most `END_GRACE_S`: then the next one starts, or the supervisor finishes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from lbd.config.schema import UpConfig
from lbd.errors import EXIT_NO_ADDRESS, EXIT_RESTART

EXIT_FAILED, EXIT_CONFIG = 1, 2
ABORT_GRACE_S = 1.0  # for a hung daemon to report where it hangs
END_GRACE_S = 3.0  # for the kernel to end a process that leaves or was killed
KILLED, TERMINATED = -9, -15
STUCK = "it is stuck in a system call (a file that does not answer?)"
LIVED_S = 5.0  # a daemon that ran this long has accepted its configuration


@dataclass(frozen=True, slots=True)
class Start:
    name: str


@dataclass(frozen=True, slots=True)
class Terminate:
    """Send TERM to a daemon, or to all that are left if `name` is ""."""

    name: str


@dataclass(frozen=True, slots=True)
class Kill:
    """Send KILL to a daemon, or to all that are left if `name` is ""."""

    name: str


@dataclass(frozen=True, slots=True)
class Abort:
    """Send ABRT to a daemon that hangs."""

    name: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """Forget the process of a daemon: it no longer runs, but the kernel cannot end it yet."""

    name: str


@dataclass(frozen=True, slots=True)
class Ready:
    """Every daemon has become ready for the first time."""


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Finish:
    code: int


Action = Start | Terminate | Kill | Abort | Abandon | Ready | Say | Finish


class Phase(Enum):
    WAITING = "waiting"  # to be started at `due_s`
    RUNNING = "running"
    STOPPING = "stopping"  # was sent TERM; KILL at `due_s`
    GONE = "gone"


@dataclass(slots=True)
class Daemon:
    name: str
    phase: Phase = Phase.WAITING
    due_s: float = 0.0
    started_s: float = 0.0
    backoff_s: float = 0.0  # the next pause; 0 = the shortest
    has_lived: bool = False
    is_ready: bool = False
    is_late: bool = False  # added after the others had started: `Ready` does not wait for it
    silent_due_s: float | None = None  # when it counts as hung; None: it feeds no watchdog
    aborted: bool = False
    killed: bool = False
    leave_due_s: float | None = None  # it has released everything and should be gone by then


@dataclass(slots=True)
class Supervisor:
    """The daemons of one host. Feed it events and the time; carry out the actions it returns, in
    order."""

    config: UpConfig
    names: Sequence[str]  # in starting order
    code: int = 0
    stopping: bool = False
    reported_ready: bool = False  # Ready is returned once only
    sweep_due_s: float | None = None  # when processes left behind get KILL
    sweep_until_s: float | None = None  # and how long to wait for their end
    finished: bool = False
    daemons: dict[str, Daemon] = field(init=False)

    def __post_init__(self) -> None:
        self.daemons = {name: Daemon(name) for name in self.names}

    def tick(self, now_s: float, orphans: int = 0) -> list[Action]:
        """Returns the actions due now. `orphans`: the number of children besides the daemons."""
        actions: list[Action] = []
        for daemon in self.daemons.values():
            if daemon.phase is Phase.WAITING and daemon.due_s <= now_s:
                daemon.phase = Phase.RUNNING
                daemon.started_s = now_s
                daemon.silent_due_s, daemon.aborted, daemon.is_ready = None, False, False
                daemon.leave_due_s, daemon.killed = None, False
                actions.append(Start(daemon.name))
            elif daemon.leave_due_s is not None and daemon.leave_due_s <= now_s:
                actions += self._abandon(daemon, EXIT_RESTART, now_s)
            elif daemon.phase is Phase.STOPPING and daemon.due_s <= now_s and daemon.killed:
                actions += self._abandon(daemon, KILLED, now_s)
            elif daemon.phase is Phase.STOPPING and daemon.due_s <= now_s:
                daemon.due_s, daemon.killed = now_s + END_GRACE_S, True
                limit = f"{self.config.stop_timeout_s:g} s"
                actions.append(Say(f"{daemon.name} did not stop within {limit}; killing it"))
                actions.append(Kill(daemon.name))
            elif (silent_due_s := self._silent_due_s(daemon)) and silent_due_s <= now_s:
                actions += self._hung(daemon, now_s)
        if self.stopping:
            actions += self._stop_next(now_s, orphans)
        return actions

    def next_due_s(self) -> float | None:
        """Returns when `tick` will have something to do, None if only an event can tell."""
        timed = (Phase.WAITING, Phase.STOPPING)
        dues = [daemon.due_s for daemon in self.daemons.values() if daemon.phase in timed]
        dues += [due_s for d in self.daemons.values() if (due_s := self._silent_due_s(d))]
        dues += [d.leave_due_s for d in self.daemons.values() if d.leave_due_s is not None]
        if self.sweep_due_s is not None:
            dues.append(self.sweep_due_s)
        return min(dues, default=None)

    def ready(self, name: str) -> list[Action]:
        """Notes that a daemon has become ready."""
        self.daemons[name].is_ready = True
        if self.reported_ready or not all(
            daemon.is_ready or daemon.is_late for daemon in self.daemons.values()
        ):
            return []
        self.reported_ready = True
        return [Ready()]

    def want(self, name: str, before: str, now_s: float) -> None:
        """Adds a daemon, which stops after `before`. This host was not started for it, so if it
        rejects its configuration, the others go on."""
        if name in self.daemons or self.stopping:
            return
        late = Daemon(name, due_s=now_s, has_lived=True, is_late=True)
        rows: dict[str, Daemon] = {}
        for daemon in self.daemons.values():
            if daemon.name == before:
                rows[name] = late
            rows[daemon.name] = daemon
        self.daemons = {**rows, name: late} if name not in rows else rows

    def alive(self, name: str, now_s: float) -> None:
        """Notes that a daemon's event loop has reported that it is running."""
        daemon = self.daemons[name]
        if self.config.watchdog_s and not daemon.aborted:
            daemon.silent_due_s = now_s + self.config.watchdog_s

    def leaving(self, name: str, now_s: float) -> None:
        """Notes that a daemon has handed over to the next one and should end at once."""
        daemon = self.daemons[name]
        if daemon.phase is not Phase.GONE and daemon.leave_due_s is None:
            daemon.leave_due_s = now_s + END_GRACE_S

    def _abandon(self, daemon: Daemon, status: int, now_s: float) -> list[Action]:
        text = f"{daemon.name} does not end: {STUCK}; continuing without it"
        return [Say(text), Abandon(daemon.name), *self.exited(daemon.name, status, now_s)]

    def _silent_due_s(self, daemon: Daemon) -> float | None:
        return daemon.silent_due_s if daemon.phase is Phase.RUNNING else None

    def _hung(self, daemon: Daemon, now_s: float) -> list[Action]:
        if daemon.killed:
            return self._abandon(daemon, KILLED, now_s)
        daemon.silent_due_s = now_s + (END_GRACE_S if daemon.aborted else ABORT_GRACE_S)
        if daemon.aborted:
            daemon.killed = True
            return [Kill(daemon.name)]
        daemon.aborted = True
        text = f"{daemon.name} hangs: its event loop has not run for {self.config.watchdog_s:g} s"
        return [Say(f"{text}; killing it"), Abort(daemon.name)]

    def exited(self, name: str, status: int, now_s: float) -> list[Action]:
        """Notes that a daemon ended. `status`: its exit code, or minus the signal that ended it."""
        daemon = self.daemons[name]
        expected = daemon.phase is Phase.STOPPING
        daemon.phase, daemon.leave_due_s = Phase.GONE, None
        if self.stopping:
            # TERM is normal here: it ends a daemon that is still starting, and may come to all of
            # us at once.
            is_well = status == TERMINATED or (expected and status == 0)
            return [Say(f"{name} stopped" if is_well else ended(name, status))]
        if status != EXIT_NO_ADDRESS or daemon.is_ready:  # without one it only waits a while
            daemon.has_lived |= now_s - daemon.started_s >= LIVED_S
        if status == EXIT_CONFIG and not daemon.has_lived:
            self.code = EXIT_CONFIG
            text = f"{name} rejects its configuration (see its message above); stopping"
            return [Say(text), *self.stop()]
        if status == EXIT_NO_ADDRESS and not daemon.has_lived:
            self.code = EXIT_FAILED
            text = f"{name} has no address to listen on (see its message above); stopping"
            return [Say(text), *self.stop()]
        if status == EXIT_RESTART and daemon.is_ready:
            daemon.phase, daemon.due_s = Phase.WAITING, now_s
            return [Say(f"{name} makes way for its successor")]
        if now_s - daemon.started_s >= self.config.restart_backoff_max_s:
            daemon.backoff_s = 0.0
        pause_s = daemon.backoff_s or self.config.restart_backoff_s
        pause_s = min(pause_s, self.config.restart_backoff_max_s)
        daemon.backoff_s = pause_s * 2
        daemon.phase = Phase.WAITING
        daemon.due_s = now_s + pause_s
        return [Say(f"{ended(name, status)}; restarting it in {pause_s:g} s")]

    def stop(self) -> list[Action]:
        """Stops everything; may be called repeatedly."""
        if self.stopping:
            return []
        self.stopping = True
        for daemon in self.daemons.values():
            if daemon.phase is Phase.WAITING:
                daemon.phase = Phase.GONE
        return []

    def _stop_next(self, now_s: float, orphans: int) -> list[Action]:
        """Stops the last daemon still running, then the processes left behind; then finishes."""
        for daemon in reversed(self.daemons.values()):
            if daemon.phase is Phase.STOPPING:
                return []
            if daemon.phase is Phase.RUNNING:
                daemon.phase = Phase.STOPPING
                daemon.due_s = now_s + self.config.stop_timeout_s
                return [Say(f"stopping {daemon.name}"), Terminate(daemon.name)]
        if self.finished:
            return []
        if orphans == 0:
            self.finished = True
            return [Say("stopped"), Finish(self.code)]
        if self.sweep_due_s is None:
            self.sweep_due_s = now_s + self.config.stop_timeout_s
            return [Say(f"killing {orphans} left behind"), Terminate("")]
        if self.sweep_until_s is not None and self.sweep_until_s <= now_s:
            self.finished = True
            text = f"{orphans} left behind do not end: {STUCK}; stopped without them"
            return [Say(text), Finish(self.code)]
        if self.sweep_due_s <= now_s:
            if self.sweep_until_s is None:
                self.sweep_until_s = now_s + END_GRACE_S
            self.sweep_due_s = now_s + 0.1
            return [Kill("")]
        return []


def ended(name: str, status: int) -> str:
    if status < 0:
        return f"{name} was killed by signal {-status}"
    return f"{name} ended with exit status {status}"
