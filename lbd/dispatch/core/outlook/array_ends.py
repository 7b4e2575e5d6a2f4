"""When an array ends, from the plays of its line. Pure.

For arrays without a target; `targets/target_array.py` knows when one with a target ends. Under
disciplines with several lines a task may be in any of them, and nothing is predicted.
"""

import math

from lbd.dispatch.core.discipline import ONLY_LINE, QueuedJob
from lbd.dispatch.core.outlook.arrays_played import WHOLE_LINE, EndPlayed, sooner
from lbd.dispatch.core.outlook.forecast import Forecast, Prediction, has_intervals
from lbd.dispatch.core.outlook.forecast_words import (
    ASKED_TOO_OFTEN,
    FIRST_ROUND,
    GUESS,
    NOT_OF_ARRAYS_WITH_NEEDS,
    end_not_known,
    made_by,
)
from lbd.dispatch.core.outlook.line_played import Spread
from lbd.dispatch.core.outlook.plays import Played
from lbd.dispatch.core.registry import Registered

# By how much the mean time that tasks take to start, run and end goes up and down with what else
# their hosts do. The plays draw each task's time by itself, so that over many it cancels out.
DRIFT_S, DRIFT_MAX = 0.05, 0.5
PACE_KNOWN = 20  # played tasks from which an array's pace is known
# Of a command line that has not run, so many rounds are a rough guess. With one, 51 of 60 intervals
# of exponential tasks on 16 slots were too early; with two, 19 (tests: ArrayRun, 60 seeds).
ROUGH_ROUNDS = 2
NOTHING = Prediction(None, "")


def end_of(
    forecast: Forecast, job: QueuedJob, ended: int, waiting: int, last: Registered | None,
    now_s: float,
) -> Prediction:  # fmt: skip
    """Returns when the array of this task ends, from now. `ended`, `waiting`: how many of its tasks
    have ended, or are in line; `last`: one of the last of these."""
    queues = forecast.queues
    if list(queues.servers) != [ONLY_LINE] or (waiting and (job.gang or queues.plan is not None)):
        return NOTHING
    if waiting and (job.needs.resources or job.needs.memory_bytes):
        return Prediction(None, NOT_OF_ARRAYS_WITH_NEEDS)
    outlook = forecast.outlook(ONLY_LINE, now_s)
    if waiting and outlook.held_up:
        return Prediction(None, outlook.held_up)
    of_all = len(queues.resource_times.slots.recent_s)
    if (played := forecast.played(ONLY_LINE, now_s)) is None:
        return Prediction(None, end_not_known(of_all))
    if not played.ends:
        return Prediction(None, ASKED_TOO_OFTEN)
    own, left = played.ends.get(job.array), 0
    if own is None or not played.is_whole:
        left = max(0, waiting - forecast.plays.still_in(played).of_arrays[job.array])
    if left and played.stops:
        return Prediction(None, end_not_known(of_all))
    if own is None or (left and own.waits < PACE_KNOWN):
        if not left:
            return NOTHING
        own = played.ends[WHOLE_LINE]
        place = forecast.places.of(last, now_s) if last is not None else None
        left = max(left, place.jobs - len(played.places)) if place is not None else left
    behind, more = len(played.sources) - 1 if left else own.through, float(left)
    if left and not job.at_once:
        others = forecast.places.end_of(ONLY_LINE).jobs - len(played.places) - left
        more *= sooner(own, left, played.ends[WHOLE_LINE], max(0, others))
    low_s, end_s, high_s = when_s(own, more, played, now_s)
    if math.isinf(end_s):
        return Prediction(None, "no estimate until more slots are available to the queue")
    how = made_by(played.sources[behind], outlook.slot_times)
    rounds = rounds_known(forecast, job, ended, played)
    if why := FIRST_ROUND if rounds < ROUGH_ROUNDS else played.novelty.why_rough(behind):
        how += f"; {GUESS}: {why}"
    has = has_intervals(queues, None) and math.isfinite(high_s) and rounds >= 1
    has = has and not played.novelty.goes_otherwise(behind)
    return Prediction(end_s, how, bool(why), (low_s, high_s) if has else None)


def rounds_known(forecast: Forecast, job: QueuedJob, ended: int, played: Played) -> float:
    """Returns how many rounds of the array's tasks have ended if nothing like them has before, else
    infinity: of those that began together, the shortest end first."""
    near = forecast.queues.run_times.nearest(job)
    running = sum(one.array == job.array for one in played.line.runs)
    is_all = not near.line and 0 < near.runs <= ended
    return ended / running if is_all and running else math.inf


def when_s(own: EndPlayed, left: float, played: Played, now_s: float) -> Spread:
    """Returns the end, from now, with its interval. `left`: tasks that were not played."""
    ends_s = zip(own.end_s, own.pace_s, strict=True)
    found = (end_s + left * pace_s + played.at_s - now_s for end_s, pace_s in ends_s)
    low_s, end_s, high_s = (max(0.0, one_s) for one_s in found)
    drift = min(DRIFT_MAX, DRIFT_S / own.run_s) if own.run_s else 0.0
    return low_s * (1 - drift), end_s, high_s * (1 + drift)
