"""`lbctl tags show`, and `tags fit` for jobs that the queue has run: asks the dispatcher."""

import math
import time

from lbd.console.daemons import Daemons
from lbd.console.figures import duration
from lbd.console.output import print_json, print_table, put
from lbd.console.reply import Json, number, table, tables, text, texts
from lbd.errors import LbdError

ANSWER_S = 15.0  # it includes a look at past jobs
FIT_KEYS = ("k", "p", "alpha", "jobs", "ks_distance", "arrival_rate_per_s", "by", "mean_s",
            "fitted_mean_s", "pace", "good")  # fmt: skip
KEYS = ("mode", "source", "objective", "work_conserving", "load", "mean_slowdown",
        "mean_waiting_s", "one_queue")  # fmt: skip
TIER_KEYS = ("tier", "cutoff_s", "hosts", "slots", "waiting", "running", "load", "wait_s",
             "visit_share", "slowdown")  # fmt: skip
TIERS = (">TIER", ">CUTOFF S", "HOSTS", ">SLOTS", ">WAITING", ">RUNNING", ">LOAD", ">VISIT",
         ">WAIT S", ">SLOWDOWN")  # fmt: skip


def show(daemons: Daemons, *, as_json: bool) -> int:
    tags = daemons.lbm({"op": "queue.tags"}, ANSWER_S)
    if as_json:
        print_json(as_object(tags))
        return 0
    tiers = tables(tags, "tiers")
    mode = text(tags, "mode")
    if not tiers:
        put(f"mode {mode} has no tiers; only dispatch.mode tags and sita-e do")
    else:
        whence = {
            "given": "given by tags.cutoffs_s",
            "solved": f"solved from the queue's own jobs, for {text(tags, 'objective')}",
            "none": "none yet: one queue for all hosts",
        }.get(text(tags, "source"), text(tags, "source"))
        helps = "; idle hosts help lower tiers" if tags.get("work_conserving") else ""
        put(f"mode {mode}, cutoffs {whence}{helps}", "")
        print_table(TIERS, [tier_row(tier) for tier in tiers])
    if tags.get("fit"):
        put()
        show_fit(table(tags, "fit"), tags)
    if (reason := text(tags, "reason")) and text(tags, "source") != "given":
        put(reason)
    changes = tables(tags, "changes")
    for change in changes:
        put(f"{duration(time.time() - number(change, 'at'))} ago  {text(change, 'what')}")
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


def show_fit(fit: Json, tags: Json) -> None:
    k, p, alpha = (number(fit, key) for key in ("k", "p", "alpha"))
    use = (
        "cutoffs are solved for it"
        if fit.get("good")
        else "cutoffs are solved for the jobs as they are"
    )
    put(
        f"{number(fit, 'jobs'):.0f} jobs on record, mean {number(fit, 'mean_s'):.4g} s of CPU,"
        f" {number(fit, 'arrival_rate_per_s'):.4g} a second: load {shown(number(tags, 'load'))}"
    )
    put(
        f"nearest bounded Pareto: k {k:.4g} s, p {p:.4g} s, alpha {alpha:.3f},"
        f" Kolmogorov-Smirnov distance {number(fit, 'ks_distance'):.4f}; {use}"
    )


def fit(daemons: Daemons, *, as_json: bool) -> int:
    """Fits the jobs that the queue has run. Raises LbdError if they are too few."""
    tags = daemons.lbm({"op": "queue.tags"}, ANSWER_S)
    found = table(tags, "fit")
    if not found:
        raise LbdError(f"no fit: {text(tags, 'reason') or 'the queue has run no jobs'}")
    if as_json:
        print_json({key: found.get(key) for key in FIT_KEYS})
    else:
        show_fit(found, tags)
    return 0


def as_object(tags: Json) -> Json:
    """Replaces absent values by null."""
    fit_found = table(tags, "fit")
    return {key: tags.get(key) for key in KEYS} | {
        "cutoffs": tags.get("cutoffs_s") or [],
        "tiers": [{key: tier.get(key) for key in TIER_KEYS} for tier in tables(tags, "tiers")],
        "fit": {key: fit_found.get(key) for key in FIT_KEYS} if fit_found else None,
        "reason": tags.get("reason") or None,
        "looked": tags.get("looked") or None,
        "changes": tags.get("changes") or [],
    }
