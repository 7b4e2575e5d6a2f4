"""`lbctl predict`: malformed questions, which are never sent, and what it prints."""

import math
from argparse import Namespace

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl.predict import (
    add_options,
    calibration,
    check_host,
    needs_of,
    predict_lines,
    row_of,
    verdict,
)
from lbd.cli.program import Parser
from lbd.console.forecasts import begin_phrase, forecast, interval_text, truth_phrase
from lbd.console.job_details import speedup_phrase
from lbd.console.output import Page, Paint
from lbd.errors import LbdError
from lbd.text.units import at_most


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-n", "4-2"), "4-2: the range is backwards"),
        (("-n", "3-3"), "3-3: the range is a single number; write 3"),
        (("-n", "0"), "'0' is neither a number of slots nor a range"),
        (("--speedup", "0.5"), "A must be 1 or more"),
        (("--speedup", "4,-1"), "must be 0 or more"),
        (("--work", "-1"), "is not a"),
        (("--need", "gpu=0"), "'gpu=0': an amount must be above 0"),
        (("--need", "memory=1G"), "memory is requested with --mem"),
        (("--mem", "16"), "16 bytes? add a unit, such as 16G"),
        (("--mem", "0"), "must be above 0"),
        (("--feature", "a", "--not-feature", "a"), "--feature a contradicts --not-feature a"),
        (("-H", "h1", "-x", "h2,h1"), "--exclude h2,h1: a name is missing, or is --host"),
        (("-x", "h2,"), "--exclude h2,: a name is missing, or is --host"),
    ],
)
def test_a_malformed_question_is_refused(words, said, complaint):
    assert lbctl.main(["predict", *words]) == 2
    assert said in complaint()


def test_the_needs_of_the_job_are_sent_in_the_terms_of_the_lbm():
    parser = Parser(prog="lbctl predict", description="")
    add_options(parser)
    words = ["--need", "gpu=2", "--need", "scratch=1G", "--feature", "big", "--mem", "16G"]
    assert needs_of(parser.parse_args(words)) == f"gpu=2 scratch={1 << 30} +big memory={16 << 30}"
    assert needs_of(parser.parse_args([])) == ""


class Dispatcher:
    def __init__(self, jobs, correlation):
        self.known = {"jobs": jobs, "cc_raw": correlation}

    def lbm(self, _question, _timeout_s):
        line = {"slope": 1.0, "intercept": 0.0, "cc_corrected": None}
        lately = {"lately": 0, "short": 0, "off_by": None, "intervals": 0, "doubt": None}
        return {"covered_90": None, **line, **lately, **self.known}


def test_no_slope_is_shown_before_any_comparison(capsys):
    assert calibration(Dispatcher(10, None), Namespace(json=False)) == 0
    out, err = capsys.readouterr()
    assert out == "10 ended jobs had a prediction when submitted (an array counts once)\n"
    assert err == "lbctl: too few to judge: 20 are needed\n"
    assert calibration(Dispatcher(42, None), Namespace(json=False)) == 0  # no job waited a second
    out, err = capsys.readouterr()
    assert out == (
        "42 ended jobs had a prediction when submitted (an array counts once)\n"
        "no line is fitted: all waits, or all predictions, are much alike\n"
    )
    assert err == ""
    assert calibration(Dispatcher(12, 0.5), Namespace(json=False)) == 0
    assert "slope" not in capsys.readouterr().out, "of twelve it says nothing"
    assert calibration(Dispatcher(20, 0.5), Namespace(json=False)) == 0
    assert "slope 1.00" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("off_by", "held", "doubt", "said"),
    [
        (1.42, 1.0, None, "they can be relied on"),
        (1.42, 0.5, None, "the times can be relied on, but the intervals have been too narrow"),
        (
            5.0,
            0.9,
            None,
            "go by the intervals: these can be relied on, the times in them are rough",
        ),
        (5.0, 0.5, "why", "do not rely on them: why"),
        (5.0, 0.17, None, "do not rely on them, nor on their intervals"),
        (2.7, 0.0, None, "do not rely on them, nor on their intervals"),
        (
            2.7,
            0.9,
            None,
            "go by the intervals: these can be relied on, the times in them are rough",
        ),
    ],
)
def test_the_reliability_of_forecasts_comes_from_how_the_last_ones_turned_out(
    off_by, held, doubt, said, capsys
):
    judged = Dispatcher(60, -0.44)  # this figure says nothing about reliability
    judged.known |= {"lately": 50, "off_by": off_by, "intervals": 12, "covered_90": held}
    judged.known["doubt"] = doubt
    assert calibration(judged, Namespace(json=False)) == 0
    short = "(waits below 10 s count as 10 s)"
    assert capsys.readouterr().out.splitlines()[1:-2] == [
        f"half of the last 50 were off by {at_most(off_by)} {short}",
        f"of all these, 12 had a 90 % interval: {held:.0%} of the waits were within it",
        said,
    ]


