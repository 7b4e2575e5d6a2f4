import pytest

from lbd.sim.queueing.trace import BrokenLine, read


def line(submit=0, run=5, requested=60, fields=18):
    values = ["1", str(submit), "7", str(run), "4", "-1", "-1", "4", str(requested)]
    return " ".join([*values, *["-1"] * (fields - 9)]).encode() + b"\n"


def test_what_is_read():
    trace = read([b"; Version: 2.2\n", b"  \n", line(30, 5), line(10, 2.5, -1), line(40, -1),
                  line(50, 0)])  # fmt: skip
    assert [(j.submitted_s, j.run_s, j.requested_s) for j in trace.jobs] == [
        (10.0, 2.5, None),
        (30.0, 5.0, 60.0),
    ]
    assert (trace.skipped, trace.broken) == (2, 0)
    assert {job.slots for job in trace.jobs} == {4}
    (unknown,) = read([line().replace(b" 5 4 ", b" 5 -1 ")]).jobs
    assert unknown.slots == 1


def test_the_limit_counts_jobs_that_ran():
    trace = read([line(1), line(2, run=-1), line(3), line(4), b"garbage\n"], limit=2)
    assert [job.submitted_s for job in trace.jobs] == [1.0, 3.0]
    assert trace.skipped == 1


BROKEN = [
    (b"garbage\n", "1 fields instead of 18"),
    (line(fields=17), "17 fields"),
    (line(fields=19), "19 fields"),
    (line(submit="x"), "field 2 is no number: 'x'"),
    (line(submit="nan"), "field 2"),
    (line(run="inf"), "field 4"),
    (line(run="1_0"), "field 4"),
    (line(run="\x00"), "field 4"),
    (line(requested="--"), "field 9"),
    (line(run="1e308"), "field 4: 1e[+]308 is more than 1e[+]12 seconds"),
    (line().replace(b" 5 4 ", b" 5 x "), "field 5 is no number: 'x'"),
    (line().replace(b" 5 4 ", b" 5 1e9 "), "field 5: 1e[+]09 is more than 1000000 processors"),
    (line(submit="-1e13"), "field 2: -1e[+]13"),
    (line(submit=-1), "no submit time"),
    (b"9" * 5000 + b"\n", "longer than 4096"),
    (b"\xff\xfe" * 9 + b"\n", "fields"),
]


@pytest.mark.parametrize(("text", "why"), BROKEN)
def test_a_broken_line_says_where_and_why(text, why):
    with pytest.raises(BrokenLine, match=why) as caught:
        read([b"; head\n", line(), text, line()])
    assert caught.value.number == 3


def test_broken_lines_may_be_skipped():
    met = []
    lines = [text for text, _ in BROKEN]
    trace = read([line(1), *lines, line(2)], on_broken=met.append)
    assert [job.submitted_s for job in trace.jobs] == [1.0, 2.0]
    assert trace.broken == len(BROKEN)
    assert [problem.number for problem in met] == list(range(2, len(BROKEN) + 2))
