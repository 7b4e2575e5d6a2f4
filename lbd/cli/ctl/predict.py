"""`lbctl predict`: when a job submitted now would begin and end, and how good forecasts are."""

import argparse
import math
import os

from lbd.cli.ctl.eligible import add_command
from lbd.cli.ctl.verb import Verb, reading, say
from lbd.cli.program import Parser
from lbd.cli.quantities import duration, not_negative, number
from lbd.console.daemons import Daemons
from lbd.console.figures import decimal, share
from lbd.console.forecasts import (
    COMPARABLE,
    about,
    begin_phrase,
    forecast,
    guess_mark,
    interval_text,
    is_proven,
)
from lbd.console.jobs import ANSWER_S
from lbd.console.output import Page, own_page, print_json, put, wrapped
from lbd.console.reply import Json, table, tables, text
from lbd.console.reply import number as number_in
from lbd.errors import ConfigError, LbdError
from lbd.model import Needs
from lbd.text.job_limits import SLOTS_MAX, SPEEDUP_MAX
from lbd.text.job_phrases import NO_HOST_SUITS, NOT_KNOWN_YET
from lbd.text.needs import read_features, read_needs
from lbd.text.needs_words import needs_text
from lbd.text.spelling import nearest
from lbd.text.units import UNIT_FROM_BYTES, at_most, counted, show_duration, size_bytes
from lbd.theory.calibration import COVERS, OFF_BY_LESS, OFF_BY_MUCH, PROVEN, SHORT_S, WIDE

ROUNDED_FROM_S = 60.0  # from here on a forecast is rounded to more than a second
NINE_IN_TEN, LIKELY = ">90 % WITHIN", ">LIKELY"
CHOICE_OF = "CHOICE OF: the values of dispatch.malleable that would take this number of slots"


def add_options(parser: Parser) -> None:
    of_what = "slots the job needs, or the range it can use (default 1)"
    parser.add_argument(
        "-n", "--slots", metavar="N|MIN-MAX", type=slots_of, default=(1, 1), help=of_what
    )
    shape = "its average parallelism A and its variance SIGMA"
    parser.add_argument("--speedup", metavar="A[,SIGMA]", type=speedup_of, help=shape)
    parser.add_argument("--work", metavar="DUR", type=duration, help="its CPU time on one slot")
    parser.add_argument(
        "--need", metavar="NAME[=AMOUNT]", action="append", default=[],
        help="a resource the job needs (repeatable)",
    )  # fmt: skip
    parser.add_argument(
        "--feature",
        metavar="NAME",
        action="append",
        default=[],
        help="only hosts that have this feature",
    )
    parser.add_argument(
        "--not-feature",
        metavar="NAME",
        action="append",
        default=[],
        help="only hosts that lack this feature",
    )
    parser.add_argument(
        "--mem", metavar="SIZE", type=memory, default=0, help="memory the job requests"
    )
    parser.add_argument("-H", "--host", metavar="HOST", help="only this host may run the job")
    parser.add_argument(
        "-x", "--exclude", metavar="HOST", action="append", default=[],
        help="these hosts may not: h2 or h2,h3 (repeatable)",
    )  # fmt: skip
    judged = "show how accurate past predictions were"
    parser.add_argument("--calibration", action="store_true", help=judged)
    own_runs = "use what was learnt from your earlier runs of this command line or command"
    add_command(parser, use=own_runs)


def slots_of(given: str) -> tuple[int, int]:
    least, dash, most = given.partition("-")
    for end in (least, most if dash else least):
        if not (end.isascii() and end.isdecimal() and 0 < int(end) <= SLOTS_MAX):
            raise argparse.ArgumentTypeError(f"{given!r} is neither a number of slots nor a range")
    found = int(least), int(most if dash else least)
    if found[0] > found[1]:
        raise argparse.ArgumentTypeError(f"{given}: the range is backwards")
    if dash and found[0] == found[1]:
        raise argparse.ArgumentTypeError(f"{given}: the range is a single number; write {least}")
    return found


def speedup_of(given: str) -> tuple[float, float]:
    parallelism, _, sigma = given.partition(",")
    found = number(parallelism), not_negative(sigma or "0")
    if not 1 <= found[0] <= SPEEDUP_MAX or found[1] > SPEEDUP_MAX:
        raise argparse.ArgumentTypeError(f"{given}: A must be 1 or more, SIGMA 0 or more")
    return found


def memory(given: str) -> int:
    try:
        found = size_bytes(given)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    if not found:
        raise argparse.ArgumentTypeError("must be above 0")
    if found < UNIT_FROM_BYTES and given[-1:].isdecimal():
        raise argparse.ArgumentTypeError(f"{given} bytes? add a unit, such as {given}G")
    return found


