"""Arrays with a target: when they end, beside the same with as many slots to the end, and with all.

Ten arrays at once of tasks that sleep for exponential times, drawn from the seed and the same for
all three. SAA's fixed number is a limit for the arrays' names; with all slots they take turns. The
rule learns the mean from its own tasks, and starts with the user's estimate. Takes some two
minutes.

A busy machine takes longer to start the sleeping tasks: the rule gives the arrays more slots for
that, and a fixed number ends late.
"""

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, stdev

from lbd.dispatch.core.targets.plan import SURE
from lbd.theory.target_time import mean_left_s, variance_left_s2, variance_steered_s2
from tests.bench.measure import CannotMeasureError, summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import ENVIRONMENT, Lab, Stage

ARRAYS, TASKS, AT_ONCE, MEAN_S = 10, 64, 4, 1.2
ROUNDS, QUICK_ROUNDS = 3, 1
SLOTS = 40  # of each of two hosts: twice what the arrays need
SETTINGS = (
    "dispatch.host=h1", f"lbm.slots={SLOTS}", "dispatch.load_ceiling=10000",
    "lim.hold_above=10000", f'dispatch.name_jobs=["fixed-*:{AT_ONCE}"]',
)  # fmt: skip
PATIENCE_S = 120.0
WITHIN_ASKED = Bound(0.7, at_least=True, of_ratio=False)  # for 90 %, given 30 arrays
SPREAD_ASKED, SLOTS_ASKED = Bound(1.0), Bound(0.8)


@dataclass(frozen=True, slots=True)
class Found:
    late_s: list[float]  # each array's end relative to its target
    slots: float  # held on average until the last one ended


def measure(stage: Stage, _wanted: set[str]) -> list[Row]:
    target_s = mean_left_s(TASKS, AT_ONCE, MEAN_S)
    rng, mark = Random(stage.rng.random()), stage.others.mark()
    steered, fixed, every = list[Found](), list[Found](), list[Found]()
    with stage.new_lab("targets", 2, *SETTINGS) as lab:
        for _ in range(QUICK_ROUNDS if stage.quick else ROUNDS):
            sizes = [[rng.expovariate(1 / MEAN_S) for _ in range(TASKS)] for _ in range(ARRAYS)]
            own = "--target", f"{target_s}s", "--work", f"{MEAN_S}s"
            steered.append(run(stage, lab, "steered", sizes, target_s, *own))
            fixed.append(run(stage, lab, "fixed", sizes, target_s))
            if not every:
                every.append(run(stage, lab, "every", sizes, target_s))
    others = stage.others.share_since(mark)
    late, saa = ([late for one in found for late in one.late_s] for found in (steered, fixed))
    sd_s, saa_sd_s = (
        variance(TASKS, AT_ONCE, MEAN_S) ** 0.5
        for variance in (variance_steered_s2, variance_left_s2)
    )
    within = fmean(abs(one) <= SURE * sd_s for one in late)
    means = f"{fmean(late):+.2f} s on average, s.d. {stdev(late):.2f} (theory {sd_s:.2f})"
    saa_means = f"fixed {fmean(saa):+.2f} s, s.d. {stdev(saa):.2f} ({saa_sd_s:.2f})"
    all_s = fmean(one for found in every for one in found.late_s)
    return [
        Row(
            "arrays that end within the 90 % that DAA's variance predicts", "share",
            summarise([within]), asked=WITHIN_ASKED, others=others,
            note=f"{means}; {saa_means}; with all slots {all_s:+.2f} s",
        ),
        Row(
            "how far arrays end from their mean", "s", summarise(deviations(late)),
            f"{AT_ONCE} slots to the end", summarise(deviations(saa)), SPREAD_ASKED, others,
        ),
        Row(
            "slots that ten arrays with targets hold", "slots",
            summarise([one.slots for one in steered]), "without targets",
            summarise([one.slots for one in every]), SLOTS_ASKED, others,
        ),
    ]  # fmt: skip


def deviations(late_s: Sequence[float]) -> list[float]:
    centre = fmean(late_s)
    return [abs(one - centre) for one in late_s]


def run(
    stage: Stage, lab: Lab, kind: str, sizes: Sequence[Sequence[float]], target_s: float,
    *options: str,
) -> Found:  # fmt: skip
    """One round of all arrays, each under a name of its own."""
    near, ids, targets = lab.environment("h1"), list[str](), list[float]()
    for number, own in enumerate(sizes):
        script = 'shift $((LBD_ARRAY_INDEX - 1)); exec sleep "$1"'
        words = [
            str(stage.installation.lbrun), "-d", "--name", f"{kind}-{number}",
            "--array", f"1-{len(own)}", *options, "sh", "-c", script, "sh",
            *(f"{size:.4f}" for size in own),
        ]  # fmt: skip
        targets.append(time.time() + target_s)
        ids.append(answer(words, near).strip())
    until_ended(stage, ids, near)
    late_s, worked_s, began, ended = list[float](), 0.0, time.time(), 0.0
    for name, target in zip(ids, targets, strict=True):
        jobs = ask(stage, near, "jobs", "--tasks", name)
        late_s.append(max(job["finished"] for job in jobs) - target)
        worked_s += sum(job["finished"] - job["started"] for job in jobs)
        began = min(began, *(job["started"] for job in jobs))
        ended = max(ended, *(job["finished"] for job in jobs))
    return Found(late_s, worked_s / (ended - began))


def until_ended(stage: Stage, ids: list[str], near: dict[str, str]) -> None:
    argv = lbctl(stage, "wait", "--timeout", f"{PATIENCE_S}s", *ids)
    found = subprocess.run(argv, env=near, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if found.returncode:
        raise CannotMeasureError(f"arrays did not end well: {found.stderr.strip()}")


def ask(stage: Stage, near: dict[str, str], *words: str) -> list[dict[str, float]]:
    found: list[dict[str, float]] = json.loads(answer(lbctl(stage, *words, "--json"), near))
    return found


def lbctl(stage: Stage, *words: str) -> list[str]:
    return [str(stage.installation.python), "-P", "-m", "lbd.cli.lbctl", *words]


def answer(argv: Sequence[str], environment: dict[str, str]) -> str:
    found = subprocess.run(
        argv, env=ENVIRONMENT | environment, capture_output=True, text=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if found.returncode:
        raise CannotMeasureError(f"{argv[0]}: {found.stderr.strip()}")
    return found.stdout
