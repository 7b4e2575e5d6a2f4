"""Limits on what each task of an array may bring along, as the cost grows with the tasks. Pure."""

from lbd.config.dispatch import DispatchConfig
from lbd.dispatch.core.ledger_rows import Submission
from lbd.text.job_limits import AFTER_MAX

AFTER_OF_TASK = 4  # jobs that each task may wait for in an array of dispatch.max_array
# arguments and variables: the more there are, the longer each task takes to start
TASK_WORDS_MAX = 10_000
# Names of excluded hosts, which are on record with each task.
EXCLUDED_BYTES_MAX, ARRAY_EXCLUDED_BYTES_MAX = 16 << 10, 16 << 20


def conditions_most(own: DispatchConfig) -> int:
    """Returns how many jobs the tasks of an array, or the jobs of a user, may wait for in total,
    counted once per waiting job."""
    return max(AFTER_MAX, AFTER_OF_TASK * own.max_array)


def fault_of_tasks(sent: Submission, words: int, after: int, own: DispatchConfig) -> str:
    """Returns why there cannot be that many tasks; "" if there can. `words`: arguments and
    variables; `after`: jobs that each task waits for."""
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
