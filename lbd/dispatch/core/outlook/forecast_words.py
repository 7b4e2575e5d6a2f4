"""How a forecast was made, or why there is none, in words. Pure."""

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.malleable.slot_times import FEWEST, ResourceTimes
from lbd.dispatch.core.outlook.needs_outlook import NeedsOutlook
from lbd.dispatch.core.outlook.plays import Played, Sources
from lbd.dispatch.core.outlook.queue_outlook import SlotTimes
from lbd.model import JobId
from lbd.text.job_phrases import NOT_KNOWN_YET
from lbd.text.units import counted, show_duration

FREE = "slots are free"
GUESS = "take it as a rough guess"
HOLDS_OUT = "no estimate while the next job could start, but waits for more slots"
MAY_HOLD_OUT = "it could begin then on the fewest slots, but may wait for more"
SHARES = "users take turns by what each holds, which changes (dispatch.fair_share_s)"
NO_INTERVAL = "no interval: when the jobs ahead give back what it needs is not known well enough"
TOO_FEW_WITH_NEEDS = f"no estimate until {FEWEST} jobs with the same needs have ended"

NOT_OF_ARRAYS_WITH_NEEDS = "no estimate for tasks that need memory or resources"
FIRST_ROUND = "the shortest of its first tasks end first"
ASKED_TOO_OFTEN = "not known at this moment: too many forecasts are asked for"


def too_few_ended(ended: int) -> str:
    """`ended`: how many jobs have."""
    return (
        f"{NOT_KNOWN_YET}{ended} of the {FEWEST} jobs needed have ended; fewer are enough where "
        "all commands ahead have run before"
    )


def end_not_known(ended: int) -> str:
    """The same of the end of an array."""
    return (
        f"{NOT_KNOWN_YET}{ended} of the {FEWEST} jobs needed have ended; one of its own tasks is "
        "enough where all commands ahead have run before"
    )


def made_of(played: Played, slot_times: SlotTimes | None, job: JobId) -> str:
    """Says what the run times of the jobs before this one are taken from."""
    return made_by(played.sources_before(job), slot_times)


def made_by(found: Sources, slot_times: SlotTimes | None) -> str:
    by_all = made_from(slot_times) if slot_times is not None else ""
    said = [
        (found.all_ended, by_all),
        (found.other_arguments, "by ended runs of these programs with other arguments"),
        (found.same, "by ended runs of the same commands"),
        (found.declared, "as their --work says"),
    ]
    said = sorted((one for one in said if one[0] and one[1]), key=lambda one: -one[0])
    if not said:
        return by_all
    also = [f", for {counted(count, 'job')} {how}" for count, how in said[1:]]
    return said[0][1] + "".join(also)


def made_from(slot_times: SlotTimes) -> str:
    count, _, mean_s = slot_times
    return f"by the run times of {count} ended jobs ({show_duration(mean_s)} on average)"


def made_from_those_with(needs: NeedsOutlook, ended: ResourceTimes) -> str:
    """Returns "" unless the job waits for a resource."""
    part = needs.shortage.part if needs.shortage is not None else None
    if not isinstance(part, str) or not (found := ended.lifetimes(part)):
        return ""
    return (
        f"by {ended.count(part)} ended jobs that had {part} ({show_duration(found[1])} on average)"
    )


def nobody_has(job: QueuedJob) -> str:
    lacks = "what it needs" if job.needs else counted(job.slots, "slot")
    if job.only is not None:
        return f"{job.only} accepts no jobs now, or does not have {lacks}"
    where = "other than those excluded " if job.barred else ""
    return f"no host {where}that accepts jobs now has {lacks}"
