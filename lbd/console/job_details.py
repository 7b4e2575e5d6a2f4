"""Everything that is shown of one job of the queue and its attempts."""

import math
import shlex
import signal

from lbd.console import figures
from lbd.console.figures import Clock
from lbd.console.figures import duration as shown_duration
from lbd.console.forecasts import begin_time, end_time, target_lines, truth_phrase
from lbd.console.jobs import PENDING, counts_of, shown_command, shown_ran, shown_state
from lbd.console.output_paths import fetch_paths, path_of
from lbd.console.reply import Json, number, table, tables, text, texts, whole
from lbd.model import ENDED_NAMES
from lbd.policy.needs import is_size
from lbd.text.array_phrases import (
    INTERRUPTING,
    FailedTask,
    end_line,
    ended_of,
    failed_in,
    have_ended,
    named,
    running_of,
    why_not_started,
)
from lbd.text.job_phrases import CANNOT_OPEN
from lbd.text.one_line import one_line
from lbd.text.units import duration_text
from lbd.theory.speedup_fit import MOST_PARALLELISM, MOST_SIGMA

INDEXES_WIDTH = 200
FETCH_SHOWN = 3
ROUGH = "; take it as a rough guess"  # begins the reserve of a forecast
NOT_MADE = ": the command did not create it; "  # in the reason of a job, after `--fetch NAME`
FAULTS = (
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGABRT,
    signal.SIGSYS,
)


def array_lines(one: Json) -> list[str]:
    """Returns what `lbctl job` shows of an array, in addition to its line in the list."""
    indexes = one_line(text(one, "array"), INDEXES_WIDTH)
    limit = f", {text(one, 'at_once')} at once" if text(one, "at_once") else ""
    lines = [f"array    {indexes}{limit}", f"tasks    {shown_state(one)}"]
    if held := whole(one, "held"):
        which = one_line(text(one, "held_indexes"), INDEXES_WIDTH)
        lines.append(
            f"held     {held}{f': {which}' if which else ''}; lbctl release {text(one, 'id')}"
        )
    failed = [failed_task(task) for task in tables(one, "failed")]
    if failed:
        states = {state: int(number(table(one, "tasks"), state)) for state in ("failed", "lost")}
        count = failed_in(states)
        array = text(one, "id")
        which = f"--failed {array}" if count > 1 else f"{array}_{failed[0].task}"
        lines.append(f"failed   {named(failed, count)}; lbctl logs {which}")
        lines += [f"reason   {why}" for why in why_not_started(failed)]
    return lines


def failed_task(task: Json) -> FailedTask:
    status = number(task, "exit_status")
    return FailedTask(
        int(number(task, "array_index")),
        text(task, "state"),
        None if math.isnan(status) else int(status),
        whole(task, "signal"),
        text(task, "cause"),
        text(task, "reason"),
    )


def end_phrase(job: Json) -> str:
    """Returns how an unsuccessful job ended: `job 3 failed (exit 1)`."""
    state, reason, status = text(job, "state"), text(job, "reason"), text(job, "exit_status")
    if state == "cancelled" and reason.startswith(state):  # the reason also says who cancelled it
        return f"job {text(job, 'id')} was {reason}"
    how = {"cancelled": "was cancelled", "lost": "was lost"}.get(state, state)
    if state == "failed" and status and not reason.startswith(CANNOT_OPEN):
        how += f" ({status_phrase(job)})"
    return f"job {text(job, 'id')} {how}" + (f": {reason}" if reason not in ("", state) else "")


def status_phrase(job: Json) -> str:
    """Returns `signal 11`, or `exit 3`; "" if neither is known."""
    if ended_by := whole(job, "signal"):
        return f"signal {ended_by}"
    status = text(job, "exit_status")
    return f"exit {status}" if status else ""


def speedup_phrase(known: Json) -> str:
    """Returns one line on what is known of a malleable job's speedup."""
    shape = f"A {number(known, 'parallelism'):.3g}, sigma {number(known, 'sigma'):.2g}"
    work = f"work {shown_duration(number(known, 'work_s'))}"
    source = text(known, "source")
    if source == "given":
        return f"{shape}, {work} (as given)"
    if source == "linear":
        why = "too few runs on different numbers of slots, or too dissimilar"
        return f"assumed to be linear, {work} ({why})"
    spans = [
        span_text(known.get("parallelism_90"), MOST_PARALLELISM),
        span_text(known.get("sigma_90"), MOST_SIGMA),
    ]
    return (
        f"{shape}, {work} (learnt from {text(known, 'runs')} runs; 90 %: A {spans[0]}, "
        f"sigma {spans[1]}; run times off by {number(known, 'noise'):.0%})"
    )


