"""`--target` and `--deadline`: valid values and combinations; and the answer to Slurm's options."""

import time
from contextlib import nullcontext

import pytest

from lbd.client.complaints import Trouble
from lbd.client.options import read_options
from lbd.client.queue_rules import all_tasks_write, check_staged, deadline_unix_s

ARRAY = ["-d", "--array", "1-3"]


def options(*words):
    return read_options([*words, "true"])


@pytest.fixture
def berlin(monkeypatch):
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_target_is_a_duration_from_now():
    assert options(*ARRAY, "--target", "1h30m").values["target"] == "5400.0"
    assert options("-q", "--array", "1-3", "-n", "2", "--target=90").values["target"] == "90.0"


@pytest.mark.parametrize(
    ("words", "is_said"),
    [
        ((*ARRAY, "-o", "same"), True),
        ((*ARRAY, "-o", "out.%a", "--error", "same"), True),
        ((*ARRAY, "-o", "out.%a"), False),
        ((*ARRAY, "-o", "%j", "--error", "/dev/null"), False),
        (ARRAY, False),
        (("-d", "-o", "same"), False),
    ],
)
def test_tasks_that_all_write_to_one_file_cause_a_warning(words, is_said):
    assert bool(all_tasks_write(options(*words).values)) == is_said


def test_the_duration_of_a_task_may_be_given_with_the_target():
    assert options(*ARRAY, "--target", "90", "--work", "2m").values["work"] == "120.0"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["-c", "true"], 'unknown option -c; for a line of shell use "lbsh -c LINE", as in make '),
        (["-c", "4", "true"], 'unknown option -c; use "--slots"; see lbrun --help'),
        (["-c4", "true"], 'unknown option -c; use "--slots"; see lbrun --help'),
        (["-d", "-D", "/tmp", "true"], 'unknown option -D; use "--chdir"; see lbrun --help'),
        (["-d", "--target", "5"], "--target needs --array"),
        (["-d", "--deadline", "17:30"], "--deadline needs --array"),
        ([*ARRAY, "--target", "5", "--deadline", "17:30"], "--target and --deadline both"),
        (["-q", "-H", "h2,h3"], "-H h2,h3: it takes one host; leave the others out with -x"),
        ([*ARRAY, "--target", "0"], "--target: must be above 0"),
        ([*ARRAY, "--target", "-5"], "--target: '-5' is not a duration"),
        ([*ARRAY, "--target", "soon"], "--target: 'soon' is not a duration"),
        ([*ARRAY, "--target", "1e9999"], "--target: "),
        ([*ARRAY, "--deadline", "2020-01-01T06:00"], "--deadline: 2020-01-01T06:00 has passed"),
        ([*ARRAY, "--deadline", "2045-02-30T06:00"], "no such date"),
        (
            [*ARRAY, "--deadline", "noon"],
            "--deadline: 'noon' is not a time; allowed: 17:30, 2026-12-01T06:00, +2h, now+2h",
        ),
        ([*ARRAY, "--deadline", "now+2moons"], "--deadline: '2moons' is not a duration"),
        ([*ARRAY, "--deadline", "tomorrow+2h"], "--deadline: 'tomorrow+2h' is not a time"),
        ([*ARRAY, "--deadline", "now"], "--deadline: now has passed"),
        ([*ARRAY, "--target", "1:75:00"], "--target: '1:75:00': its minutes must be below 60"),
        ([*ARRAY, "--deadline", "+0"], "--deadline: +0 has passed"),
        ([*ARRAY, "--deadline", "+x"], "--deadline: 'x' is not a duration"),
        ([*ARRAY, "--target", "5", "--work", "0"], "--work 0: must be above 0"),
        ([*ARRAY, "--target", "5", "--speedup", "3"], "--speedup needs -n MIN-MAX"),
        ([*ARRAY, "-n", "2-4", "--target", "5"], "--target cannot be used with -n 2-4"),
        (["--array", "1-3", "--target", "5"], "--array applies to queued jobs: add -d, or -q"),
        (["--deadline", "17:30"], "--deadline applies to queued jobs"),
    ],
    ids=" ".join,
)
def test_invalid_combinations_are_one_line(words, line):
    check(words, line)


