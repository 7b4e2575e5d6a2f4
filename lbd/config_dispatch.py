"""What lbd.toml may say of the queue: `[dispatch]` and `[tags]`. No IO, as config.py."""

from dataclasses import dataclass

from lbd.config_field import Section, one_of, within

MODES = ("fcfs", "tags", "random", "round-robin", "shortest-queue", "least-work", "sita-e")


@dataclass(frozen=True, slots=True)
class DispatchConfig(Section):
    host: str = ""  # the host that runs the dispatcher; "" = this cluster has no queue
    port: int = within(7903, 1, 65535)  # TCP, there, for the LBMs of all hosts
    mode: str = one_of(MODES)  # the queueing discipline
    store: str = ""  # the ledger: sqlite:///a/file; "" = ledger.sqlite in host.state_dir
    # how long a host may hold an attempt without contact: longer survives longer silence, and
    # keeps a job from being started again for as long
    lease_s: float = within(30.0, 1.0, 86400.0)
    # a host whose load index is higher takes no more queued jobs
    load_ceiling: float = within(4.0, 0.0, 10000.0)
    crash_limit: int = within(5, 1, 1000)  # a job that was lost so often is held
    host_failures: int = within(3, 1, 1000)  # in a row, of a host: then it gets no jobs
    aside_s: float = within(10.0, 0.1, 86400.0)  # for so long; doubles each time
    aside_max_s: float = within(600.0, 0.1, 86400.0)  # and no longer than this
    max_jobs: int = within(1_000_000, 1, 1 << 40)  # that have not ended; more are refused
    max_array: int = within(100_000, 1, 10_000_000)  # jobs of one array
    max_input_bytes: int = within(4 << 20, 0, 11 << 20)  # standard input of a queued command
    # output of an attempt, standard output and error each: of more the middle is dropped
    max_output_bytes: int = within(256 << 20, 1 << 16, 1 << 50)
    output_keep_days: float = within(7.0, 0.0, 36500.0)  # on the hosts where it was made
    jobs_keep_days: float = within(90.0, 0.0, 36500.0)  # ended jobs in the ledger


@dataclass(frozen=True, slots=True)
class TagsConfig(Section):
    cutoffs_s: tuple[float, ...] = ()  # s_i: CPU seconds at which tier i kills; also of sita-e
    # "h1:1", "h2:2,3": which tiers a host serves; [] = all hosts spread evenly, in their order
    tiers: tuple[str, ...] = ()
    # a host with nothing to do in its own tiers helps a lower one
    work_conserving: bool = False
