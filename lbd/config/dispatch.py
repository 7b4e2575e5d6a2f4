"""What lbd.toml may say of the queue: `[dispatch]` and `[tags]`. No IO, as config.py."""

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
LEASE_S_MAX = 86400.0  # no host believes in a longer one


@dataclass(frozen=True, slots=True)
class DispatchConfig(Section):
    host: str = ""  # the host that runs the dispatcher; "" = this cluster has no queue
    # hosts that run one, too, with PostgreSQL as store: one leads, another takes over when it ends
    standby: tuple[str, ...] = ()
    # how long the others wait for a leader that is silent; 0 = a third of lease_s
    leader_lease_s: float = within(0.0, 0.0, 3600.0)
    # no new jobs are taken; those that are queued go on. `lbctl queue disable` turns it on
    closed: bool = False
    port: int = within(7903, 1, 65535)  # TCP, there, for the LBMs of all hosts
    mode: str = one_of(MODES)  # the queueing discipline
    # the ledger: sqlite:///a/file or postgresql://user@host/database; "" = ledger.sqlite in
    # host.state_dir
    store: str = ""
    # how long a host may hold an attempt without contact: longer survives longer silence, and
    # keeps a job from being started again for as long
    lease_s: float = within(30.0, 1.0, LEASE_S_MAX)
    # a host whose load index is higher takes no more queued jobs
    load_ceiling: float = within(4.0, 0.0, 10000.0)
    # attempts are sent to a host ahead of its free slots while those there take no longer than
    # this altogether: more of very short jobs a second; 0 = none
    ahead_s: float = within(0.05, 0.0, 10.0)
    priorities: bool = False  # jobs of a higher `lbrun --priority` go first
    # users take turns: who has the fewest slots, now and on average over about this long, goes
    # first; 0 = first come, first served
    fair_share_s: float = within(0.0, 0.0, 31_536_000.0)
    user_slots: int = within(0, 0, 1 << 30)  # slots that one user's jobs hold at once; 0 = no limit
    # "licence-*:2": how many jobs of a name run at once, for each name that fits; * and ? as in
    # file names; the first that fits counts
    name_jobs: tuple[str, ...] = listed("licence-*:2")
    # an array stands in the line like one job, and goes to its end when one of its tasks has begun;
    # false = all of it goes before what comes later
    interleave_arrays: bool = True
    # a gang that is next keeps free slots for itself for so long, and lets only jobs pass that end
    # by then; after a pause as long it does so again, for twice as long
    gang_drain_s: float = within(600.0, 0.0, 31_536_000.0)
    # how long the tasks of a gang may take to have their slots and files on all hosts; then all are
    # given back
    gang_hold_s: float = within(60.0, 1.0, 86400.0)
    # who may pass a job that is next and waits for several slots, a resource or a host of its own
    # (-H), if that does not delay it (fcfs): nobody, jobs with a --timeout (limit), or also jobs
    # whose like took so long (learnt). On hosts but the one where it is to begin, anybody may
    backfill: str = one_of(BACKFILLS)
    # of learnt: the probability that a job takes longer than is taken for granted
    backfill_risk: float = within(0.1, 0.001, 0.5)
    # a job of `-n MIN-MAX` at the head of the line: as many slots as are free; as many as it can
    # use of these; or it waits for more if it then ends sooner, by prediction (pred), by corrected
    # prediction (bias) or for a fifth of what it saves (heur)
    malleable: str = one_of(STRATEGIES)
    # a job that waits for more slots names how many, and gets no more: other jobs wait less, and it
    # may get fewer slots
    malleable_lock_in: bool = False
    # a job waits for more slots only for a gain above this share of its run time
    malleable_risk: float = within(0.0, 0.0, 100.0)
    # how long a job waits for more slots at most, since it could have begun; 0 = no limit
    malleable_hold_s: float = within(600.0, 0.0, 31_536_000.0)
    crash_limit: int = within(5, 1, 1000)  # a job that was lost so often is held
    # a job that has had so many attempts and stops at a checkpoint once more is held
    attempts_max: int = within(1000, 2, 1_000_000)
    # a host that has failed so often in a row gets no jobs for a while
    host_failures: int = within(3, 1, 1000)
    # for how long a host that failed gets no jobs; doubles each time
    aside_s: float = within(10.0, 0.1, 86400.0)
    # the longest that a host that failed gets no jobs
    aside_max_s: float = within(600.0, 0.1, 86400.0)
    # jobs in the queue that have not ended; more are refused. One user may have three quarters of
    # them, and those of one host nine tenths. Each takes some 120 bytes as long as it only waits,
    # 360 if it is held, 300 if its name is its own.
    max_jobs: int = within(1_000_000, 1, 1 << 40)
    # what all jobs on record may take of the ledger: their commands, environments and inputs. One
    # user may have as much of it, and of the disk, as is left for all others.
    ledger_bytes: int = within(32 << 30, 1 << 20, 1 << 50)
    max_array: int = within(100_000, 1, 10_000_000)  # tasks of one array, at most
    max_input_bytes: int = within(4 << 20, 0, 11 << 20)  # standard input of a queued job
    # output of an attempt, standard output and error each: of more the middle is dropped
    max_output_bytes: int = within(256 << 20, 1 << 16, 1 << 50)
    # how long the output of queued jobs is kept on the hosts where they ran
    output_keep_days: float = within(7.0, 0.0, 36500.0)
    jobs_keep_days: float = within(90.0, 0.0, 36500.0)  # how long the ledger keeps ended jobs
    # about how many ended jobs the ledger keeps; of more, users with the most lose their oldest
    jobs_keep: int = within(1_000_000, 0, 1 << 40)

    # bytes a second that the dispatcher takes from one host, and four times as much at once, of
    # questions and submissions 16 times; more waits, and holds up nobody else
    host_bytes_per_s: int = within(1 << 20, 1 << 16, 1 << 40)
    host_message_bytes: int = within(
        2 << 20, 1 << 16, 1 << 30
    )  # the longest message of a host's LBM
    # a host that is so far behind with what it is sent gets no further attempts
    host_behind_bytes: int = within(256 << 20, 1 << 20, 1 << 50)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts whose dispatchers may lead, in order of preference; () = no queue."""
        return tuple(dict.fromkeys((self.host, *self.standby))) if self.host else ()

    @property
    def in_postgres(self) -> bool:
        """Whether the store is a database that several hosts can reach."""
        return self.store.startswith("postgres")

    @property
    def term_s(self) -> float:
        """How long a leader's term lasts without renewal."""
        return self.leader_lease_s or max(TERM_MIN_S, self.lease_s / 3)


@dataclass(frozen=True, slots=True)
class TagsConfig(Section):
    # s_i: CPU seconds at which tier i kills; also of sita-e; [] = solved from the queue's own past
    cutoffs_s: tuple[float, ...] = ()
    # "h1:1", "h2:2,3": which tiers a host serves; [] = all hosts spread evenly, in their order
    tiers: tuple[str, ...] = listed("h1:1", "h2:2,3")
    # a host with nothing to do in its own tiers helps a lower one
    work_conserving: bool = False
    # what solved cutoffs make least; fairness: small and large jobs are slowed down alike
    objective: str = one_of(OBJECTIVES)
    solve_every_s: float = within(600.0, 1.0, 1e9)  # how often cutoffs are solved again
    solve_jobs: int = within(
        200, 2, 1_000_000
    )  # ended jobs that it takes before any cutoff is solved
    solve_days: float = within(7.0, 0.001, 36500.0)  # how far back solving looks
    # by what share solved cutoffs must be better than those in force to replace them
    min_gain: float = within(0.1, 0.0, 1.0)
