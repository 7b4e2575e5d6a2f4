"""What the dispatcher predicts, as the objects of the contract. Pure."""

import math

from lbd.local.json_socket import Json
from lbd.net.gen import dispatch_pb2 as pb


def speedup_of(given: object) -> tuple[float, float]:
    """A and σ. Raises ValueError."""
    match given:
        case [int() | float() as parallelism, int() | float() as sigma]:
            if math.isfinite(parallelism) and math.isfinite(sigma):
                return float(parallelism), float(sigma)
    raise ValueError("speedup must be two numbers")


def prediction_json(reply: pb.PredictInfo) -> Json:
    found: Json = {
        "free": reply.free,
        "predicted_wait_s": present(reply, "wait_s"),
        "predicted_by": reply.how,
        "how": reply.how,
        "comparable": reply.comparable,
        "warning": reply.warning or None,
        "choices": [choice_json(one) for one in reply.choices],
        "picks": dict(reply.picks),
    }
    if reply.HasField("speedup"):
        found["speedup"] = speedup_json(reply.speedup)
    return found


def choice_json(one: pb.ChoiceInfo) -> Json:
    begins_in_s, runs_s = present(one, "begins_in_s"), present(one, "runs_s")
    return {
        "slots": one.slots,
        "begins_in_s": begins_in_s,
        "begins_in_s_90": interval(one, "begins_in_low_s", "begins_in_high_s"),
        "runs_s": runs_s,
        "ends_in_s": None if begins_in_s is None or runs_s is None else begins_in_s + runs_s,
    }


def speedup_json(known: pb.SpeedupInfo) -> Json:
    found: Json = {
        "parallelism": known.parallelism,
        "sigma": known.sigma,
        "work_s": present(known, "work_s"),
        "source": known.source,
    }
    if known.runs:
        found |= {
            "runs": known.runs,
            "parallelism_90": [known.parallelism_low, known.parallelism_high],
            "sigma_90": [known.sigma_low, known.sigma_high],
            "noise": known.noise,
        }
    return found


def calibration_json(found: pb.CalibrationInfo) -> Json:
    return {
        "jobs": found.jobs,
        "slope": found.slope,
        "intercept": found.intercept,
        "cc_raw": present(found, "cc_raw"),
        "cc_corrected": present(found, "cc_corrected"),
        "covered_90": present(found, "covered_90"),
    }


def interval(message: pb.ChoiceInfo | pb.JobInfo, low: str, high: str) -> list[float] | None:
    low_s, high_s = present(message, low), present(message, high)
    return None if low_s is None or high_s is None else [low_s, high_s]


def present(
    message: pb.PredictInfo | pb.ChoiceInfo | pb.SpeedupInfo | pb.CalibrationInfo | pb.JobInfo,
    name: str,
) -> float | None:
    return float(getattr(message, name)) if message.HasField(name) else None
