"""`lbctl advise`: the last day's jobs again in virtual time, and what would have been better."""

import argparse
import math
import os
import sys
import time
from dataclasses import fields
from functools import partial

from lbd.cli.ctl.jobs.listing import DISPATCHER
from lbd.cli.ctl.stats import DAY_S, span
from lbd.cli.ctl.verb import Verb, complain_of, reading
from lbd.cli.program import complain
from lbd.cli.sim.pool import NICENESS, WORKERS, Pool
from lbd.config.cluster import overlaid
from lbd.config.dispatch import STRATEGIES, Strategy
from lbd.config.schema import LimConfig
from lbd.console.daemons import Daemons
from lbd.console.figures import duration
from lbd.console.output import Row, lay_out, paint_for, print_json, print_table, put
from lbd.console.reply import Json, number, table, tables, text, texts
from lbd.console.usage_hosts import ask_host, gather
from lbd.errors import ConfigError, LbdError, PeerError, Unavailable
from lbd.local.json_socket import Refusal
from lbd.sim import malleable_advice, owner_advice
from lbd.sim.advice import (
    JOBS_MIN,
    Day,
    Finding,
    PastHost,
    PastJob,
    Trial,
    best,
    day_of,
    findings,
    replications,
    setup_for,
    trials,
)
from lbd.sim.balance.runs import Outcome, load_of, run_once
from lbd.text.units import duration_text

HOST_JOBS_MAX = 100_000
QUEUE_ANSWER_S = 30.0
MALLEABLE_HEADER = ("DISPATCH.MALLEABLE", ">TURNAROUND", ">SAVES", ">± 95 %", ">OTHER JOBS")
OWNER_HEADER = ("WHEN AN OWNER IS BACK", ">WAITED", ">DONE AGAIN", ">MOVES")
HEADER = ("ALGORITHM", "WITH", ">RESPONSE", ">SAVES", ">± 95 %", ">MOVED", ">WRONG", ">MSG/HOST/S",
          ">CPU COST")  # fmt: skip
EXAMPLES = (
    "lbctl advise                      the jobs of the last day",
    "lbctl advise --since 7d           those of the week, for a rule that holds longer",
    "lbctl advise --json | jq '.best'",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", metavar="TIME", type=span, default=DAY_S,
                        help="of jobs ended since then: 7d, yesterday; default 1d")  # fmt: skip


def advise(daemons: Daemons, options: argparse.Namespace) -> int:
    until = time.time()
    since = max(0.0, until - options.since)
    found = gather(daemons, lambda host: history(daemons, host, since))
    complain_of(found.missing)
    jobs = [job for host in found.answers.values() for job in host]
    day = read_day(daemons, jobs)
    if day.strangers:
        left_out = f"{day.strangers} jobs are left out"
        complain("lbctl", f"{left_out}: their hosts are no longer in the cluster")
    results = replayed(day) if reason_not(day) == "" else []
    owners = owner_results(daemons, since)
    queue = queue_results(daemons, since)
    if options.json:
        reply: Json = {
            "since": since,
            "until": until,
            "hosts": sorted(found.answers),
            "missing": sorted(found.missing),
            **as_json(day, results),
            "owners": owners_json(owners),
            "malleable": malleable_json(queue),
        }
        print_json(reply)
    else:
        show(day, results, options.since)
        if owners:
            put("", *owner_lines(owners))
        if queue:
            put("", *malleable_lines(queue))
    return 0


def history(daemons: Daemons, host: str, since: float) -> list[PastJob]:
    """Page by page, so that the host's LBM has time for its commands in between."""
    jobs: list[PastJob] = []
    after = 0
    while len(jobs) < HOST_JOBS_MAX:
        page = ask_host(daemons, "history", host, since=since, after=after).get("jobs")
        if not isinstance(page, list):
            raise PeerError("the daemon's answer holds no jobs; is it another version?")
        if not page:
            return jobs
        jobs += [PastJob(*row[1:]) for row in page]
        if page[-1][0] <= after:
            raise PeerError(f"{host} counts its jobs backwards")
        after = page[-1][0]
    complain("lbctl", f"{host}: only its oldest {len(jobs)} jobs count; try a shorter --since")
    return jobs


