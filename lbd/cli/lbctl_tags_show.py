"""`lbctl tags show`, and `tags fit` of what the queue has run: asked of the dispatcher."""

import math
import time

from lbd.cli.daemons import Daemons
from lbd.cli.lbctl_jobs import since
from lbd.cli.output import print_json, print_table, put
from lbd.cli.reply import Json, number, table, tables, text, texts
from lbd.errors import LbdError

ANSWER_S = 15.0  # a look at the past is part of it
FIT_KEYS = ("k", "p", "alpha", "jobs", "ks_distance", "arrival_rate_per_s", "by", "mean_s",
            "fitted_mean_s", "pace", "good")  # fmt: skip
TIER_KEYS = ("tier", "cutoff_s", "hosts", "slots", "waiting", "running", "load", "wait_s",
             "visit_share", "slowdown")  # fmt: skip
TIERS = (">TIER", ">CUTOFF S", "HOSTS", ">SLOTS", ">WAITING", ">RUNNING", ">LOAD", ">VISIT",
         ">WAIT S", ">SLOWDOWN")  # fmt: skip


def show(daemons: Daemons, *, as_json: bool) -> int:
    told = daemons.lbm({"op": "queue.tags"}, ANSWER_S)
    if as_json:
        print_json(as_object(told))
        return 0
    tiers = tables(told, "tiers")
    mode = text(told, "mode")
    if not tiers:
        put(f"mode {mode}: it has no tiers (dispatch.mode is to be tags or sita-e)")
    else:
        whence = {
            "given": "given by tags.cutoffs_s",
            "solved": f"solved from the queue's own jobs, for {text(told, 'objective')}",
            "none": "none yet: one queue for all hosts",
        }[text(told, "source")]
        helps = "; idle hosts help lower tiers" if told.get("work_conserving") else ""
        put(f"mode {mode}, cutoffs {whence}{helps}", "")
        print_table(TIERS, [tier_row(tier) for tier in tiers])
    if told.get("fit"):
        put()
        show_fit(table(told, "fit"), told)
    if reason := text(told, "reason"):
        put(reason)
    changes = tables(told, "changes")
    for change in changes:
        put(f"{since(time.time() - number(change, 'at'))} ago  {text(change, 'what')}")
    return 0


def tier_row(tier: Json) -> list[str]:
    hosts = texts(tier, "hosts")
    more = f" +{len(hosts) - 4}" if len(hosts) > 4 else ""
    return [
        text(tier, "tier"),
        shown(number(tier, "cutoff_s")),
        " ".join(hosts[:4]) + more or "–",
        text(tier, "slots"),
        text(tier, "waiting"),
        text(tier, "running"),
        *(shown(number(tier, key)) for key in ("load", "visit_share", "wait_s", "slowdown")),
    ]


def shown(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4g}"


def show_fit(fit: Json, told: Json) -> None:
    k, p, alpha = (number(fit, key) for key in ("k", "p", "alpha"))
    use = "cutoffs are solved for it" if fit.get("good") else "cutoffs are solved for them as are"
    put(
        f"{number(fit, 'jobs'):.0f} jobs on record, mean {number(fit, 'mean_s'):.4g} s of CPU,"
        f" {number(fit, 'arrival_rate_per_s'):.4g} a second: load {shown(number(told, 'load'))}"
    )
    put(
        f"nearest bounded Pareto: k {k:.4g} s, p {p:.4g} s, alpha {alpha:.3f},"
        f" Kolmogorov-Smirnov distance {number(fit, 'ks_distance'):.4f}; {use}"
    )


def fit(daemons: Daemons, *, as_json: bool) -> int:
    """Of the jobs that the queue has run. Raises LbdError if they are too few."""
    told = daemons.lbm({"op": "queue.tags"}, ANSWER_S)
    found = table(told, "fit")
    if not found:
        raise LbdError(f"no fit: {text(told, 'reason') or 'the queue has run no jobs'}")
    if as_json:
        print_json({key: found.get(key) for key in FIT_KEYS})
    else:
        show_fit(found, told)
    return 0


def as_object(told: Json) -> Json:
    """Absent values are null."""
    fit_found = table(told, "fit")
    return {
        "mode": told.get("mode"),
        "source": told.get("source"),
        "objective": told.get("objective"),
        "work_conserving": told.get("work_conserving"),
        "cutoffs": told.get("cutoffs_s") or [],
        "tiers": [{key: tier.get(key) for key in TIER_KEYS} for tier in tables(told, "tiers")],
        "load": told.get("load"),
        "mean_slowdown": told.get("mean_slowdown"),
        "mean_waiting_s": told.get("mean_waiting_s"),
        "one_queue": told.get("one_queue"),
        "fit": {key: fit_found.get(key) for key in FIT_KEYS} if fit_found else None,
        "reason": told.get("reason") or None,
        "looked": told.get("looked") or None,
        "changes": told.get("changes") or [],
    }
