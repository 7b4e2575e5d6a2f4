"""Which options of `lbrun` the queue supports, and the values they may have."""

import posix
import stat

from lbd.client.complaints import Trouble
from lbd.text.job_limits import GANG_MAX, SLOTS_MAX, SPEEDUP_MAX, WORK_S_MAX

DIGITS_MAX = 18


def check_queued(
    plain: set[str], values: dict[str, str], send: list[str], fetch: list[str]
) -> None:
    """Checks the options for the queue and normalises their `values`. Raises Trouble."""
    if {"queue", "detach"} <= plain:
        raise Trouble("-q waits for the end and -d does not: use only one")
    for option in ("local", "remote", "explain", "tty"):
        if option in plain:
            raise Trouble(f"--{option} cannot be used with the queue (-q, -d)")
    if send or fetch:
        check_staged(values, fetch)
    if "output" in values and "queue" in plain:
        raise Trouble("-o needs -d; with -q, redirect lbrun's output")
    if "error" in values and "queue" in plain:
        raise Trouble("--error needs -d; with -q, redirect lbrun's standard error")
    if "append" in plain and not ("output" in values or "error" in values):
        raise Trouble("--append needs -o or --error")
    if "status_file" in values and "detach" in plain:
        raise Trouble("--status-file needs -q; for a job of -d, see `lbctl job ID --json`")
    if "array" in values:
        check_array(values)
    if "target" in values or "deadline" in values:
        check_target(values)
    if "gang" in plain:
        check_gang(values)
    if "checkpoint" in values:
        values["checkpoint"] = directory_at(values["checkpoint"])
    if "priority" in values:
        check_priority(values["priority"])
    if "speedup" in values or "work" in values:
        check_speedup(values)
    if not values.get("notify", "true").strip():
        raise Trouble("--notify is empty: give a command line for sh -c")
    if "begin" in values:
        from lbd.client.wait_rules import check_begin

        check_begin(values)
    if "key" in values:
        check_key(values["key"])


def check_array(values: dict[str, str]) -> None:
    """Raises Trouble."""
    from lbd.text.index_list import read_array, runs_text

    try:
        runs, at_once = read_array(values["array"])
    except ValueError as problem:
        raise Trouble(f"--array {problem}") from None
    values["array"] = runs_text(runs) + (f"%{at_once}" if at_once else "")


def check_gang(values: dict[str, str]) -> None:
    """Raises Trouble."""
    if "array" not in values:
        raise Trouble("--gang needs --array: it starts all tasks of an array together")
    if "checkpoint" in values:
        raise Trouble(
            "--gang cannot be used with --checkpoint: its tasks cannot stop and continue separately"
        )
    least, _, most = values.get("slots", "1-1").partition("-")
    if least != most:
        raise Trouble(
            f"--gang cannot be used with --slots {least}-{most}: give a number, not a range"
        )
    from lbd.text.index_list import count_of, read_runs

    indexes, percent, at_once = values["array"].partition("%")
    if percent:
        raise Trouble(f"--gang cannot be used with %{at_once}: all tasks start together")
    if (count := count_of(read_runs(indexes))) > GANG_MAX:
        raise Trouble(f"--gang: {count} jobs; the limit is {GANG_MAX}")


def check_slots(values: dict[str, str]) -> None:
    """Raises Trouble."""
    how = "a number or MIN-MAX, like 4 or 2-8"
    text = values["slots"]
    least, most = read_range("--slots", text, how, one_will_do=True)
    if least < 1:
        raise Trouble(f"--slots {text}: a job needs at least one slot")
    if most > SLOTS_MAX:
        raise Trouble(f"--slots {text}: no host has more than {SLOTS_MAX}")
    if least == most and "-" in text:
        raise Trouble(f"--slots {text}: the range is a single number; write {least}")
    values["slots"] = f"{least}-{most}"


def check_speedup(values: dict[str, str]) -> None:
    """Raises Trouble."""
    least, _, most = values.get("slots", "").partition("-")
    if least == most:
        option = "--speedup" if "speedup" in values else "--work"
        if option == "--work" and ("target" in values or "deadline" in values):
            return check_work(values)
        raise Trouble(f"{option} needs -n MIN-MAX, like -n 1-8")
    if "speedup" in values:
        text = values["speedup"]
        parallelism, _, sigma = text.partition(",")
        try:
            found = float(parallelism), float(sigma or "0")
        except ValueError:
            raise Trouble(f"--speedup {text}: must be A or A,SIGMA, like 8 or 8,0.5") from None
        if not 1 <= found[0] <= SPEEDUP_MAX:
            raise Trouble(f"--speedup {text}: the average parallelism A must be 1 or more")
        if not 0 <= found[1] <= SPEEDUP_MAX:
            raise Trouble(f"--speedup {text}: the variance SIGMA must be 0 or more")
        values["speedup"] = f"{found[0]!r} {found[1]!r}"
    check_work(values)