def needs_of(options: argparse.Namespace) -> str:
    """Returns the needs in the LBM's form. Raises ConfigError."""
    try:
        needs = Needs(
            tuple(read_needs(options.need)),
            tuple(read_features(options.feature)),
            tuple(read_features(options.not_feature)),
            options.mem,
        )
    except ValueError as problem:
        raise ConfigError(f"what it needs: {problem}") from None
    if both := {*needs.features} & {*needs.not_features}:
        raise ConfigError(f"--feature {min(both)} contradicts --not-feature {min(both)}")
    return needs_text(needs)


def predict(daemons: Daemons, options: argparse.Namespace) -> int:
    if options.calibration:
        return calibration(daemons, options)
    least, most = options.slots
    if options.work is not None and options.work <= 0:
        raise ConfigError("--work: must be above 0")
    command = [options.command, *options.arguments] if options.command is not None else []
    excluded = [name for given in options.exclude for name in given.split(",")]
    if options.host in excluded or "" in excluded:
        raise ConfigError(f"--exclude {','.join(options.exclude)}: a name is missing, or is --host")
    question: Json = {
        "op": "queue.predict", "slots": least, "slots_most": most, "speedup": options.speedup,
        "work_s": options.work, "command": command,
        "needs": needs_of(options), "host": options.host, "excluded": excluded,
        "path": os.environ.get("PATH", os.defpath),
    }  # fmt: skip
    if options.host is not None:
        check_host(daemons, options.host)
    reply = daemons.lbm(question, ANSWER_S)
    if options.json:
        slots = least if least == most else [least, most]
        picks = {name: one for name, one in table(reply, "picks").items() if name != "FREE"}
        print_json(reply | {"slots": slots, "picks": picks})  # only the picks that decide something
        return 0
    put(*predict_lines(reply, least, most, own_page()))
    if warning := text(reply, "warning"):
        say(warning)
    return 0


def check_host(daemons: Daemons, name: str) -> None:
    """Raises LbdError for a host that is not in this cluster."""
    names = [text(host, "name") for host in tables(daemons.lim({"op": "status"}), "hosts")]
    if name not in names:
        near = nearest(name, names)
        fix = f'did you mean "{near}"?' if near else "lbctl status lists them"
        raise LbdError(f'no host "{name}" in this cluster; {fix}')


def predict_lines(reply: Json, least: int, most: int, page: Page) -> list[str]:
    rows = tables(reply, "choices")
    if why := text(reply, "nobody_takes"):  # no time is left of the queue's forecast
        unknown = "unknown when a job, submitted now, would start"
        return wrapped(f"{unknown}: {NO_HOST_SUITS}: {why}", page.columns, "  ")
    if least == most and len(rows) < 2 and not has_end(rows):
        what = "a job" if least == 1 else f"a job of {least} slots"
        said = f"{what}, submitted now, would start: {begin_phrase(reply)}"
        if math.isnan(number_in(reply, "predicted_wait_s")):
            why = begin_phrase(reply).removeprefix(NOT_KNOWN_YET)
            said = f"unknown when {what}, submitted now, would start: {why}"
        trust = trust_of(reply) if number_in(reply, "predicted_wait_s") > 0 else []
        return [line for one in (said, *trust) for line in wrapped(one, page.columns, "  ")]
    count = f"{least}" if least == most else f"{least}-{most}"
    slots = "slot" if most == 1 else "slots"
    how = text(reply, "how")
    free = number_in(reply, "free")
    there = f"the host with most free has {free:.0f}" if free > 0 else "no slot is free now"
    sentences = [f"a job of {count} {slots}, submitted now; {there}"]
    if number_in(reply, "predicted_wait_s") > 0:
        sentences += [f"predicted: {how}", *trust_of(reply)]
    else:  # slots are free, perhaps too few for some rows, or there is no estimate
        sentences.append(how or "there is no data to predict from")
        sentences += trust_of(reply) if ": by " in how else []
    within = NINE_IN_TEN if is_proven(reply) else LIKELY
    header = (">SLOTS", ">BEGINS IN", within, ">RUNS", ">ENDS IN", "CHOICE OF")
    columns = len(header) - (least == most)  # nothing to choose
    shown = [line for said in sentences for line in wrapped(said, page.columns, "  ")]
    cells = [row_of(one, reply)[:columns] for one in rows]
    lines = page.table(header[:columns], cells, (within, ">RUNS"))
    legend = wrapped(CHOICE_OF, page.columns, "  ") if columns == len(header) else []
    return [*shown, "", *lines, *legend]


def has_end(rows: list[Json]) -> bool:
    return any(not math.isnan(number_in(row, "ends_in_s")) for row in rows)


