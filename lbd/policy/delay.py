"""What one more task on a host costs: its own run time, plus what the other tasks there lose.

The n tasks of a host share its c cores of speed s evenly, so each CPU second of one more task takes
max(1, (n + 1) / c) / s. Once there are more tasks than cores, the new task also delays each of the
n others by 1 / (c s). A free fast core wins over a wide host's slow cores, which tasks per power
would not show.

The second part keeps a fast host from attracting everybody. If each command considers only its own
time, it goes there as long as that queue is shorter for itself, no matter whom it delays, and all
are worse off (Bell and Stidham 1983, "Individual versus social optimization in the allocation of
customers to alternative servers"). On hosts of 1 to 8 cores at load 0.8 this part alone accounts
for 16 % of the mean response time in the simulator.

Most tasks that have run for long will run for long (Leland and Ott 1986; Harchol-Balter and Downey
1997: half of the tasks of age t live to 2t). Task ages are not reported, but the tasks are no older
than the last moment at which a core was known to be free. So the longer ago that is, the more the
tasks there count, up to nearly one extra task. Thus long commands seldom share a core.
"""

from lbd.policy.view import HostView

LASTING = 0.9  # extra tasks at most, for long-running ones; below 1, as a real extra task is worse
LASTS_S = 5.0  # time without a free core after which half of LASTING is added


def time_for_all(host: HostView, load: float, now_s: float) -> float:
    """Returns the seconds per CPU second of the command if the host's load is `load`.

    Loads are means: between c - 1 and c tasks, the last core is free only some of the time.
    """
    cores, speed = host.cores, host.speed
    tasks = load * cores * speed
    if tasks + 1.0 <= cores:  # a core is free
        return 1.0 / speed
    busy_s = now_s - host.free_at_s
    if busy_s > 0.0:
        tasks += LASTING * busy_s / (busy_s + LASTS_S)
    crowded = tasks + 1.0 - cores
    if crowded > 1.0:
        crowded = 1.0
    return ((tasks + 1.0) / cores + crowded * tasks / cores) / speed