RANGE = ["-d", "-n", "1-4"]
GANG = ["-d", "--array", "0-3", "--gang"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["-d", "-n", "4-2"], "-n 4-2: the range is backwards"),
        (["-d", "-n", "3-3"], "-n 3-3: the range is a single number; write 3"),
        (["-d", "-n", "2-"], "-n 2-: must be a number or MIN-MAX"),
        (["-d", "-n", "-4"], "-n -4: must be a number or MIN-MAX"),
        (["-d", "-n", "0-3"], "-n 0-3: a job needs at least one slot"),
        (["-d", "-n", "0"], "-n 0: a job needs at least one slot"),
        (["-d", "-n", "two"], "-n two: must be a number or MIN-MAX, like 4 or 2-8"),
        (["-d", "-n", "70000"], "-n 70000: no host has more than 65536"),
        ([*RANGE, "--speedup", "0.5"], "--speedup 0.5: the average parallelism A must be 1 or"),
        ([*RANGE, "--speedup", "4,-1"], "--speedup 4,-1: the variance SIGMA must be 0 or more"),
        ([*RANGE, "--speedup", "nan"], "--speedup nan: the average parallelism A must be 1 or"),
        ([*RANGE, "--speedup", "4,inf"], "--speedup 4,inf: "),
        ([*RANGE, "--speedup", "4;1"], "--speedup 4;1: must be A or A,SIGMA"),
        ([*RANGE, "--work", "0"], "--work 0: must be above 0"),
        ([*RANGE, "--work", "-3"], "--work: '-3' is not a duration"),
        (["-d", "--speedup", "4"], "--speedup needs -n MIN-MAX"),
        (["-d", "-n", "4", "--speedup", "4"], "--speedup needs -n MIN-MAX"),
        (["-d", "-n", "2", "--work", "5m"], "--work needs -n MIN-MAX"),
        (["-d", "--mem", "lots"], "--mem: 'lots' is not a size; allowed: 4096, 512K, 1.5M, 2G"),
        (["-d", "--mem", "0"], "--mem: must be above 0"),
        (["--mem", "0G"], "--mem: must be above 0"),
        (["-d", "--array", "5-1", "true"], "--array 5-1: 5-1 is backwards; use 1-5"),
        (["-d", "--gang"], "--gang needs --array"),
        (["-d", "--append"], "--append needs -o or --error"),
        (["--append"], "--append applies to queued jobs"),
        (["--gang"], "--gang applies to queued jobs: add -d, or -q to wait for the end"),
        (["--checkpoint", "x"], "--checkpoint applies to queued jobs"),
        (["--idempotency-key", "x"], "--idempotency-key applies to queued jobs"),
        (["-o", "x"], "-o applies to queued jobs: add -d"),
        (["--output", "x"], "--output applies to queued jobs: add -d"),
        (["-d", "--slots=0"], "--slots 0: a job needs at least one slot"),
        (["-H", "h2", "--local"], "--local contradicts --remote and -H"),
        (["-d", "--local", "--remote"], "--local cannot be used with the queue (-q, -d)"),
        (["-d", "--checkpoint", "/none"], "--checkpoint /none: no such directory; create it first"),
        (["--need", "gpu=-1"], "--need gpu: '-1' is not an amount; allowed: 2, 50G"),
        (["-d", "-o", "x", "--send", "y"], "-o x: add --fetch for it"),
        (["-d", "--array", "0-4096", "--gang"], "--gang: 4097 jobs; the limit is 4096"),
        (
            [*GANG, "-n", "1-2"],
            "--gang cannot be used with -n 1-2: give a number, not a range",
        ),
        ([*GANG, "--checkpoint", "x"], "--gang cannot be used with --checkpoint"),
    ],
    ids=" ".join,
)
def test_invalid_malleable_jobs_and_gangs_are_refused(words, line):
    check(words, line)


def check(words, line):
    with pytest.raises(Trouble) as caught:
        options(*words)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_clock_time_is_the_next_one(berlin):
    now = time.time()
    for hour in (0, 6, 12, 18, 23):
        at = deadline_unix_s(f"{hour:02}:30")
        assert now < at <= now + 25 * 3600  # a day may have 25 hours
        assert time.localtime(at)[3:6] == (hour, 30, 0)


def test_a_date_is_in_the_time_zone_of_this_host(berlin):
    assert deadline_unix_s("2044-07-01T06:00") == 2350958400.0  # 04:00 UTC
    assert deadline_unix_s("2044-12-01 06:00:30") == 2364181230.0  # 05:00:30 UTC