def test_times_off_by_more_than_two_are_rough_guesses_where_no_interval_was_shown():
    assert verdict(1.9, math.nan, 0, 1.0, "") == "they can be relied on"
    assert verdict(2.7, math.nan, 0, 1.0, "") == "take them as rough guesses"
    assert verdict(3.0, math.nan, 0, 1.0, "") == "do not rely on them, nor on their intervals"


def test_intervals_of_forty_seconds_to_half_an_hour_are_not_praised():
    ends = "half of them ended 44 times as late as they began, or later"
    assert verdict(4.8, 1.0, 39, 43.5, "") == (
        f"take them as rough guesses: the intervals held, but are too wide: {ends}"
    )
    assert verdict(1.4, 1.0, 39, 43.5, "") == (
        f"go by the times: these can be relied on; the intervals are too wide: {ends}"
    )
    assert verdict(4.8, 0.9, 39, 9.9, "").startswith("go by the intervals")
    assert verdict(1.4, 1.0, 39, math.nan, "") == "they can be relied on"


def test_a_forecast_has_two_digits_and_is_marked_as_a_guess_or_about():
    shown = {0.0: "0s", 0.012: "<1s", 29.3: "29s", 185.0: "3m00s", 5012.0: "1h20m"}
    assert {wait_s: forecast(wait_s) for wait_s in shown} == shown
    guess = {"predicted_wait_s": 12.3, "predicted_by": "x", "predicted_wait_s_90": [0.2, 29.0]}
    guess["comparable"] = 3
    assert begin_phrase(guess) == "in ~12s, likely up to 29s (x)"
    found = {count: begin_phrase(guess | {"comparable": count}) for count in (20, 29, 30)}
    assert found[20] == found[29] == "in about 12s, likely up to 29s (x)"
    assert found[30] == "in about 12s, up to 29s in nine cases out of ten (x)"
    short = guess | {"predicted_wait_s": 0.5}
    assert begin_phrase(short).startswith("in ~1s, likely up to 29s")
    assert begin_phrase(short | {"comparable": 20}).startswith("in less than 1s, ")
    sure = short | {"predicted_wait_s_90": [0.2, 0.9]}
    assert begin_phrase(sure).startswith("in less than 1s, ")


def test_intervals_that_begin_below_a_second_have_no_lower_end():
    shown = {
        (26.0, 372.0): "26s to 6m10s", (0.2, 2.5): "up to 2.5s", (0.0, 29.0): "up to 29s",
        (0.2, 0.9): "<1s", (0.0, 0.0): "0s", (0.0, 0.4): "up to 1s", (4.0, 4.01): "4.0s",
        (9.4, 491.0): "9.4s or much later",
    }  # fmt: skip
    assert {given: interval_text(list(given)) for given in shown} == shown
    assert interval_text(None) == "–"
    waits = {"submitted": 0.0, "started": 15.0, "foretold_wait_s": 0.4}
    told = waits | {"foretold_wait_s_90": [0.1, 0.9]}
    assert truth_phrase(told) == "15s (predicted: <1s, likely <1s)"