def read_day(daemons: Daemons, jobs: list[PastJob]) -> Day:
    status = daemons.lim({"op": "status"})
    hosts = [
        PastHost(text(row, "name"), number(row, "cores"), number(row, "speed"))
        for row in tables(status, "hosts")
        if number(row, "cores") > 0 and number(row, "speed") > 0
    ]
    if len(hosts) < 2:
        raise ConfigError("this cluster has one host: there is nothing to choose")
    return day_of(jobs, hosts, text(table(status, "cluster"), "algorithm"), parameters(daemons))


def parameters(daemons: Daemons) -> dict[str, float]:
    """Returns the parameters in force, by short name."""
    found: dict[str, float] = {}
    for name in (*(item.name for item in fields(LimConfig)), "smoothing_s"):
        try:
            value = number(daemons.lim({"op": "param", "name": name}), "value")
        except Refusal:  # it is none that can be changed
            continue
        if not math.isnan(value):
            found[name] = value
    return found


def reason_not(day: Day) -> str:
    """Returns why no advice can be given; "" if it can."""
    if day.movable >= JOBS_MIN:
        return ""
    return (
        f"{day.jobs} jobs, of which {day.movable} could have moved and were worth it: "
        f"too few to judge ({JOBS_MIN} are needed; try a longer --since)"
    )


def replayed(day: Day) -> list[Finding]:
    """At the lowest priority: it has time, the commands of this host have not."""
    os.nice(NICENESS)
    wanted = trials(day)
    times = replications(day)
    runs = [(trial, number) for trial in wanted for number in range(times)]
    outcomes = Pool("lbctl advise", WORKERS)(partial(replay, day), runs)
    by_trial = [outcomes[at : at + times] for at in range(0, len(runs), times)]
    return findings(day, list(zip(wanted, by_trial, strict=True)))


def replay(day: Day, run: tuple[Trial, int]) -> Outcome:
    trial, number = run
    return run_once(setup_for(day, trial), trial.algorithm, number)


# What is said of it


def as_json(day: Day, results: list[Finding]) -> Json:
    chosen = best(results)
    return {
        "algorithm": day.setup.lim.algorithm,
        "jobs": day.jobs,
        "movable": day.movable,
        "needed": JOBS_MIN,
        "not_measured": day.guessed,
        "utilisation": load_of(day.setup) if day.jobs else None,
        "verdict": verdict(results, chosen),
        "best": finding_json(chosen) if chosen is not None else None,
        "results": [finding_json(one) for one in results],
    }


def verdict(results: list[Finding], chosen: Finding | None) -> str:
    if not results:
        return "too-few-jobs"
    return "better" if chosen is not None else "nothing-better"


def finding_json(one: Finding) -> Json:
    return {
        "algorithm": one.trial.algorithm,
        "parameters": dict(one.trial.parameters),
        "mean_response_s": one.mean_response_s,
        "gain": one.gain,
        "gain_ci95": one.gain_ci,
        "better": one.is_better,
        "transferred": one.transferred,
        "wrong_transfers": one.wrong_transfers,
        "messages_per_host_s": one.messages_per_host_s,
        "overhead": one.overhead,
    }


def show(day: Day, results: list[Finding], span_s: float) -> None:
    if not results:
        complain("lbctl", f"within {duration_text(span_s)} {reason_not(day)}")
        return
    now = results[0]
    put(
        f"{day.jobs} jobs of {duration_text(span_s)} on {day.setup.hosts} hosts, replayed; "
        f"{day.movable} could move; utilisation {load_of(day.setup):.0%} without pauses"
    )
    if day.guessed:
        put(f"the CPU time of {day.guessed} jobs was not measured: taken from like commands")
    put()
    ranked = [now, *sorted(results[1:], key=lambda one: -one.gain)]
    print_table(HEADER, [row_of(one, is_now=one is now) for one in ranked])
    put()
    put(*advice(now, best(results)))


def row_of(one: Finding, *, is_now: bool) -> Row:
    return (
        one.trial.algorithm,
        "as it is now" if is_now else changes(one.trial),
        duration(one.mean_response_s),
        "" if is_now else f"{one.gain:+.1%}",
        "" if is_now else f"{one.gain_ci:.1%}",
        f"{one.transferred:.1%}",
        f"{one.wrong_transfers:.1%}",
        f"{one.messages_per_host_s:.3g}",
        f"{one.overhead:.2%}",
    )


def changes(trial: Trial) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in trial.parameters)


