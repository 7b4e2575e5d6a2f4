"""What a LIM answers to `metrics`: see lbd/metrics/core/table.py."""

from collections import Counter
from collections.abc import Iterable, Mapping

from lbd.lim.core.state import LimState
from lbd.lim.core.table import Entry
from lbd.local.json_socket import Json
from lbd.metrics.core.table import HOSTS_MAX
from lbd.model import HostState
from lbd.net.lim_network import Traffic

FRESH = (HostState.UP, HostState.DRAINED)


def lim_metrics(
    state: LimState, traffic: Traffic, undelivered: Mapping[str, int], now_s: float
) -> Json:
    placer, table = state.placer, state.table
    return {
        **own_load(table.entries[state.me]),
        **hosts(state, now_s),
        "drained": state.drained,
        "is_centre": placer.is_centre,
        "decisions": [[*key, count] for key, count in placer.by_algorithm.items()],
        "charged_jobs": table.charged_jobs(),
        "lim_messages": in_and_out(traffic.messages_in, traffic.messages_out),
        "lim_message_bytes": in_and_out(traffic.bytes_in, traffic.bytes_out),
        "lim_messages_refused": traffic.refused,
        "lim_messages_undelivered": [[kind, count] for kind, count in undelivered.items()],
    }


def own_load(entry: Entry) -> Json:
    if entry.sample is None:
        return {}
    vector = entry.sample.vector
    queues = vector.queues
    return {
        "load_index": vector.index,
        "load_queue_tasks": [["cpu", queues.cpu], ["io", queues.io], ["memory", queues.memory]],
        "cpu_utilisation_ratio": vector.utilisation,
        "usable_cores": vector.cores,
        "memory_bytes": vector.memory_total or None,
        "memory_available_bytes": vector.memory_available if vector.memory_total else None,
    }


def hosts(state: LimState, now_s: float) -> Json:
    """Returns figures of the hosts. Only the centre lists each host: otherwise N hosts would make N
    times N series."""
    table, states = state.table, Counter[str]()
    loads: list[object] = []
    ages: list[object] = []
    oldest_s, sum_s, fresh = 0.0, 0.0, 0
    for name, entry in table.entries.items():
        found = table.state(name, now_s)[0]
        states[found.value] += 1
        if entry.sample is None:
            continue
        age_s = max(0.0, now_s - entry.sampled_at_s)
        if found in FRESH:
            oldest_s, sum_s, fresh = max(oldest_s, age_s), sum_s + age_s, fresh + 1
        if state.placer.is_centre and len(loads) < HOSTS_MAX:
            loads.append([name, entry.sample.vector.index])
            ages.append([name, age_s])
    return {
        "hosts": [[one.value, states[one.value]] for one in HostState],
        "load_age_max_seconds": oldest_s,
        "load_age_mean_seconds": sum_s / fresh if fresh else 0.0,
        "host_load_index": loads,
        "host_load_age_seconds": ages,
    }


def in_and_out(came: Mapping[str, int], went: Mapping[str, int]) -> list[object]:
    return [*rows(came, "in"), *rows(went, "out")]


def rows(counts: Mapping[str, int], direction: str) -> Iterable[list[object]]:
    return ([kind, direction, count] for kind, count in counts.items())