def check_work(values: dict[str, str]) -> None:
    """Raises Trouble."""
    if "work" in values:
        from lbd.text.units import duration_s

        try:
            work_s = duration_s(values["work"])
        except ValueError as problem:
            raise Trouble(f"--work: {problem}") from None
        if not 0 < work_s <= WORK_S_MAX:
            raise Trouble(f"--work {values['work']}: must be above 0")
        values["work"] = repr(work_s)


def check_target(values: dict[str, str]) -> None:
    """Turns `target` into seconds from now and `deadline` into UNIX seconds. Raises Trouble."""
    from lbd.text.units import duration_s

    option = "--target" if "target" in values else "--deadline"
    if "target" in values and "deadline" in values:
        raise Trouble("--target and --deadline both set when the array should end: use only one")
    if "array" not in values:
        raise Trouble(f"{option} needs --array: it sets when all tasks should have ended")
    least, _, most = values.get("slots", "").partition("-")
    if least != most:
        raise Trouble(f"{option} cannot be used with -n {least}-{most}: give a number, not a range")
    try:
        if "target" in values:
            within_s = duration_s(values["target"])
            if within_s <= 0:
                raise ValueError("must be above 0")
            values["target"] = f"{within_s}"
        else:
            values["deadline"] = f"{deadline_unix_s(values['deadline'])}"
    except ValueError as problem:
        raise Trouble(f"{option}: {problem}") from None


def deadline_unix_s(text: str) -> float:
    """Raises ValueError."""
    from time import time

    from lbd.client.wait_rules import unix_s_of

    at = unix_s_of(text)
    if at <= time():
        raise ValueError(f"{text} has passed")
    return at


def check_staged(values: dict[str, str], fetch: list[str]) -> None:
    """Raises Trouble for output that would be lost with the private directory or overwritten."""
    for name in ("output", "error"):
        path = values.get(name, "/")
        if not path.startswith("/") and not any(f"{path}/".startswith(f"{one}/") for one in fetch):
            raise Trouble(
                f"--{name} {path}: add --fetch for it, or it will be lost with the job's private "
                "directory"
            )
    for path in fetch if "array" in values else ():
        if "%a" not in path and "%j" not in path:
            raise Trouble(
                f"--fetch {path}: the tasks of the array would overwrite each other's; put %a "
                "(index) or %j (job id) in its name"
            )


def all_tasks_write(values: dict[str, str]) -> str:
    """Returns a warning if all tasks of an array write the same output file, else ""."""
    for name in ("output", "error") if "array" in values else ():
        path = values.get(name, "/dev/null")
        if not path.startswith("/dev/") and "%a" not in path and "%j" not in path:
            return (
                f"--{name} {path}: all tasks of the array would write the same file; put %a "
                "(index) in its name"
            )
    return ""


def directory_at(path: str) -> str:
    """Returns the absolute path. Raises Trouble."""
    try:
        if not stat.S_ISDIR(posix.stat(path).st_mode):
            raise NotADirectoryError(20, "not a directory")
    except FileNotFoundError:
        how = "create it first, where all hosts see it"
        raise Trouble(f"--checkpoint {path}: no such directory; {how}") from None
    except OSError as problem:
        raise Trouble(f"--checkpoint {path}: {problem.strerror}") from None
    return path if path.startswith("/") else f"{posix.getcwd()}/{path}"


def check_key(text: str) -> None:
    """Raises Trouble."""
    if not text:
        raise Trouble("--idempotency-key is empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Trouble(f"--idempotency-key {text!r} is not valid UTF-8") from None


def check_priority(text: str) -> None:
    """Raises Trouble."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 4):
        raise Trouble(f"--priority {text}: must be a whole number from -999 to 999")


def read_range(option: str, text: str, how: str, *, one_will_do: bool = False) -> tuple[int, int]:
    """Raises Trouble."""
    first, dash, last = text.partition("-")
    if one_will_do and not dash:
        dash, last = "-", first
    for end in (first, last):
        if not (dash and end.isascii() and end.isdecimal()):
            raise Trouble(f"{option} {text}: must be {how}")
        if len(end) > DIGITS_MAX:
            raise Trouble(f"{option} {text}: {end} is too large")
    if int(first) > int(last):
        raise Trouble(f"{option} {text}: the range is backwards; must be {how}")
    return int(first), int(last)
