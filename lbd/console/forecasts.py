"""Forecasts in words: when a job begins, and when an array with a target ends.

A forecast that rests on few outcomes gets a "~". An interval is called nine in ten only after
`PROVEN` such intervals were compared with outcomes; before that it is called likely.
"""

import math

from lbd.console.figures import NONE, Clock
from lbd.console.figures import duration as shown_duration
from lbd.console.reply import Json, number, table, tables, text, whole
from lbd.text.units import counted, duration_text, rough_s
from lbd.theory.calibration import FEWEST, PROVEN

NOT_FORETOLD = "no prediction was kept"
NOT_OF_TARGETS = "no prediction is kept of an array with a target"
TOO_WIDE = 20.0  # the factor between its ends from which an interval says where it begins only
LEAST_S = 0.5  # an end that is overdue may come at any moment
COMPARABLE = FEWEST  # ended jobs that a prediction needs to be more than a guess


def guess_mark(reply: Json, wait_s: float, interval: object, key: str = "comparable") -> str:
    """Returns "~" if few jobs have outcomes that could be compared with their predictions, unless
    the job is sure to begin within a second."""
    match interval:
        case [_, int() | float() as high_s]:
            latest_s = max(wait_s, high_s)
        case _:
            latest_s = wait_s
    return "~" if wait_s > 0 and latest_s >= 1 and number(reply, key) < COMPARABLE else ""


def is_proven(reply: Json, key: str = "comparable") -> bool:
    """Returns whether enough intervals were compared with outcomes; the first few had none."""
    return number(reply, key) >= COMPARABLE + PROVEN


def forecast(wait_s: float) -> str:
    """Formats a wait that is only expected: 2.5s, 26s, 1m20s."""
    return "<1s" if 0 < wait_s < 1 else shown_duration(rough_s(wait_s))


def about(wait_s: float, mark: str = "~") -> str:
    """Formats a wait that is a guess: "~12s". One below a second is "~1s"."""
    if math.isnan(wait_s):
        return NONE
    return f"{mark}{forecast(wait_s)}" if not (mark and 0 < wait_s < 1) else f"{mark}1s"


def interval_text(given: object) -> str:
    """Formats an interval: "26s to 6m10s", or "up to 2.5s" from less than a second on; "9.4s or
    much later" where its end says nothing."""
    match given:
        case [int() | float() as low_s, int() | float() as high_s]:
            low, high = forecast(low_s), forecast(high_s)
            if low == high:
                return high
            if low_s >= 1 and high_s >= TOO_WIDE * low_s:
                return f"{low} or much later"
            return f"{low} to {high}" if low_s >= 1 else f"up to {high.removeprefix('<')}"
    return NONE


def begin_phrase(one: Json) -> str:
    """Returns when a job will begin and how that was estimated; "" if nothing is known."""
    when, how = begin_time(one), text(one, "predicted_by")
    return f"{when} ({how})" if when else how


def begin_time(one: Json) -> str:
    """Returns when a job will begin; "" if that is not known."""
    wait_s = number(one, "predicted_wait_s")
    if math.isnan(wait_s):
        return ""
    key = "predicted_from" if "predicted_from" in one else "comparable"
    choices = tables(one, "choices") if "choices" in one else []
    interval = choices[0].get("begins_in_s_90") if choices else one.get("predicted_wait_s_90")
    mark = guess_mark(one, wait_s, interval, key)
    found = f"in {about(wait_s, mark) if mark else f'about {forecast(wait_s)}'}"
    if 0 < wait_s < 1 and not mark:
        found = "in less than 1s"
    if wait_s > 0 and interval is not None:
        shown = interval_text(interval)
        proven = is_proven(one, key)
        found += f", {shown} in nine cases out of ten" if proven else f", likely {shown}"
    return found


def end_time(one: Json, clock: Clock) -> str:
    """Returns when an array will end; "" if that is not known. Its interval is only likely: no such
    intervals are compared with what happened."""
    left_s = number(one, "expected_end") - clock.now_s
    if math.isnan(left_s):
        return ""
    left_s = max(LEAST_S, left_s)
    ends = one.get("expected_end_90")
    within = None
    if isinstance(ends, list):
        within = [max(LEAST_S, float(at) - clock.now_s) for at in ends]
    mark = guess_mark(one, left_s, within, "expected_from")
    found = f"in {about(left_s, mark) if mark else f'about {forecast(left_s)}'}"
    if left_s < 1 and not mark:
        found = "in less than 1s"
    if one.get("takes_turns"):
        found += " if no other jobs come"
    likely = interval_text(within) if within is not None else "<1s"
    return found if likely == "<1s" else f"{found}, likely {likely}"