def span_text(given: object, most: float) -> str:
    """Formats an interval. One that reaches `most`, the end of the search, has no upper end."""
    match given:
        case [int() | float() as low, int() | float() as high]:
            has_end = high < most * (1 - 1e-6)
            return f"{low:.2g} to {high:.2g}" if has_end else f"{low:.2g} or more"
    return "–"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_line(number: int, status: int, reason: str) -> str:
    """Returns which signal ended a job and who sent it, as far as known; "" if there was none.
    `reason` is what its reason already says."""
    if number:
        name = signal_name(number)
        if number in FAULTS:
            what = str(signal.strsignal(number)).lower()
            return f"signal   {name} ({what}): a fault of the program"
        if reason:
            return f"signal   {name}"
        memory = "; the kernel sends it where memory runs out" if number == signal.SIGKILL else ""
        return f"signal   {name}, as far as is known not sent by lbd{memory}"
    if not reason and 0 < (number := status - 128) <= signal.SIGRTMAX:
        ended = f"{signal_name(number)} ended it or what it had started"
        return f"exit     {status} is 128 + {number}: {ended}"
    return ""


DETAIL_INDENT = " " * 9


def detail_lines(one: Json, clock: Clock) -> list[str]:
    """Returns what the job's line in the table leaves out or truncates."""
    lines = [f"command  {shlex.join(shown_command(one))}"]
    if text(one, "array"):
        lines += array_lines(one)
    if gang := text(one, "gang"):
        which = f"its {gang} tasks" if text(one, "array") else f"one of {gang} tasks that"
        lines.append(f"gang     {which} start together")
    reason, state = text(one, "reason"), text(one, "state")
    if reason and reason != state:
        waits = state == "pending" or number(table(one, "tasks"), "pending") > 0
        lines.append(f"{'waits   ' if waits else 'reason  '} {reason}")
    if state in ("failed", "cancelled"):
        said = signal_line(whole(one, "signal"), whole(one, "exit_status"), reason)
        lines += [said] if said else []
    lines += outlook_lines(one, clock)
    if waited := waited_for_its_start(one):
        lines.append(f"waited   {waited}")
    lines += time_lines(one, clock)
    if known := table(one, "speedup"):
        lines.append(f"speedup  {speedup_phrase(known)}")
    return lines + given_lines(one) + target_lines(one, clock)


def waited_for_its_start(one: Json) -> str:
    """Returns how long a job waited until it first began, named as such if it has begun again since
    or has to, as an array has that was queued again as a whole: its attempts are its first task's.
    "" if it has not begun."""
    begun = [number(attempt, "started") for attempt in tables(one, "attempts")]
    first, started = min((at for at in begun if at >= 0), default=math.nan), number(one, "started")
    if math.isnan(first):
        return truth_phrase(one)
    waited = shown_duration(max(0.0, first - number(one, "submitted")))
    return truth_phrase(one) or waited if started <= first else f"{waited} for the first start"


def outlook_lines(one: Json, clock: Clock) -> list[str]:
    """Returns when the job begins, and when an array ends, also while none of its tasks runs.
    `target_lines` covers arrays with a target."""
    has_begun = bool(text(one, "array")) and not math.isnan(number(one, "started"))
    when, how = ("", "") if has_begun else (begin_time(one), text(one, "predicted_by"))
    lines = [f"begins   {when or how}"] if when or how else []
    ends, by = end_lines(one, clock)
    lines += ends
    if not when:
        how = by
    elif by not in how:  # of its begin, by the jobs ahead: its own tasks may be known less well
        how = of_both(how, by) if how else by
    if how:
        lines.append(f"forecast {how}")
    return lines


def of_both(how: str, by: str) -> str:
    """Returns how its begin and its end were estimated. A reserve that both have is made once."""
    of_begin, mark, reserve = how.partition(ROUGH)
    if mark and by.endswith(mark + reserve):
        of_end = by.removesuffix(mark + reserve)
        return f"{of_begin}; of its end: {of_end}; take both as rough guesses{reserve}"
    return f"{how}; of its end: {by}"


def end_lines(one: Json, clock: Clock) -> tuple[list[str], str]:
    """Returns when an array ends, and how that was estimated."""
    counts, ran_s = counts_of(one), clock.now_s - number(one, "started")
    is_open = any(counts.get(state) for state in (*INTERRUPTING, PENDING))
    if not (text(one, "array") and is_open) or one.get("target"):
        return [], ""
    (ended, total), held = ended_of(counts), whole(one, "held")
    by = text(one, "expected_by")
    if when := end_time(one, clock):
        so_far = f": {have_ended(ended, total)}" if ended else ""
        without = f", without the {held} held" if held else ""
        return [f"ends     {when}{so_far}{without}"], by
    running = running_of(counts)
    if not math.isnan(ran_s) and (ended >= max(1, running) or not by):
        return [f"ends     {end_line(ended, total, running, ran_s, held)}"], ""
    return ([f"ends     {by}"] if by else []), ""