def test_a_job_of_one_number_of_slots_has_nothing_to_choose():
    row = {"slots": 1, "begins_in_s": 9.0, "runs_s": 9.0, "ends_in_s": 18.0}
    reply = {"how": FROM, "predicted_wait_s": 9.0, "free": 0, "comparable": 30, "choices": [row]}
    first, *rest = predict_lines(reply | {"picks": {"AVG": 1}}, 1, 1, PAGE)
    assert first == "a job of 1 slot, submitted now; no slot is free now"
    assert not [line for line in rest if "CHOICE" in line or "AVG" in line]
    assert rest[-1].split() == ["1", "9.0s", "–", "9.0s", "18s"]


def test_a_range_says_what_its_last_column_means():
    row = {"slots": 2, "begins_in_s": 9.0, "runs_s": 9.0, "ends_in_s": 18.0}
    reply = {"how": FROM, "predicted_wait_s": 9.0, "free": 0, "comparable": 30, "choices": [row]}
    lines = predict_lines(reply | {"picks": {"AVG": 2}}, 1, 2, PAGE)
    assert lines[-1].startswith("CHOICE OF: the values of dispatch.malleable")


@pytest.mark.parametrize(
    ("runs", "comparable", "shown"),
    [
        ({"runs_s": 9.0, "ends_in_s": 18.0}, 30, ["9.0s", "–", "~9.0s", "~18s"]),
        ({"runs_s": 9.0, "ends_in_s": 18.0}, 3, ["~9.0s", "–", "~9.0s", "~18s"]),
        ({"runs_s": None, "ends_in_s": None}, 30, ["9.0s", "–", "–", "–"]),
    ],
)
def test_a_run_time_that_is_a_guess_is_marked_as_one(runs, comparable, shown):
    row = {"slots": 1, "begins_in_s": 9.0, **runs}
    reply = {"how": FROM, "predicted_wait_s": 9.0, "free": 0, "choices": [row, row]}
    reply |= {"comparable": comparable, "runs_is_guess": True}
    assert predict_lines(reply, 1, 1, PAGE)[-1].split() == ["1", *shown]
    known = predict_lines(reply | {"runs_is_guess": False}, 1, 1, PAGE)[-1].split()
    assert known[3] == shown[2].removeprefix("~")
    assert known[4][0] == ("~" if comparable < 20 else shown[3].removeprefix("~")[0])


@pytest.mark.parametrize(
    ("begins_s", "runs_s", "shown"),
    [
        (66.0, 8.1, ["1m06s", "8.1s", "1m14s"]),  # it was 1m10s + 8.1s = 1m10s
        (68.0, 8.1, ["1m10s", "8.1s", "1m20s"]),
        (4000.0, 8.1, ["1h10m", "8.1s", "1h10m"]),
        (0.2, 0.3, ["<1s", "<1s", "<1s"]),
        (math.nan, 8.1, ["–", "8.1s", "–"]),
    ],
)
def test_a_short_run_is_not_lost_in_rounding(begins_s, runs_s, shown):
    one = {"slots": 1, "begins_in_s": begins_s, "runs_s": runs_s, "ends_in_s": begins_s + runs_s}
    _, begins, _, runs, ends, _ = row_of(one, {"comparable": 100, "picks": {}})
    assert [begins, runs, ends] == shown


def test_why_a_forecast_is_only_a_guess_is_said_in_numbers():
    row = {"slots": 1, "begins_in_s": 9.0, "runs_s": 9.0, "ends_in_s": 18.0}
    reply = {"how": FROM, "predicted_wait_s": 9.0, "free": 0, "comparable": 14, "choices": [row]}
    why = "14 forecasts so far could be compared with what happened, and 20 are needed"
    assert predict_lines(reply | {"guess": why}, 1, 1, PAGE)[2] == f"a guess: {why}"
    assert predict_lines(reply | {"guess": None}, 1, 1, PAGE)[2] == ""  # its method says it
    true = "half of the last forecasts were off by a factor of 1.1 at most"
    lines = predict_lines(reply | {"guess": true, "comparable": 20}, 1, 1, PAGE)
    assert lines[2] == f"not corrected: {true}"


def test_what_is_not_known_yet_is_said_once():
    why = "3 of the 5 jobs needed have ended"
    reply = {"predicted_by": f"not known yet: {why}", "predicted_wait_s": None, "choices": []}
    (line,) = predict_lines(reply, 1, 1, PAGE)
    assert line == f"unknown when a job, submitted now, would start: {why}"