def advice(now: Finding, chosen: Finding | None) -> list[str]:
    if chosen is None:
        return [f"nothing tried would clearly have been better than {now.trial.algorithm} as it is"]
    trial = chosen.trial
    more = chosen.messages_per_host_s - now.messages_per_host_s
    cost = f"{abs(more):.2g} messages per host and second {'more' if more >= 0 else 'less'}"
    name = f"{trial.algorithm} {changes(trial)}".rstrip()
    lines = [
        f"{name} would have saved {chosen.gain:.1%} (± {chosen.gain_ci:.1%}) of the mean response "
        f"time, for {cost}; to use it:"
    ]
    if trial.algorithm != now.trial.algorithm:
        lines.append(f"    lbctl algorithm {trial.algorithm}")
    lines += [f"    lbctl param {key} {value:.6g}" for key, value in trial.parameters]
    return lines


# Owners


def owner_results(daemons: Daemons, since: float) -> list[owner_advice.OwnerRuleResult]:
    """Of the commands that stood still on any host that answers; who does not has been named."""
    found = gather(daemons, lambda host: ask_host(daemons, "owners", host, past=True))
    rows = [row for answer in found.answers.values() for row in interruptions_of(answer)]
    rows = [row for row in rows if row.ended >= since]
    say_if_few(len(rows), owner_advice.FEWEST, "commands interrupted by owners")
    return owner_advice.results(rows)


def interruptions_of(answer: Json) -> list[owner_advice.Interruption]:
    """Raises PeerError."""
    rows = answer.get("interruptions")
    if not isinstance(rows, list):
        raise PeerError("the daemon's answer is none about owners; is it another version?")
    return [owner_advice.Interruption(*row) for row in rows]


def queue_results(daemons: Daemons, since: float) -> list[malleable_advice.MalleableAdvice]:
    """Of the queue's jobs that came and ended within the time, if there is a queue."""
    if not daemons.queue()[0]:
        return []
    try:
        question = {"op": "jobs", "all": True, "cluster": True, "tasks": True}
        reply = daemons.lbm(question, QUEUE_ANSWER_S)
        if DISPATCHER in texts(reply, "missing"):
            raise Unavailable(f"{DISPATCHER} did not answer")
        found = [job for job in tables(reply, "jobs") if "slots_least" in job]
    except LbdError as problem:
        complain("lbctl", f"without the jobs of the queue: {problem}")
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
        complain("lbctl", f"{what}: only {count}, too few for advice ({needed} are needed)")


def past_queued(job: Json, since: float) -> malleable_advice.PastQueued | None:
    """None of one that did not run to its own end, or came before."""
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
    """The queue's jobs again under each strategy, and the one that saves."""
    rows = [
        (
            one.strategy + (", as it is set here" if n == 0 else ""),
            duration(one.turnaround_s),
            duration(one.saved_s) if n else "",
            duration(one.saved_ci_s) if n else "",
            duration(one.others_s) if one.others_s else "",
        )
        for n, one in enumerate(results)
    ]
    lines = lay_out(MALLEABLE_HEADER, rows, paint_for(sys.stdout))
    chosen = malleable_advice.best(results)
    if chosen is None:
        return [*lines, "", "no other dispatch.malleable would clearly have been better"]
    others = ""
    if chosen.others_s > results[0].others_s:
        more = chosen.others_s - results[0].others_s
        others = f"; other jobs would have ended {duration_text(more)} later"
    saved = f"{duration_text(chosen.saved_s)} (± {duration_text(chosen.saved_ci_s)})"
    return [
        *lines, "",
        f'dispatch.malleable = "{chosen.strategy}" would have saved malleable jobs {saved} each'
        f" on average{others}",
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
    lines = lay_out(OWNER_HEADER, rows, paint_for(sys.stdout))
    chosen = owner_advice.best(results)
    if chosen is None:
        return [*lines, "", "no other rule for owners would clearly have been better"]
    saved_s = results[0].delay_s - chosen.delay_s
    return [
        *lines,
        "",
        f'"{chosen.rule}" would have saved {duration_text(saved_s)} of waiting and lost work; to '
        "use it, put this into lbd.toml of these hosts:",
        "    [admission]",
        *(f"    {line}" for line in chosen.setting.split(", ")),
    ]


VERBS = {"advise": Verb(reading(advise), add_options, EXAMPLES)}
