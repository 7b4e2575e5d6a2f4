"""Predictions, and how earlier ones came true, as messages."""

from collections.abc import Sequence
from typing import NamedTuple

from lbd.dispatch.core.malleable.decision import KnownSpeedup
from lbd.dispatch.core.malleable.prospects import Answer
from lbd.model import Needs
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.units import at_most, counted
from lbd.theory.calibration import FEWEST, PROVEN, Correction, Judgement, Trust


def predict_info(
    found: Answer, free: int, how: str, known: KnownSpeedup | None, *, knows_runs: bool
) -> pb.PredictInfo:
    """`knows_runs`: otherwise the run times are only assumed."""
    reply = pb.PredictInfo(how=how, free=free, picks=found.picks)
    for one in found.prospects:
        interval_s = one.interval_90_s or (None, None)
        reply.choices.add(
            slots=one.slots, begins_in_s=one.begins_in_s,
            runs_s=one.runs_s if knows_runs else None,
            begins_in_low_s=interval_s[0], begins_in_high_s=interval_s[1],
        )  # fmt: skip
    if reply.choices and reply.choices[0].HasField("begins_in_s"):
        reply.wait_s = reply.choices[0].begins_in_s
    if known is not None:
        reply.speedup.CopyFrom(speedup_info(known))
    return reply


class Compared(NamedTuple):
    """What earlier forecasts tell of how far to trust the next."""

    jobs: int = 0  # as many came true, corrected by those before them or as they were
    off_by: float = 1.0  # as they were, half of the last ones were off by this factor or more

    @classmethod
    def of(cls, found: Judgement, lately: Trust) -> "Compared":
        """The first outcomes verify no interval, nor do those of predictions unlike all earlier
        ones, nor any while the last ones said did not hold."""
        intervals = found.intervals if found.helps else lately.intervals
        if not lately.holds and (not found.helps or lately.intervals >= PROVEN):
            intervals = 0
        is_trusted = found.helps or lately.comes_true
        return cls(min(found.jobs, FEWEST + intervals) if is_trusted else 0, lately.off_by)


def why_uncorrected(
    correction: Correction, compared: Compared, waits_s: Sequence[float], needs: Needs
) -> str:
    """Returns why these predictions were not corrected by what happened to earlier ones; "" if they
    were. Without that they are guesses, unless the earlier ones came true as they were."""
    if needs:
        return "forecasts of jobs with needs are not compared with what happened"
    if correction.jobs < FEWEST:
        so_far = counted(correction.jobs, "forecast")
        return f"{so_far} so far could be compared with what happened, and {FEWEST} are needed"
    if not all(map(correction.is_within, waits_s)):
        return "no forecast that was compared with what happened was for so long or so short a wait"
    if correction.is_known:
        return ""
    off = "half of the last forecasts were off by"
    if compared.jobs:
        return f"{off} {at_most(compared.off_by)}, and correcting them makes them no better"
    return f"{off} a factor of {compared.off_by:.1f} or more, and correcting them has not helped"


def warning_of(asked: pb.PredictAsked, known: KnownSpeedup | None, largest: int) -> str:
    if known is None:
        return ""
    found = []
    if known.linear and asked.slots_most > 1:
        found.append(
            f"its speedup is not known: assumed to be linear up to {asked.slots_most} slots "
            "(give it with --speedup A,SIGMA)"
        )
    if asked.slots_most > largest > 0:
        found.append(
            f"no host that accepts jobs now has more than {largest} slot{'s' * (largest > 1)}"
        )
    return "; ".join(found)


def speedup_info(known: KnownSpeedup) -> pb.SpeedupInfo:
    reply = pb.SpeedupInfo(
        parallelism=known.speedup.parallelism,
        sigma=known.speedup.sigma,
        work_s=known.work_s,
        source="given" if known.given else "linear" if known.linear else "learnt",
    )
    if (fit := known.fitted) is not None:
        reply.runs, reply.noise = fit.runs, fit.noise
        reply.parallelism_low, reply.parallelism_high = fit.parallelism_90
        reply.sigma_low, reply.sigma_high = fit.sigma_90
    return reply


def calibration_info(found: Judgement, lately: Trust, doubt: str) -> pb.CalibrationInfo:
    return pb.CalibrationInfo(
        jobs=found.jobs,
        slope=found.line.slope,
        intercept=found.line.intercept_log10,
        cc_raw=found.raw if found.is_spread else None,
        cc_corrected=found.corrected if found.is_spread else None,
        covered_90=lately.held / lately.intervals if lately.intervals else None,
        lately=lately.count,
        off_by=lately.off_by,
        short=lately.short,
        intervals=lately.intervals,
        doubt=doubt,
        width=lately.width,
    )
