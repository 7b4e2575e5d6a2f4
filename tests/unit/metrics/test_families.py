"""Daemons' answers become metric families: bounded, and only those in the table."""

import math
import re
from itertools import pairwise

import pytest
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from lbd.metrics.core.families import Counts, families, is_word
from lbd.metrics.core.histogram import Histogram
from lbd.metrics.core.table import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    HOSTS_MAX,
    OTHER,
    TABLE,
    WORDS_MAX,
)
from lbd.metrics.exposition import Found, host_lines, text_of

SECRETIVE = {"user", "uid", "command", "job", "path", "directory", "name", "argv"}


def series(answers, name):
    found = [family.series for family in families(answers) if family.metric.name == name]
    return found[0] if found else {}


def parse(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def parsed(answers):
    return parse(text_of(families(answers)).decode())


def everything():
    """Returns answers that contain each metric of the table once."""
    answers = {}
    for metric in TABLE:
        counts = Histogram(metric.bounds)
        counts.note(0.5)
        value = counts.answer() if metric.kind == HISTOGRAM else 1
        row = [*((label.values or ("word",))[0] for label in metric.labels), value]
        for source in metric.sources:
            answers.setdefault(source, {})[metric.name] = [row] if metric.labels else value
    return answers


@pytest.mark.parametrize("metric", TABLE, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric):
    assert re.fullmatch("[a-z][a-z_]*[a-z]", metric.name)
    assert not re.search("_(ms|milliseconds|minutes|days|percent|kb|mib|total|count|sum)$",
                         metric.name), "base units, and no ending of the format"  # fmt: skip
    assert metric.kind in (GAUGE, COUNTER, HISTOGRAM)
    assert bool(metric.bounds) == (metric.kind == HISTOGRAM)
    assert all(low < high for low, high in pairwise(metric.bounds))
    assert not {label.name for label in metric.labels} & SECRETIVE


def test_names_are_unique():
    assert len({metric.name for metric in TABLE}) == len(TABLE)


def test_the_text_of_all_metrics_follows_the_format():
    found = parsed(everything())
    assert found.keys() == {metric.full_name for metric in TABLE}
    assert {found[metric.full_name].type for metric in TABLE} == {GAUGE, COUNTER, HISTOGRAM}


@pytest.mark.parametrize("value", [0.5, 3, 1e-9, 1e300, 123456789.125])
def test_lines_of_hosts_are_those_that_the_library_would_write(value):
    said = [["h1", value], ["a-b.c", 0], ["strange {host}", 2]]
    (family,) = families({"lim": {"host_load_index": said}})
    whole = generate_latest(Found([family])).decode()
    assert parse(host_lines(family) + "# EOF\n") == parse(whole)
    head = whole.splitlines()[:2]
    assert host_lines(family).splitlines()[:2] == head


def test_a_histogram_counts_what_is_at_or_below_each_bound():
    counts = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        counts.note(value)
    assert counts.answer() == {"counts": [2, 1, 1], "sum": 12.0}


def test_buckets_are_cumulative():
    answers = {"lbm": {"lease_margin_seconds": everything()["lbm"]["lease_margin_seconds"]}}
    family = parsed(answers)["lbd_lease_margin_seconds"]
    buckets = {s.labels["le"]: s.value for s in family.samples if s.name.endswith("_bucket")}
    assert (buckets["0.0"], buckets["0.5"], buckets["+Inf"]) == (0, 1, 1)


def test_what_two_daemons_report_of_a_metric_is_grouped():
    answers = {
        "lbm": {"jobs_ended": [["done", "attached", 3]]},
        "dispatcher": {"jobs_ended": [["lost", "queued", 1]]},
    }
    assert series(answers, "jobs_ended") == {("done", "attached"): 3.0, ("lost", "queued"): 1.0}


def test_a_daemon_reports_only_its_own_process():
    assert series({"lim": {"process_open_fds": 7}}, "process_open_fds") == {("lim",): 7.0}
    assert series({"lim": {"slots": 7}}, "slots") == {}, "that is the LBM's to say"


@pytest.mark.parametrize(
    "value",
    ["1", None, [], {}, math.nan, math.inf, -math.inf, 1 << 2000, [[1]], [["up", "x"]], [3], [[]]],
)
def test_a_value_that_is_not_a_number_is_left_out(value):
    assert series({"lim": {"load_index": value}}, "load_index") == {}
    assert series({"lim": {"hosts": value}}, "hosts") == {}


@pytest.mark.parametrize(
    "counts",
    [
        {"counts": [1], "sum": 1.0},
        {"counts": [-1] * 14, "sum": 1.0},
        {"counts": [1.5] * 14, "sum": 1.0},
        {"counts": [True] * 14, "sum": 1.0},
        {"counts": [1] * 14, "sum": "x"},
        {"counts": None, "sum": 1.0},
        [1],
    ],
)
def test_impossible_counts_are_left_out(counts):
    assert series({"lbm": {"lease_margin_seconds": counts}}, "lease_margin_seconds") == {}


def test_a_counter_never_falls_below_zero():
    assert series({"lim": {"lim_messages_refused": -1}}, "lim_messages_refused") == {}


@pytest.mark.parametrize("word", ['a"b', "a\nb", "{}", "x" * 65, "", "é", "/etc/passwd", 3, None])
def test_strange_words_are_not_shown(word):
    found = series({"lim": {"decisions": [["GLOBAL", word, 2]]}}, "decisions")
    assert found == {("GLOBAL", OTHER): 2.0}
    assert not (isinstance(word, str) and is_word(word))


def test_an_unknown_value_of_a_label_counts_as_other():
    said = [["done", "attached", 1], ["odd", "attached", 2], ["odder", "attached", 3]]
    found = series({"lbm": {"jobs_ended": said}}, "jobs_ended")
    assert found == {("done", "attached"): 1.0, (OTHER, "attached"): 5.0}


def test_the_number_of_series_is_bounded_and_sums_lose_nothing():
    rows = [["GLOBAL", f"reason{n}", 1] for n in range(WORDS_MAX + 20)]
    found = series({"lim": {"decisions": rows}}, "decisions")
    assert len(found) == WORDS_MAX + 1
    assert sum(found.values()) == WORDS_MAX + 20
    hosts = [[f"h{n}", 0.5] for n in range(HOSTS_MAX + 5)]
    assert len(series({"lim": {"host_load_index": hosts}}, "host_load_index")) == HOSTS_MAX


def test_histograms_of_one_name_add_up():
    assert Counts((1, 2), 3.0) + Counts((3, 4), 0.5) == Counts((4, 6), 3.5)
