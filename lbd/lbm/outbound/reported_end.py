"""Checks the end of a plain command, as another host reports it. Pure."""

from lbd.errors import LostContact
from lbd.net.gen import lbm_pb2

STATUS_MAX, SIGNAL_MAX = 255, 64
CPU_S_MAX = 1e11  # of the command's own code and of the kernel, each
CAUSE_CHARS = 40


def checked_end(host: str, ended: lbm_pb2.Ended) -> lbm_pb2.Ended:
    """Raises LostContact if no command can have ended so. Such values would reach the exit status
    of lbrun, the status file, which is no JSON with a NaN in it, and everybody's lists."""
    cause = ended.cause
    rules = {
        "exit_status": 0 <= ended.exit_status <= STATUS_MAX,
        "signal": 0 <= ended.signal <= SIGNAL_MAX,
        "cause": len(cause) <= CAUSE_CHARS and cause.isprintable(),
        # false of a NaN, too
        "cpu_s": 0 <= ended.user_cpu_s <= CPU_S_MAX and 0 <= ended.system_cpu_s <= CPU_S_MAX,
    }
    if fault := ", ".join(name for name, holds in rules.items() if not holds):
        raise LostContact(f"protocol error from {host}: its end: {fault}")
    return ended
