"""What `lbctl advise` says about other settings of dispatch.malleable and other owner rules."""

import math

from lbd.cli.ctl.verb import say
from lbd.config.cluster import overlaid
from lbd.config.dispatch import STRATEGIES, Strategy
from lbd.console.daemons import Daemons
from lbd.console.figures import duration
from lbd.console.output import own_page
from lbd.console.reply import Json, number, table, tables, text, texts
from lbd.console.usage_hosts import ask_host, gather
from lbd.errors import LbdError, PeerError, Unavailable
from lbd.sim import malleable_advice, owner_advice
from lbd.text.job_phrases import DISPATCHER
from lbd.text.units import duration_text

QUEUE_ANSWER_S = 30.0
MALLEABLE_HEADER = ("DISPATCH.MALLEABLE", ">TURNAROUND", ">SAVES", ">± 95 %", ">OTHER JOBS")
OWNER_HEADER = ("WHEN AN OWNER IS BACK", ">WAITED", ">DONE AGAIN", ">MOVES")


def owner_results(daemons: Daemons, since: float) -> list[owner_advice.OwnerRuleResult]:
    """Simulates owner rules on the commands that owners interrupted, on all hosts that answer. The
    caller has already named the other hosts."""
    found = gather(daemons, lambda host: ask_host(daemons, "owners", host, past=True))
    rows = [row for answer in found.answers.values() for row in interruptions_of(answer)]
    rows = [row for row in rows if row.ended >= since]
    say_if_few(len(rows), owner_advice.FEWEST, "commands interrupted by owners")
    return owner_advice.results(rows)


def interruptions_of(answer: Json) -> list[owner_advice.Interruption]:
    """Raises PeerError."""
    rows = answer.get("interruptions")
    if not isinstance(rows, list):
        raise PeerError("the daemon's answer is not about owners; is it another version?")
    return [owner_advice.Interruption(*row) for row in rows]


def queue_results(daemons: Daemons, since: float) -> list[malleable_advice.MalleableAdvice]:
    """Simulates dispatch.malleable on the queue's jobs that were submitted and ended since then."""
    if not daemons.queue()[0]:
        return []
    try:
        question = {"op": "jobs", "all": True, "cluster": True, "tasks": True}
        reply = daemons.lbm(question, QUEUE_ANSWER_S)
        if DISPATCHER in texts(reply, "missing"):
            raise Unavailable(f"{DISPATCHER} did not answer")
        found = [job for job in tables(reply, "jobs") if "slots_least" in job]
    except LbdError as problem:
        say(f"jobs of the queue are not included: {problem}")
        return []
    rows = tables(daemons.lim({"op": "status"}), "hosts")
    slots = [(text(row, "name"), number(table(row, "slots"), "total")) for row in rows]
    hosts = [(name, int(count)) for name, count in slots if count > 0]
    jobs = [past for row in found if (past := past_queued(row, since)) is not None]
    say_if_few(sum(job.is_malleable for job in jobs), malleable_advice.FEWEST, "malleable jobs")
    return malleable_advice.results(
        jobs, hosts, as_strategy(overlaid(daemons.config, daemons.saved())[0].dispatch.malleable)
    )


def say_if_few(count: int, needed: int, what: str) -> None:
    if 0 < count < needed:
        say(f"{what}: only {count}, too few for advice ({needed} needed)")


def past_queued(job: Json, since: float) -> malleable_advice.PastQueued | None:
    """Returns None for a job that did not succeed, or was submitted before `since`."""
    submitted, started, finished = (
        number(job, key) for key in ("submitted", "started", "finished")
    )
    known = not any(map(math.isnan, (submitted, started, finished)))
    if not known or submitted < since or text(job, "state") != "done":
        return None
    least, held, most = (int(number(job, key)) for key in ("slots_least", "slots", "slots_most"))
    name = (texts(job, "command") or [""])[0].rpartition("/")[2]
    return malleable_advice.PastQueued(
        submitted, started, finished, least, held, most, text(job, "user"), name
    )


def as_strategy(name: str) -> Strategy:
    return next((one for one in STRATEGIES if one == name), "free")


def malleable_json(results: list[malleable_advice.MalleableAdvice]) -> list[Json]:
    chosen = malleable_advice.best(results)
    return [
        {
            "strategy": one.strategy,
            "turnaround_s": one.turnaround_s,
            "saved_s": one.saved_s,
            "saved_ci95_s": one.saved_ci_s,
            "others_turnaround_s": one.others_s or None,
            "better": one is chosen,
        }
        for one in results
    ]


def malleable_lines(results: list[malleable_advice.MalleableAdvice]) -> list[str]:
    """Returns lines on the queue's jobs under each strategy, and on the one that saves most."""
    rows = [
        (
            one.strategy + (", the current setting" if n == 0 else ""),
            duration(one.turnaround_s),
            duration(one.saved_s) if n else "",
            duration(one.saved_ci_s) if n else "",
            duration(one.others_s) if one.others_s else "",
        )
        for n, one in enumerate(results)
    ]
    lines = own_page().table(MALLEABLE_HEADER, rows)
    chosen = malleable_advice.best(results)
    if chosen is None:
        return [*lines, "", "no other dispatch.malleable was clearly better"]
    others = ""
    if chosen.others_s > results[0].others_s:
        more = chosen.others_s - results[0].others_s
        others = f"; other jobs would have ended {duration_text(more)} later"
    saved = f"{duration_text(chosen.saved_s)} (± {duration_text(chosen.saved_ci_s)})"
    return [
        *lines, "",
        f'dispatch.malleable = "{chosen.strategy}" would have saved malleable jobs an average of '
        f"{saved}{others}",
    ]  # fmt: skip


def owners_json(results: list[owner_advice.OwnerRuleResult]) -> list[Json]:
    chosen = owner_advice.best(results)
    return [
        {
            "rule": one.rule,
            "setting": one.setting or None,
            "waited_s": one.waited_s,
            "lost_s": one.lost_s,
            "moves": one.moves,
            "better": one is chosen,
        }
        for one in results
    ]


def owner_lines(results: list[owner_advice.OwnerRuleResult]) -> list[str]:
    rows = [
        (one.rule, duration(one.waited_s), duration(one.lost_s), str(one.moves)) for one in results
    ]
    lines = own_page().table(OWNER_HEADER, rows)
    chosen = owner_advice.best(results)
    if chosen is None:
        return [*lines, "", "no other rule for owners was clearly better"]
    saved_s = results[0].delay_s - chosen.delay_s
    return [
        *lines,
        "",
        f'"{chosen.rule}" would have saved {duration_text(saved_s)} of waiting and lost work; to '
        "use "
        "it, add this to lbd.toml on these hosts:",
        "    [admission]",
        *(f"    {line}" for line in chosen.setting.split(", ")),
    ]
