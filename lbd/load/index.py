"""The load index: formulas only.

    Q_i   = Q_{i-1} * e^(-dt/T) + q_i * (1 - e^(-dt/T))
    index = (Q_cpu + w_io * Q_io + w_mem * Q_mem) / (usable cores * speed)

Zhou 1987, section 4.3.3, prints the two weights of the smoothing the other way round; that form
cannot be right: at T = 20 s the index would hardly ever move.

`load.index` selects the measure that is exchanged. By the thesis's tables 4.5 and 4.6 queues
smoothed over 1 to 4 s are best; the others are for comparison:

    smoothed       the index above
    instant        the same with T = 0: the mean of one second
    queue-T        Q_cpu alone, smoothed over 1, 4, 20 or 60 s
    load-average   runnable tasks and those in disk wait alike, T = 60 s, as UNIX shows it
    utilisation    of the usable cores, smoothed over T; it cannot tell busy from overloaded
    utilisation-T  the same over 10 or 60 s
    site:NAME      what the site measures itself (site.py)
"""

import math

from lbd.config.schema import SITE, LoadConfig
from lbd.model import Queues

# A page read from swap keeps a task waiting about this long (flash; a disk takes longer).
PAGE_IN_S = 0.002
LOAD_AVERAGE_S = 60.0
WINDOW_S = 1.0  # length of one reading of the sampler
HALF_A_WINDOW_S = WINDOW_S / 2  # a reading shows a job in full one window after it began


def smoothed(old: float, new: float, dt_s: float, smoothing_s: float) -> float:
    """Returns the exponentially smoothed mean after `new` was observed for `dt_s`."""
    keep = math.exp(-dt_s / smoothing_s) if smoothing_s > 0 else 0.0
    return old * keep + new * (1.0 - keep)


def smoothed_queues(old: Queues, new: Queues, dt_s: float, smoothing_s: float) -> Queues:
    return Queues(
        cpu=smoothed(old.cpu, new.cpu, dt_s, smoothing_s),
        io=smoothed(old.io, new.io, dt_s, smoothing_s),
        memory=smoothed(old.memory, new.memory, dt_s, smoothing_s),
    )


def load_index(
    queues: Queues, cores: float, speed: float, io_weight: float, memory_weight: float
) -> float:
    """Returns the tasks per usable core of reference speed."""
    tasks = queues.cpu + io_weight * queues.io + memory_weight * queues.memory
    return tasks / (cores * speed)


def smoothing_s(load: LoadConfig) -> float:
    """Returns T of the index that is exchanged."""
    fixed = {"instant": 0.0, "load-average": LOAD_AVERAGE_S}
    if load.index in fixed:
        return fixed[load.index]
    seconds = load.index.rpartition("-")[2]
    return float(seconds) if seconds.isdigit() else load.smoothing_s


def fade_s(load: LoadConfig) -> float:
    """Returns how fast a new job shows in the index, and so how fast a charge for that job may
    fade."""
    if load.index.startswith(SITE):
        return HALF_A_WINDOW_S + load.site_period_s
    return max(HALF_A_WINDOW_S, smoothing_s(load))


def exchanged(
    load: LoadConfig, queues: Queues, utilisation: float, cores: float, speed: float
) -> float:
    """Returns the index that `load.index` names, from queues and a utilisation smoothed over its
    T."""
    measure = load.index.partition("-")[0]
    if measure == "utilisation":
        return utilisation / speed
    if measure == "load":
        return (queues.cpu + queues.io) / (cores * speed)
    if measure == "queue":
        return queues.cpu / (cores * speed)
    return load_index(queues, cores, speed, load.io_weight, load.memory_weight)


def stalled_tasks(stall_us: float, dt_s: float) -> float:
    """Returns the mean tasks stalled on memory while PSI's `some total` grew by `stall_us` in
    `dt_s`.

    PSI counts the time in which at least one task was stalled, so this never exceeds 1.
    """
    return min(1.0, max(0.0, stall_us / 1e6 / dt_s)) if dt_s > 0 else 0.0


def paging_tasks(pages_in: float, dt_s: float) -> float:
    """Estimates the same without PSI, by Little's law: arrivals per second times the wait of
    each."""
    return max(0.0, pages_in) / dt_s * PAGE_IN_S if dt_s > 0 else 0.0


def scan_interval_s(cost_s: float, core_share: float, sample_hz: float) -> float:
    """Returns how long to wait between scans of `cost_s` each, so that they use at most
    `core_share`."""
    return max(1.0 / sample_hz, cost_s / core_share)
