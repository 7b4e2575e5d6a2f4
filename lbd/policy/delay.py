"""What one more task on a host costs: the time it takes itself, and what the others there lose.

The tasks n of a host share its c cores of speed s evenly, so each CPU second of one more takes
max(1, (n + 1) / c) / s; and once there are more tasks than cores it delays each of the n others by
1 / (c s). A fast core that is free wins over a wide host's slow ones, which tasks per power would
not show.

The second part is what keeps a fast host from drawing everybody: who looks at his own time alone
goes there as long as its queue is the shorter one for him, whomever he delays, and all are worse
off (Bell and Stidham 1983, "Individual versus social optimization in the allocation of customers to
alternative servers"). On hosts of 1 to 8 cores at load 0.8 that alone makes 16 % of the mean
response time in the simulator.

Of tasks that have been there long most will stay long (Leland and Ott 1986; Harchol-Balter and
Downey 1997: half of those of age t live to 2t). How old tasks are nobody tells, but they are no
older than the last moment at which we know that a core was free; so the longer ago that is, the
more the tasks there count, up to nearly one task more. Thus long commands seldom share a core.
"""

from lbd.policy.view import HostView

LASTING = 0.9  # tasks at most, for long ones; below 1, as one task more is worse than an old one
LASTS_S = 5.0  # without a free core, after which half of that is added


def time_for_all(host: HostView, load: float, now_s: float) -> float:
    """Seconds for each CPU second of the command, if the host's load is so.

    Loads are means: between c - 1 and c tasks the last core is free at times only.
    """
    cores, speed = host.cores, host.speed
    tasks = load * cores * speed
    if tasks + 1.0 <= cores:  # one is free
        return 1.0 / speed
    busy_s = now_s - host.free_at_s
    if busy_s > 0.0:
        tasks += LASTING * busy_s / (busy_s + LASTS_S)
    crowded = tasks + 1.0 - cores
    if crowded > 1.0:
        crowded = 1.0
    return ((tasks + 1.0) / cores + crowded * tasks / cores) / speed