def time_lines(one: Json, clock: Clock) -> list[str]:
    times = (("submitted", "queued"), ("started", "started"), ("finished", "ended"))
    return [
        f"{title:8} {clock.time_of_day(number(one, key))}"
        for key, title in times
        if not math.isnan(number(one, key))
    ]


def given_lines(one: Json) -> list[str]:
    """Returns where the job runs, where its output goes, its limits and its key."""
    if "may_restart" not in one:
        return []  # for one job of many
    least, most = number(one, "slots_least"), number(one, "slots_most")
    slots = f"{least:.0f}" if not most > least else f"{least:.0f} to {most:.0f}"
    has_begun = number(one, "started") >= 0 and text(one, "state") != "pending"
    if most > least and has_begun and "tasks" not in one:
        slots = f"{number(one, 'slots'):.0f} ({slots} asked for)"
    lines = where_lines(one)
    if output := text(one, "output"):
        lines.append(f"output   {path_of(output, one)}")
    elif number(one, "started") >= 0:  # nothing is kept of a job that has not begun
        lines.append(f"output   {kept_where(one)}")
    if error := text(one, "error"):
        lines.append(f"error    {path_of(error, one)}")
    lines.append(f"slots    {slots}; priority {text(one, 'priority') or 0}")
    if needs := needs_phrase(table(one, "needs")):
        lines.append(f"needs    {needs}")
    limits = []
    if not math.isnan(limit_s := number(one, "timeout_s")):
        limits.append(f"time {duration_text(limit_s)}")
    if not math.isnan(limit := number(one, "memory_bytes")):
        limits.append(f"memory {figures.size(limit)}")
    if limits:
        lines.append(f"limits   {', '.join(limits)}")
    if not math.isnan(peak := number(one, "max_rss_bytes")):
        lines.append(f"used     at most {figures.size(peak)} of memory in one process")
    if one.get("may_restart") is False:
        lines.append("again    never: --no-restart")
    if notify := text(one, "notify"):
        lines.append(f"notify   {notify}")
    if key := text(one, "idempotency_key"):
        lines.append(f"key      {key}")
    return lines


def kept_where(one: Json) -> str:
    """Returns where its output is and how to read it. `output_lost`: why nobody can."""
    job, host = text(one, "id"), text(one, "host")
    if text(one, "array"):
        return f"of task N kept where it ran: lbctl logs {job}_N"
    lost = text(one, "output_lost")
    return f"was kept on {host}, {lost}" if lost else f"kept on {host}: lbctl logs {job}"


def where_lines(one: Json) -> list[str]:
    """Returns in which directory the job runs, and where its outputs are brought to."""
    if directory := text(one, "directory"):
        return [f"in       {directory}"]
    own = "in       a directory of its own (--send, --fetch)"
    submitted_in, origin, paths = text(one, "submitted_in"), text(one, "origin"), fetch_paths(one)
    lines = [own, f"from     {submitted_in} on {origin}"]
    if len(paths) > FETCH_SHOWN + 1:
        paths[FETCH_SHOWN:] = [f"{len(paths) - FETCH_SHOWN} more in {submitted_in}"]
    return lines + [f"fetch    {path} ({fetch_phrase(one, path)})" for path in paths]


def fetch_phrase(one: Json, path: str) -> str:
    state, origin = text(one, "state"), text(one, "origin")
    missing, _, is_missing = text(one, "reason").partition(NOT_MADE)
    if is_missing and path.endswith(f"/{missing.removeprefix('--fetch ')}"):
        return "the command did not create it"
    if text(one, "array"):
        return f"on {origin}, after each task"
    if state not in ENDED_NAMES:
        return f"on {origin}, once the job has ended"
    if one.get("fetched") is False:
        return f"on its way to {origin}"
    if state == "done":
        return f"came back to {origin}" if one.get("fetched") else f"on {origin}"
    return f"on {origin}, if the job has made it"


def needs_phrase(needs: Json) -> str:
    """Returns what the job needs of its host besides slots and memory; "" for nothing."""
    resources = table(needs, "resources")
    amounts = ((name, int(number(resources, name))) for name in resources)
    words = [
        f"{name}={figures.size(amount) if is_size(name, amount) else amount}"
        for name, amount in amounts
    ]
    words += [f"feature {feature}" for feature in texts(needs, "features")]
    words += [f"no feature {feature}" for feature in texts(needs, "not_features")]
    return ", ".join(words)


def attempt_row(attempt: Json, clock: Clock) -> tuple[str, ...]:
    return (
        text(attempt, "number"),
        text(attempt, "host"),
        text(attempt, "tier"),
        text(attempt, "state"),
        clock.time_of_day(number(attempt, "started")),
        shown_ran(attempt, clock.now_s),
        figures.duration(number(attempt, "cpu_s")),
        text(attempt, "exit_status"),
        text(attempt, "reason"),
    )
