"""What an array costs grows with its tasks: how much each of so many may bring along. Pure."""

from lbd.config.dispatch import DispatchConfig
from lbd.dispatch.core.ledger_rows import Submission

AFTER_MAX = 1000  # jobs that one waits for, as lbrun has it
AFTER_OF_TASK = 4  # that each task of an array of dispatch.max_array may wait for
TASK_WORDS_MAX = 10_000  # arguments and variables: to start each task takes the longer, the more
# Names of hosts that are left out: they are on record with each task.
EXCLUDED_BYTES_MAX, ARRAY_EXCLUDED_BYTES_MAX = 16 << 10, 16 << 20


def conditions_most(own: DispatchConfig) -> int:
    """Jobs that those of one array, or of one user, may wait for, counted for each that waits."""
    return max(AFTER_MAX, AFTER_OF_TASK * own.max_array)


def fault_of_tasks(sent: Submission, words: int, after: int, own: DispatchConfig) -> str:
    """Why there cannot be so many, "" if there can. `words`: arguments and variables; `after`: jobs
    that each waits for."""
    if not 1 <= sent.count <= own.max_array:
        return f"--array: {sent.count} tasks; dispatch.max_array is {own.max_array}"
    if sent.count > 1 and words > TASK_WORDS_MAX:
        return (
            f"--array: {words} arguments and variables; the limit for each of several tasks is "
            f"{TASK_WORDS_MAX}: let them read from a file"
        )
    if sent.count * after > (most := conditions_most(own)):
        return (
            f"--after: {after} jobs for each of {sent.count} tasks; the limit for so many is "
            f"{most // sent.count}: let one job wait for them all, and the array for that job"
        )
    excluded_bytes = len(sent.barred_text.encode(errors="replace"))
    most = min(EXCLUDED_BYTES_MAX, ARRAY_EXCLUDED_BYTES_MAX // sent.count)
    if excluded_bytes > most:
        of_array = f" if it is one of {sent.count}" if sent.count > 1 else ""
        return (
            f"-x: the names of excluded hosts take {excluded_bytes} bytes; the limit for a job "
            f"is {most}{of_array}"
        )
    return ""
