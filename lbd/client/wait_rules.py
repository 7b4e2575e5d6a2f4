"""What a job may wait for before it joins the queue: `--after…` and `--begin` of lbrun."""

from lbd.client.complaints import Trouble, say
from lbd.text.index_list import is_number
from lbd.text.job_limits import AFTER_MAX

OPTIONS = {
    "--after": "ok", "--after-ok": "ok", "--after-failed": "failed", "--after-any": "any",
    "--after-task": "task",
}  # fmt: skip


def add_after(before: str, option: str, value: str) -> str:
    """Returns the value of one of these options appended to those before it, as `how:ID`. Raises
    Trouble."""
    words = before.split()
    for job in value.split(","):
        array, line, index = job.partition("_")
        is_task = not line or (is_number(index) and option != "--after-task")
        is_job = array == "last" or (is_number(array) and int(array))
        if not (is_job and is_task):
            how = "12, 12,15 or last" if option == "--after-task" else "12, 12_7, 12,15 or last"
            raise Trouble(f"{option} {value}: {job!r} is not a queued job's id; must be {how}")
        words.append(f"{OPTIONS[option]}:{job}")
    if len(words) > AFTER_MAX:
        raise Trouble(f"{option}: cannot wait for more than {AFTER_MAX} jobs")
    return " ".join(words)


def check_begin(values: dict[str, str]) -> None:
    """Turns `begin` into UNIX seconds. Raises Trouble."""
    from time import time

    text = values["begin"]
    if text == "now":
        del values["begin"]
        return
    try:
        at = begin_unix_s(text)
    except ValueError as problem:
        raise Trouble(f"--begin: {problem}") from None
    if at <= time():
        say(f"--begin: {text} has passed, so it may start now")
    values["begin"] = f"{at}"


def begin_unix_s(text: str) -> float:
    """Returns the time rounded up to a whole second, as it is shown, so that nothing starts earlier
    than the user reads. Raises ValueError."""
    return -(unix_s_of(text) // -1)


def unix_s_of(text: str) -> float:
    """Returns the next such time by this host's clock and time zone; with a date it may have
    passed. Raises ValueError."""
    from time import localtime, mktime, time

    from lbd.text.clock_time import from_now_s, read_time

    now = time()
    if (later_s := from_now_s(text)) is not None:
        return now + later_s
    date, clock = read_time(text)
    year, month, day = date or localtime(now)[:3]
    at = mktime((year, month, day, *clock, 0, 0, -1))
    if date is not None and localtime(at)[:3] != date:
        raise ValueError(f"{text!r}: no such date")
    if date is None and at <= now:
        at = mktime((year, month, day + 1, *clock, 0, 0, -1))
    return at
