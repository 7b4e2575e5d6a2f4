"""The sections of lbd.toml about the queue: `[dispatch]` and `[tags]`. No IO, as in schema.py."""

from dataclasses import dataclass
from typing import Literal, get_args

from lbd.config.fields import Section, listed, one_of, within

Mode = Literal["fcfs", "tags", "random", "round-robin", "shortest-queue", "least-work", "sita-e"]
MODES: tuple[Mode, ...] = get_args(Mode)
Strategy = Literal["free", "avg", "pred", "bias", "heur"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
BackfillRule = Literal["off", "limit", "learnt"]
BACKFILLS: tuple[BackfillRule, ...] = get_args(BackfillRule)
Objective = Literal["slowdown", "waiting", "fairness"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
TERM_MIN_S = 0.5
LEASE_S_MIN, LEASE_S_MAX = 1.0, 86400.0  # no host accepts another one
HEARTBEATS_PER_LEASE = 4  # of a host; each renews its leases
HEARTBEAT_S_MAX = 10.0  # a host sends one at least so often, however long leases are


@dataclass(frozen=True, slots=True)
class DispatchConfig(Section):
    host: str = ""  # the host that runs the dispatcher; "" = this cluster has no queue
    # further hosts that run one, with PostgreSQL as store: one leads, and another takes over when
    # it ends
    standby: tuple[str, ...] = ()
    # how long the others wait for a silent leader; 0 = a third of lease_s
    leader_lease_s: float = within(0.0, 0.0, 3600.0)
    closed: bool = False  # accept no new jobs; queued ones continue. Set by `lbctl queue disable`
    port: int = within(7903, 1, 65535)  # TCP port on that host, for the LBMs of all hosts
    mode: str = one_of(MODES)  # the queueing discipline
    # the ledger: sqlite:///srv/lbd/ledger.sqlite (three slashes, a whole path) or
    # postgresql://user@host/database; "" = ledger.sqlite in host.state_dir
    store: str = ""
    # how long a host may hold an attempt without contact: longer survives longer silence, but
    # delays starting a lost job again. An attempt keeps a longer lease granted before until that
    # has run out
    lease_s: float = within(30.0, LEASE_S_MIN, LEASE_S_MAX)
    # with SQLite: how long the first dispatcher after a boot, if it has jobs from before, waits
    # until another host confirms that this host was not replaced meanwhile (lbctl restore); 0 = it
    # asks once
    confirm_s: float = within(60.0, 0.0, 31_536_000.0)
    # hosts whose load index is higher get no more queued jobs
    load_ceiling: float = within(4.0, 0.0, 10000.0)
    # send a host attempts ahead of its free slots as long as those waiting there take no longer
    # than this in total: more very short jobs per second; 0 = never
    ahead_s: float = within(0.05, 0.0, 10.0)
    priorities: bool = False  # start jobs with a higher `lbrun --priority` first
    # users take turns: the user with the fewest slots, now and on average over about this long,
    # goes first; 0 = first come, first served
    fair_share_s: float = within(0.0, 0.0, 31_536_000.0)
    # slots that one user's jobs may hold at once; 0 = no limit
    user_slots: int = within(0, 0, 1 << 30)
    # "licence-*:2": how many jobs of a name may run at once, for each name that matches; * and ? as
    # in file names; the first match counts
    name_jobs: tuple[str, ...] = listed("licence-*:2")
    # an array queues like one job and goes to the end of the queue each time one of its tasks
    # starts; false = all its tasks start before later jobs
    interleave_arrays: bool = True
    # how long a host that was given an attempt may take to begin it; one that brings files along
    # may take six times as long. Then the attempt is lost, and the job starts elsewhere unless it
    # may not restart
    begin_timeout_s: float = within(600.0, 10.0, 86400.0)
    # a gang at the head of the queue reserves free slots for this long and lets only jobs pass that
    # end in time; after an equal pause it does so again, for twice as long
    gang_drain_s: float = within(600.0, 0.0, 31_536_000.0)
    # how long the tasks of a gang may take to get their slots and files on all hosts; after that,
    # all are given back
    gang_hold_s: float = within(60.0, 1.0, 86400.0)
    # which jobs may pass a job at the head of the queue that waits for several slots, a resource or
    # one host (-H), if that does not delay it (fcfs): none (off), jobs with a --timeout (limit), or
    # also jobs with known run times (learnt). On hosts other than the one where it will start, any
    # job may
    backfill: str = one_of(BACKFILLS)
    # for learnt: the accepted probability that a job takes longer than assumed
    backfill_risk: float = within(0.1, 0.001, 0.5)
    # how many slots a job of `-n MIN-MAX` at the head of the queue gets: as many as are free
    # (free); as many of these as it can use (avg); or it waits for more if it would then end
    # sooner, by prediction (pred), by corrected prediction (bias), or for a fifth of what that
    # saves (heur)
    malleable: str = one_of(STRATEGIES)
    # a job that waits for more slots asks for a number of them and gets no more: other jobs wait
    # less, but it may get fewer slots
    malleable_lock_in: bool = False
    # a job waits for more slots only if it gains more than this share of its run time
    malleable_risk: float = within(0.0, 0.0, 100.0)
    # how long a job that could start may wait for more slots; 0 = no limit
    malleable_hold_s: float = within(600.0, 0.0, 31_536_000.0)
    crash_limit: int = within(5, 1, 1000)  # a job whose attempts were lost this often is held
    # a job that stops at a checkpoint after this many attempts is held, also one that hosts have
    # given back so often, saying that it was nobody's fault
    attempts_max: int = within(1000, 2, 1_000_000)
    # a host that fails this often in a row gets no jobs for a while
    host_failures: int = within(3, 1, 1000)
    # how long a host that failed gets no jobs; doubles each time
    aside_s: float = within(10.0, 0.1, 86400.0)
    # longest time that a host that failed gets no jobs
    aside_max_s: float = within(600.0, 0.1, 86400.0)
    # queued jobs that have not ended; more are refused. One user may have three quarters of them,
    # one host nine tenths, of 4,096 users at most. In memory, each takes about 120 bytes while it
    # only waits, 360 if held, 300 if it has a name of its own, 800 if it waits for a time or a job
    max_jobs: int = within(1_000_000, 1, 1 << 40)
    # space in the ledger for all jobs on record: their commands, environments and inputs. One user
    # may have as much of it, and of the disk, as is left for all others
    ledger_bytes: int = within(32 << 30, 1 << 20, 1 << 50)
    # most tasks of one array. Each may have 10,000 arguments and variables, a job alone 20,000
    max_array: int = within(100_000, 1, 10_000_000)
    max_input_bytes: int = within(4 << 20, 0, 11 << 20)  # most standard input of a queued job
    # most output of an attempt, for standard output and error each; beyond that, the middle is
    # dropped
    max_output_bytes: int = within(256 << 20, 1 << 16, 1 << 50)
    # how long the hosts where queued jobs ran keep their output
    output_keep_days: float = within(7.0, 0.0, 36500.0)
    jobs_keep_days: float = within(90.0, 0.0, 36500.0)  # how long the ledger keeps ended jobs
    # approximate number of ended jobs the ledger keeps; beyond that, of the hosts from which most
    # were submitted, the users with the most lose their oldest
    jobs_keep: int = within(1_000_000, 0, 1 << 40)

    # bytes per second that the dispatcher accepts from one host, with bursts of four times as much
    # (16 times for questions and submissions); the rest waits without delaying others
    host_bytes_per_s: int = within(1 << 20, 1 << 16, 1 << 40)
    host_message_bytes: int = within(2 << 20, 1 << 16, 1 << 30)  # longest message from a host's LBM
    # a host with this many unread bytes gets no further attempts
    host_behind_bytes: int = within(256 << 20, 1 << 20, 1 << 50)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Returns the hosts whose dispatchers may lead, in order of preference; () = no queue."""
        return tuple(dict.fromkeys((self.host, *self.standby))) if self.host else ()

    @property
    def in_postgres(self) -> bool:
        """Returns whether the store is a database that several hosts can reach."""
        return self.store.startswith("postgres")

    @property
    def term_s(self) -> float:
        """Returns how long a leader's term lasts without renewal."""
        return self.leader_lease_s or max(TERM_MIN_S, self.lease_s / 3)


@dataclass(frozen=True, slots=True)
class TagsConfig(Section):
    # s_i: CPU seconds at which tier i kills jobs; also for sita-e; [] = solved from the queue's own
    # past
    cutoffs_s: tuple[float, ...] = ()
    # "h1:1", "h2:2,3": which tiers a host serves; [] = all hosts spread evenly, in their order
    tiers: tuple[str, ...] = listed("h1:1", "h2:2,3")
    work_conserving: bool = False  # a host that is idle in its own tiers helps a lower one
    # what solved cutoffs minimise; fairness: the same slowdown for small and large jobs
    objective: str = one_of(OBJECTIVES)
    solve_every_s: float = within(600.0, 1.0, 1e9)  # how often cutoffs are solved again
    solve_jobs: int = within(200, 2, 1_000_000)  # ended jobs needed before cutoffs are solved
    solve_days: float = within(7.0, 0.001, 36500.0)  # how far back solving looks
    # how much better (as a share) solved cutoffs must be than those in force to replace them
    min_gain: float = within(0.1, 0.0, 1.0)