def test_waits_for_a_free_slot_are_counted_apart(capsys):
    judged = Dispatcher(60, None)
    judged.known |= {"lately": 11, "short": 39, "off_by": 20.0, "intervals": 11}
    judged.known["covered_90"] = 0.17
    assert calibration(judged, Namespace(json=False)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "39 of the last waits were below 10 s, as predicted"
    assert lines[2].startswith("half of the other 11 were off by a factor of 20.0 at most")
    assert lines[4] == "do not rely on them, nor on their intervals"


def test_a_host_that_is_not_in_the_cluster_is_named():
    class Lim:
        def lim(self, *_):
            return {"hosts": [{"name": "h1"}, {"name": "h2"}]}

    check_host(Lim(), "h1")
    with pytest.raises(LbdError, match='no host "h4" in this cluster; lbctl status'):
        check_host(Lim(), "h4")


PAGE = Page(Paint(on=False))
FROM = "3 jobs ahead, 4 slots; by the run times of 212 ended jobs"
MORE = "slots are free; more than 4: by the run times of 212 ended jobs"


@pytest.mark.parametrize(
    ("how", "lines"),
    [
        (FROM, [f"predicted: {FROM}", "corrected by the outcome of 30 earlier predictions"]),
        ("slots are free", ["slots are free"]),
        (MORE, [MORE, "corrected by the outcome of 30 earlier predictions"]),
        ("no estimate until 5 jobs have ended", ["no estimate until 5 jobs have ended"]),
        ("", ["there is no data to predict from"]),
    ],
)
def test_the_prediction_method_is_a_sentence(how, lines):
    row = {"slots": 1, "begins_in_s": None, "runs_s": 9.0, "ends_in_s": None}
    reply = {"how": how, "free": 4, "comparable": 30, "choices": [row, row | {"slots": 2}]}
    reply["predicted_wait_s"] = 9.0 if how == FROM else 0.0
    first, *rest = predict_lines(reply, 1, 2, PAGE)
    assert first == "a job of 1-2 slots, submitted now; the host with most free has 4"
    assert rest[: rest.index("")] == lines


def test_an_interval_that_reaches_the_end_of_the_search_has_no_upper_end():
    known = {
        "source": "learnt", "parallelism": 3.94, "sigma": 0.78, "work_s": 4.5, "runs": 13,
        "noise": 0.07, "parallelism_90": [3.146, 14.8], "sigma_90": [0.182, 16.0],
    }  # fmt: skip
    said = "A 3.94, sigma 0.78, work 4.5s (learnt from 13 runs; 90 %: A 3.1 to 15, "
    assert speedup_phrase(known) == f"{said}sigma 0.18 or more; run times off by 7%)"


def test_no_time_is_given_while_no_host_takes_the_users_jobs(daemon, capsys):
    """It said so, and in the next line that a job would start at once."""
    why = (
        "h1, h2: commands of bob are not allowed here (admission.groups); everybody may from 18:00"
    )
    told = {"predicted_wait_s": 0.0, "predicted_by": "slots are free", "how": "slots are free"}
    lbm = daemon("lbm", **{"queue.predict": {**told, "nobody_takes": why}})
    assert lbctl.main(["predict"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    begins = "unknown when a job, submitted now, would start: no host takes it now"
    assert said == f"{begins}: {why}"
    lbm.answers["queue.predict"] = told
    assert lbctl.main(["predict"]) == 0
    assert "no host takes" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["python3", "-c", "1"], ["python3", "-c", "1"]),
        (["-n", "2", "make", "-n", "4", "--json"], ["make", "-n", "4", "--json"]),
        (["--", "cc", "-c"], ["cc", "-c"]),
        ([], []),
    ],
)
def test_options_after_the_command_are_the_commands(daemon, words, command):
    """They were `unrecognized arguments`."""
    lbm = daemon("lbm", **{"queue.predict": {"predicted_wait_s": 0.0, "predicted_by": "free"}})
    assert lbctl.main(["predict", *words]) == 0
    assert lbm.asked[-1]["command"] == command
