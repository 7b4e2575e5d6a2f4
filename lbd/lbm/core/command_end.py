"""How a command ended that was to run elsewhere, as its `lbrun` hears of it."""

from errno import ENOENT

from lbd.model import HostId, quick_value
from lbd.text.one_line import one_line

LBRUN_FAILED = 125  # it never began, or its end is not known
CANNOT_EXECUTE, NOT_FOUND = 126, 127
BY_SIGNAL = 128  # and more, by the number


@quick_value
class CommandEnd:
    status: int
    cause: str
    host: str = ""
    reason: str = ""
    signal: int = 0  # its number
    cpu_s: float = 0.0
    attempt: int = 1  # of a job of the queue
    heard_signals: int | None = None  # by the command, bit N for signal N; None: nobody knows


def status_of_refusal(phase: str, errno: int) -> int:
    """`phase`: where the start failed."""
    if phase != "exec":
        return LBRUN_FAILED
    return NOT_FOUND if errno == ENOENT else CANNOT_EXECUTE


def why_ended(
    cause: str, reason: str, host: HostId, timeout_s: float = 0.0, memory_bytes: int = 0
) -> str:
    """Otherwise than by itself; "" if it did not. `reason`: as that host says, if it does."""
    if cause == "timeout":
        return f"ended at its time limit of {timeout_s:g} s"
    if cause == "evicted":
        return f"ended because the owner of {host} is back"
    if reason := one_line(reason):
        return f"{host}: {reason}"
    if cause == "memory":
        return f"over its memory limit of {memory_bytes} bytes"
    return ""
