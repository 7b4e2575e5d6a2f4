"""`scontrol show node` and `scontrol show partition`."""

from lbd.slurm.hostlist import hosts_in
from lbd.slurm.options import PARTITION, SlurmError
from lbd.slurm.sinfo import LONG_STATES, OF_HOST, Host, host_of, hosts, text_of


def nodes(names: str) -> list[list[tuple[str, str]]]:
    """Returns what is shown of each of these hosts, or of all for "". Raises SlurmError."""
    found = {host.name: host for host in map(host_of, hosts())}
    wanted = hosts_in(names) or list(found)
    for name in wanted:
        if name not in found:
            raise SlurmError(f"Node {name} not found")
    return [node(found[name]) for name in wanted]


def node(host: Host) -> list[tuple[str, str]]:
    state = LONG_STATES.get(host.state, host.state).upper()
    pairs = [
        ("NodeName", host.name),
        ("CPUAlloc", str(host.used)),
        ("CPUTot", str(host.slots)),
        ("CPULoad", OF_HOST["O"][1](host)),
        ("AvailableFeatures", OF_HOST["f"][1](host)),
        ("Gres", OF_HOST["G"][1](host)),
        ("NodeAddr", text_of(host.row.get("address")) or "(null)"),
        ("RealMemory", OF_HOST["m"][1](host)),
        ("FreeMem", OF_HOST["e"][1](host)),
        ("State", "IDLE+DRAIN" if state == "DRAINED" else state),
        ("Partitions", PARTITION),
    ]
    if host.row.get("drained"):
        by, at = OF_HOST["u"][1](host), OF_HOST["H"][1](host)
        pairs.append(("Reason", f"{OF_HOST['E'][1](host)} [{by}@{at}]"))
    return pairs


def partition(name: str) -> list[tuple[str, str]]:
    """Raises SlurmError."""
    if name not in ("", PARTITION):
        raise SlurmError(f"Partition {name} not found")
    found = list(map(host_of, hosts()))
    return [
        ("PartitionName", PARTITION),
        ("Default", "YES"),
        ("MaxTime", "UNLIMITED"),
        ("Nodes", ",".join(host.name for host in found)),
        ("State", "UP"),
        ("TotalCPUs", str(sum(host.slots for host in found))),
        ("TotalNodes", str(len(found))),
    ]
