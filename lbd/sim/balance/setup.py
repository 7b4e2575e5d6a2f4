"""The parameters of a load balancing simulation, parsed from words like `probe_limit=9`.

The algorithms' parameters are those of `[lim]` and default to the thesis's values: T_l = 0, Δ = 1,
P = 1 s, T_CPU = 1 s, L_p = 9, R = 5. The load index is the present CPU queue length.
"""

from dataclasses import dataclass, field, fields, replace

from lbd.config.schema import ALGORITHMS, LimConfig, LoadConfig
from lbd.errors import ConfigError
from lbd.lim.core.settings import SHARED, InForce, overlaid, parsed
from lbd.sim.balance.trace import TraceJob
from lbd.sim.balance.workload import BERKELEY, IMBALANCE, Costs, Workload
from lbd.text.spelling import hint

BOUNDS = ("PartCOST", "NoCOST")
EVERY = ("NOLB", *(name for name in ALGORITHMS if name != "NOLB"), *BOUNDS)
NEVER_S = 86400.0

# Nothing fails here, so no report is repeated, and no host is late or down.
LIM = LimConfig(
    exchange_period_s=1.0, local_threshold=0.0, report_ceiling=10000.0, min_gain=1.0, probe_limit=9,
    reservations=5, job_threshold_s=1.0, change_threshold=0.01, keepalive_s=3600.0,
    probe_timeout_s=60.0, stale_after_s=NEVER_S, down_after_s=NEVER_S, centre_silence_s=NEVER_S,
    max_hosts=65536, move_cost_s=0.4,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setup:
    workload: Workload
    hosts: int = 28
    utilisation: float = 0.0  # 0: as the workload was measured
    duration_s: float = 3600.0
    seed: int = 1
    lim: LimConfig = LIM
    costs: Costs = BERKELEY
    cores: tuple[float, ...] = (1.0,)  # of the hosts, repeated in turn
    speeds: tuple[float, ...] = (1.0,)
    immobile: float = 0.0  # τ: the share of jobs that must stay, whatever their size
    # standard deviation of the logarithm of the CPU times that PREDICT knows
    learnt_error: float = 0.0
    imbalance: float = IMBALANCE
    weights: tuple[float, ...] = ()  # of the hosts' loads, repeated in turn; replaces `imbalance`
    smoothing_s: float = 0.0  # T; 0: unsmoothed
    # the sampler reports the mean of each window at its end; 0: the present value
    window_s: float = 0.0
    index: str = "queue"  # of the CPUs; or "utilisation" of them; or "sum", of CPUs and disks
    quantum_s: float = 0.0  # of round robin; 0: tasks share the CPUs equally at every moment
    disks: int = 0  # of each host; 0: unlimited, so nothing waits
    trace: tuple[TraceJob, ...] = field(default=(), repr=False)  # replaces random jobs
    # jobs of the trace that must stay
    pinned: frozenset[int] = field(default=frozenset(), repr=False)

    def power(self, host: int) -> tuple[float, float]:
        """(cores, speed)"""
        return self.cores[host % len(self.cores)], self.speeds[host % len(self.speeds)]


NUMBERS = {
    "immobile": (0.0, 1.0), "imbalance": (0.0, 0.9), "smoothing_s": (0.0, 600.0),
    "window_s": (0.0, 60.0),
    "quantum_s": (0.0, 3600.0), "learnt_error": (0.0, 3.0),
}  # fmt: skip
LISTS = {"cores": (0.1, 1024.0), "speeds": (0.01, 100.0), "weights": (0.01, 100.0)}
INDICES = ("queue", "utilisation", "sum")
SMOOTHED_S = LoadConfig().smoothing_s
# The daemons' index names, and what they mean here.
AS_LIVE = {
    "instant": ("sum", 0.0), "smoothed": ("sum", SMOOTHED_S), "load-average": ("sum", 60.0),
    **{f"queue-{t}": ("queue", float(t)) for t in (1, 4, 20, 60)},
    **{f"utilisation-{t}": ("utilisation", float(t)) for t in (10, 60)},
}  # fmt: skip
COSTS = tuple(item.name for item in fields(Costs))


def with_settings(setup: Setup, words: list[str]) -> Setup:
    """Applies PARAM=VALUE words. Raises ConfigError that suggests the nearest spelling."""
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(f'"{word}" is not PARAM=VALUE')
        setup = with_setting(setup, name.strip().removeprefix("lim."), value.strip())
    return setup


def with_setting(setup: Setup, name: str, value: str) -> Setup:
    if name in SHARED:
        return replace(setup, lim=with_lim(setup.lim, name, value))
    if name in COSTS:
        cost = number(name, value, 0.0, 3600.0)
        return replace(setup, costs=replace(setup.costs, **{name: cost}))
    if name in NUMBERS:
        found = number(name, value, *NUMBERS[name])
        return replace(setup, **{name: found})  # type: ignore[arg-type]  # all are floats
    if name in LISTS:
        values = tuple(number(name, part, *LISTS[name]) for part in value.split(","))
        return replace(setup, **{name: values})  # type: ignore[arg-type]  # all are tuples
    if name == "disks":
        disks = number(name, value, 0, 1000)
        if not disks.is_integer():
            raise ConfigError(f"disks: {value} is not a whole number from 0 to 1000")
        return replace(setup, disks=int(disks))
    if name == "index":
        if value in AS_LIVE:
            index, smoothing_s = AS_LIVE[value]
            return replace(setup, index=index, smoothing_s=smoothing_s)
        if value not in INDICES:
            raise ConfigError(f'index: no "{value}"; {hint(value, (*INDICES, *AS_LIVE))}')
        return replace(setup, index=value)
    known = [*SHARED, *COSTS, *NUMBERS, *LISTS, "index", "disks"]
    raise ConfigError(f'no parameter "{name}"; {hint(name, known)}')


def with_lim(lim: LimConfig, name: str, value: str) -> LimConfig:
    """Sets a parameter as `lbctl param` would."""
    full = f"lim.{name}"
    return overlaid(InForce(lim, LoadConfig()), {full: parsed(full, value)}).lim


def number(name: str, value: str, low: float, high: float) -> float:
    try:
        found = float(value)
    except ValueError:
        raise ConfigError(f'{name}: "{value}" is not a number') from None
    if not low <= found <= high:
        raise ConfigError(f"{name}: {value} is out of range; allowed: {low:g} to {high:g}")
    return found


def algorithms(name: str) -> tuple[str, ...]:
    """Returns the algorithms to run, NOLB first. Raises ConfigError for an unknown name."""
    if name.upper() == "ALL":
        return EVERY
    for known in EVERY:
        if known.upper() == name.upper():
            return ("NOLB",) if known == "NOLB" else ("NOLB", known)
    raise ConfigError(f'no algorithm "{name}"; {hint(name, (*EVERY, "ALL"))}')