def truth_phrase(one: Json) -> str:
    """Returns how long the job waited, and what was predicted at submission; "" until it began."""
    foretold_s = number(one, "foretold_wait_s")
    waited_s = number(one, "started") - number(one, "submitted")
    if math.isnan(waited_s) or number(one, "attempt") > 1:
        return ""
    waited = forecast(max(0.0, waited_s)) if waited_s < 60 else shown_duration(waited_s)
    if math.isnan(foretold_s):
        return f"{waited} ({NOT_OF_TARGETS if one.get('target') else NOT_FORETOLD})"
    interval = one.get("foretold_wait_s_90") if foretold_s > 0 else None
    likely = f", likely {interval_text(interval)}" if interval is not None else ""
    foretold = forecast(foretold_s) if foretold_s > 0 else "no wait"
    if one.get("foretold_is_rough"):
        return f"{waited} (predicted as a rough guess: {about(foretold_s)}{likely})"
    return f"{waited} (predicted: {foretold}{likely})"


def target_lines(one: Json, clock: Clock) -> list[str]:
    """Returns when a job's array should end, when it will, and what is done to meet that."""
    target = one.get("target")
    if not isinstance(target, dict):
        return []
    by, end = number(target, "by"), number(target, "expected_end")
    met = outcome(one, by)
    lines = [f"{text(target, 'kind'):8} {time_phrase(by, clock, only_time=bool(met))}{met}"]
    ends = target.get("expected_end_90")
    if not math.isnan(end) and isinstance(ends, list):
        low, high = (time_phrase(float(at), clock, only_time=True) for at in ends)
        likely = f" (likely {low} to {high})" if low != high else ""
        left_s = end - clock.now_s  # the same figure as in the list
        away = f"in about {forecast(left_s)}" if left_s >= 1 else "in less than 1s"
        away = away if left_s > 0 else f"{duration_text(-left_s)} ago"
        lines.append(f"expected {time_phrase(end, clock, only_time=True)} ({away}){likely}")
    if why := text(target, "why"):
        running, left = int(number(target, "tasks_running")), int(number(target, "tasks_left"))
        at_once = int(number(target, "tasks_at_once"))
        has = f"{running} have slots" if running > 1 else f"{running or 'none'} has a slot"
        up_to = "up to " if running < min(at_once, left) else ""
        lines.append(f"at once  {up_to}{at_once} ({has}, {left} not ended): {why}")
    return lines


def outcome(one: Json, by: float) -> str:
    """Returns whether a target was met, and by how much; "" before the end. It is not met by tasks
    that were cancelled or lost, nor if all failed."""
    late_s = number(one, "finished") - by
    if math.isnan(late_s):
        return ""
    if late_s > 0:
        return f"; missed by {duration_text(late_s)}"
    tasks = table(one, "tasks")
    for state in ("cancelled", "lost"):
        if (count := number(tasks, state)) > 0:
            return f"; not met: {count:.0f} task{'s were' if count > 1 else ' was'} {state}"
        if text(one, "state") == state:
            return f"; not met: it was {state}"
    failed, total = whole(tasks, "failed"), sum(whole(tasks, state) for state in tasks)
    if 0 < failed == total:
        return f"; not met: {failed} of {counted(total, 'task')} failed"
    but = f", but {failed} of {counted(total, 'task')} failed" if failed else ""
    return f"; met by {duration_text(-late_s)}{but}"


def target_phrase(one: Json, clock: Clock) -> str:
    """Returns, for an array in a list, `deadline 17:00:00; ends in ~34s`; "" if it has ended or has
    no target."""
    target = one.get("target")
    if not isinstance(target, dict) or number(one, "finished") > 0:
        return ""
    left_s = number(target, "expected_end") - clock.now_s
    ends = "end not known" if math.isnan(left_s) else f"ends in {about(max(0.0, left_s))}"
    return f"{text(target, 'kind')} {clock.time_of_day(number(target, 'by'))}; {ends}"


def time_phrase(unix_s: float, clock: Clock, *, only_time: bool = False) -> str:
    """Formats a time with its day, unless that is today, and its distance from now."""
    shown = clock.time_of_day(unix_s)
    if only_time or shown == NONE:
        return shown
    away = duration_text(abs(unix_s - clock.now_s))
    return f"{shown} ({f'in {away}' if unix_s >= clock.now_s else f'{away} ago'})"