def test_a_duration_counts_from_now():
    before = time.time()
    assert before + 7200 <= deadline_unix_s("+2h") <= time.time() + 7200


def test_all_conditions_of_a_job_are_one_list():
    words = ["-d", "--after", "12,15_3", "--after-failed=7", "--after-any", "8", "--after-ok", "9"]
    assert options(*words).values["after"] == "ok:12 ok:15_3 failed:7 any:8 ok:9"
    assert options("-d", "--after", "last,3,last_2").values["after"] == "ok:last ok:3 ok:last_2"
    tasks = options(*ARRAY, "--after-task", "12").values
    assert tasks["after"] == "task:12"


def test_a_start_time_is_the_next_one_or_has_passed(berlin, capfd):
    before = time.time()
    begin = float(options("-d", "--begin", "+1m").values["begin"])
    assert before + 60 <= begin
    assert begin.is_integer(), "it is shown without fractions, and nothing starts before"
    assert float(options("-q", "--begin", "06:30").values["begin"]) > before
    assert capfd.readouterr().err == ""
    assert options("-d", "--begin", "2026-01-01T06:00").values["begin"] == "1767243600.0"
    said = "lbrun: --begin: 2026-01-01T06:00 has passed, so it may start now\n"
    assert capfd.readouterr().err == said


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("now+1h", 3600), ("now+1:30:00", 5400), ("now+60", 60), ("now+2hours", 7200),
     ("+1week", 604800), ("+1-06", 108000)],
)  # fmt: skip
def test_a_start_time_may_be_as_in_slurm(text, seconds):
    before = time.time()
    begin = float(options("-d", "--begin", text).values["begin"])
    assert before + seconds <= begin <= time.time() + seconds + 1


def test_to_begin_now_is_not_to_wait(capfd):
    assert "begin" not in options("-d", "--begin", "now").values
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["-d", "--after", "x"],
            "--after x: 'x' is not a queued job's id; must be 12, 12_7, 12,15 or last",
        ),
        (["-d", "--after", "h1-26"], "'h1-26' is not a queued job's id"),
        (["-d", "--after", "last_x"], "'last_x' is not a queued job's id"),
        (["-d", "--after", "0"], "'0' is not a queued job's id"),
        (["-d", "--after", "1,"], "--after 1,: '' is not a queued job's id"),
        (["-d", "--after-any", "1_x"], "--after-any 1_x: '1_x' is not a queued job's id"),
        (["-d", "--after-failed", "1 2"], "'1 2' is not a queued job's id"),
        (
            [*ARRAY, "--after-task", "1_2"],
            "'1_2' is not a queued job's id; must be 12, 12,15 or last",
        ),
        (["-d", "--after", ",".join(["1"] * 1001)], "1000 jobs"),
        (["--after-any", "1"], "--after applies to queued jobs"),
        (["--notify", "true"], "--notify applies to queued jobs"),
        (["-d", "--notify", " "], "--notify is empty"),
        (["--name", "x", "--begin", "17:30"], "--begin applies to queued jobs"),
        (["-d", "--begin", "noon"], "--begin: 'noon' is not a time; allowed: 17:30"),
        (["-d", "--begin", "2045-02-30T06:00"], "--begin: '2045-02-30T06:00': no such"),
        (["-d", "--begin", "+x"], "--begin: 'x' is not a duration"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_invalid_conditions_are_refused(words, line):
    check(words, line)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--dependency", "12"], '; use "--after"; '),
        (["--gres=gpu:2"], '; use "--need"; '),
        (["-c", "2"], '; use "--slots"; '),
        (["-N", "2"], '; use "--array 1-N --gang"; '),
        (["--need", "mem=16G"], "memory is requested with --mem"),
    ],
)
def test_options_of_slurm_are_answered_with_ours(words, said):
    with pytest.raises(Trouble, match=said):
        options("-d", *words)


@pytest.mark.parametrize(
    ("output", "fetch", "is_lost"),
    [("log", [], True), ("log", ["log"], False), ("o/log", ["o"], False), ("olog", ["o"], True)],
)
def test_output_that_is_not_brought_back_is_refused(output, fetch, is_lost):
    with pytest.raises(Trouble, match="add --fetch for it") if is_lost else nullcontext():
        check_staged({"output": output}, fetch)