def row_of(one: Json, reply: Json) -> tuple[str, ...]:
    picks = table(reply, "picks")
    chosen = [name for name in picks if picks[name] == one.get("slots")]
    begins_s, interval = number_in(one, "begins_in_s"), one.get("begins_in_s_90")
    begin_mark = guess_mark(reply, begins_s, interval)
    run_mark = "~" if reply.get("runs_is_guess") else ""
    end_mark, ends_s = begin_mark or run_mark, number_in(one, "ends_in_s")
    begins, ends = about(begins_s, begin_mark), about(ends_s, end_mark)
    if forecast(begins_s) == forecast(ends_s):  # a run of some seconds was lost in rounding
        exact = show_duration(begins_s), show_duration(ends_s)
        if begins_s >= ROUNDED_FROM_S and exact[0] != exact[1]:
            begins, ends = f"{begin_mark}{exact[0]}", f"{end_mark}{exact[1]}"
    runs = about(number_in(one, "runs_s"), run_mark)
    return text(one, "slots"), begins, interval_text(interval), runs, ends, " ".join(chosen)


def trust_of(reply: Json) -> list[str]:
    """Says by what the forecast was corrected, or why it was not; nothing if that is said."""
    count, why = int(number_in(reply, "comparable")), text(reply, "guess")
    if count >= COMPARABLE:
        return [f"not corrected: {why}"] if why else [
            f"corrected by the outcome of {count} earlier predictions"
        ]  # fmt: skip
    return [f"a guess: {why}"] if why else []


def calibration(daemons: Daemons, options: argparse.Namespace) -> int:
    reply = daemons.lbm({"op": "queue.predict", "calibration": True}, ANSWER_S)
    if options.json:
        print_json(reply)
        return 0
    count = int(number_in(reply, "jobs"))
    put(f"{counted(count, 'ended job')} had a prediction when submitted (an array counts once)")
    if count < COMPARABLE:
        say(f"too few to judge: {COMPARABLE} are needed")
        return 0
    if lines := truth_lines(reply):
        put(*lines)
    if math.isnan(number_in(reply, "cc_raw")):  # otherwise a slope of 1 would look like a result
        put("no line is fitted: all waits, or all predictions, are much alike")
        return 0
    put(
        "log10 of the waits on log10 of the predictions: "
        f"slope {decimal(number_in(reply, 'slope'))}, "
        f"intercept {decimal(number_in(reply, 'intercept'))} (1 and 0: no bias)",
        f"correlation {decimal(number_in(reply, 'cc_raw'))}, "
        f"corrected {decimal(number_in(reply, 'cc_corrected'))}",
    )
    return 0


def truth_lines(reply: Json) -> list[str]:
    """Returns lines on how the latest forecasts came true, and whether to rely on them."""
    count, lines = number_in(reply, "lately"), list[str]()
    short = number_in(reply, "short")
    if short > 0:
        lines.append(f"{short:.0f} of the last waits were below {SHORT_S:.0f} s, as predicted")
    if not count > 0:
        return lines
    off_by, held = number_in(reply, "off_by"), number_in(reply, "covered_90")
    how = f"waits below {SHORT_S:.0f} s count as {SHORT_S:.0f} s"
    others = f"other {count:.0f}" if short > 0 else f"last {count:.0f}"
    lines.append(f"half of the {others} were off by {at_most(off_by)} ({how})")
    if (intervals := number_in(reply, "intervals")) > 0:
        within = f"{share(held)} of the waits were within it"
        lines.append(f"of all these, {intervals:.0f} had a 90 % interval: {within}")
    lines.append(verdict(off_by, held, intervals, number_in(reply, "width"), text(reply, "doubt")))
    return lines


def verdict(off_by: float, held: float, intervals: float, width: float, doubt: str) -> str:
    """Returns whether to rely on forecasts: half were off by `off_by` or more, and of `intervals`
    this share held. `width`: how many times later than it began half of these ended, or more."""
    is_proven = intervals >= PROVEN
    holds = is_proven and held >= COVERS
    is_wide = holds and width >= WIDE
    ends = f"half of them ended {width:.0f} times as late as they began, or later"
    if doubt:
        return f"do not rely on them: {doubt}"
    if off_by < OFF_BY_LESS:
        too_narrow = "the times can be relied on, but the intervals have been too narrow"
        if is_wide:
            return f"go by the times: these can be relied on; the intervals are too wide: {ends}"
        return too_narrow if is_proven and not holds else "they can be relied on"
    if is_wide:
        return f"take them as rough guesses: the intervals held, but are too wide: {ends}"
    if holds:
        return "go by the intervals: these can be relied on, the times in them are rough"
    if is_proven or off_by >= OFF_BY_MUCH:
        return "do not rely on them, nor on their intervals"
    return "take them as rough guesses"


VERBS = {
    "predict": Verb(
        reading(predict), add_options,
        ("lbctl predict -n 4", "lbctl predict -n 1-8 --speedup 6,0.5 --work 2h",
         "lbctl predict --need gpu=2 --mem 16G", "lbctl predict --calibration"),
    ),
}  # fmt: skip
