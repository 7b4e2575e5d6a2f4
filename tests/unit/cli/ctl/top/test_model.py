"""`lbctl top` by its keys and sizes, without a terminal."""

import re
from dataclasses import replace

import pytest

from lbd.cli.ctl.top.model import (
    Facts,
    Kill,
    Mode,
    Model,
    Quit,
    View,
    keys_of,
    name_of,
)
from lbd.cli.ctl.top.picture import KEYS, Size, draw
from lbd.console.figures import Clock
from lbd.console.output import Paint, width
from tests.unit.cli.canned import HOST, JOB, STATUS

NOW_S = 1000.0
PLAIN = Paint(on=False)


def host(number, load=0.0, **more):
    return {**HOST, "name": f"h{number}", "index": load, **more}


def job(number, state="running", **more):
    return {**JOB, "id": str(number), "state": state, **more}


def top(hosts=(), jobs=(), lines=24, columns=80):
    return Top([*hosts], [*jobs], Size(columns, lines))


class Top:
    """A model as a person sees it: drawn after every key."""

    def __init__(self, hosts, jobs, size):
        self.model, self.size = Model(), size
        self.show(hosts, jobs)

    def show(self, hosts, jobs=(), problems=()):
        status = {**STATUS, "hosts": [*hosts]}
        self.model.take(Facts(status, tuple(jobs), tuple(problems), has_come=True))
        self.draw()

    def draw(self):
        self.lines = draw(self.model, self.size, PLAIN, Clock(NOW_S, utc=True), 1.0)
        assert len(self.lines) <= self.size.lines
        assert all(width(line) <= self.size.columns for line in self.lines)

    def press(self, *keys):
        action = None
        for key in keys:
            action = self.model.key(key)
            self.draw()
        return action

    @property
    def text(self):
        return "\n".join(self.lines)

    def names(self):
        """Returns the names on the screen, in order."""
        rows = [re.match(r"[> ] (\S+)", line) for line in self.lines]
        known = {name_of(row) for row in [*self.model.facts.hosts, *self.model.facts.jobs]}
        return [row[1] for row in rows if row and row[1] in known]

    def chosen(self):
        (line,) = [line for line in self.lines if line.startswith("> ")]
        return line.split()[1]


MANY = [host(number, load=number % 7) for number in range(1, 301)]


def test_rows_that_do_not_fit_are_counted():
    shown = top(MANY)
    assert f"… {300 - len(shown.names())} more" in shown.text
    shown.press("page down")
    assert re.search(r"… \d+ more, \d+ above", shown.text)
    shown.press("end")
    assert shown.chosen() == "h300"
    assert f"… {300 - len(shown.names())} above" in shown.text
    shown.press("home")
    assert (shown.chosen(), shown.names()[0]) == ("h1", "h1")


def test_the_cursor_stops_at_either_end():
    shown = top([host(1), host(2)])
    shown.press("up", "up")
    assert shown.chosen() == "h1"
    shown.press("down", "down", "down")
    assert shown.chosen() == "h2"


def test_the_selected_row_stays_selected_and_visible_where_it_moves():
    shown = top(MANY)
    shown.press("down", "down")
    assert shown.chosen() == "h3"
    shown.show([*MANY[100:], *MANY[:100]])
    assert shown.chosen() == "h3"


def test_when_the_selected_row_disappears_its_neighbour_is_selected():
    shown = top([host(1), host(2), host(3)])
    shown.press("down")
    shown.show([host(1), host(3)])
    assert shown.chosen() == "h3"
    shown.show([host(1)])
    assert shown.chosen() == "h1"


LOADS = [host(1, 0.5), host(2, 1.5), host(3, 0.1), host(10, 0.7), host(4, None)]


@pytest.mark.parametrize(
    ("keys", "names", "said"),
    [
        ([], ["h1", "h2", "h3", "h10", "h4"], "as listed"),
        (["P"], ["h2", "h10", "h1", "h3", "h4"], "LOAD ▼"),
        (["P", "r"], ["h3", "h1", "h10", "h2", "h4"], "LOAD ▲"),
        (["N"], ["h1", "h2", "h3", "h4", "h10"], "HOST ▲"),
        ([">"], ["h1", "h2", "h3", "h4", "h10"], "HOST ▲"),
        ([">", ">", ">"], ["h2", "h10", "h1", "h3", "h4"], "LOAD ▼"),
        ([">", "<"], ["h1", "h2", "h3", "h10", "h4"], "as listed"),
        (["r"], ["h4", "h10", "h3", "h2", "h1"], "as listed, reversed"),
    ],
)
def test_sorting(keys, names, said):
    shown = top(LOADS)
    shown.press(*keys)
    assert shown.names() == names
    assert f"sorted: {said}" in shown.text


def test_jobs_are_sorted_by_name_as_the_help_says():
    shown = top([host(1)], [job(3, name="b10"), job(4), job(5, name="b9"), job(6, name="a")])
    shown.press("2", "N")
    assert shown.names() == ["6", "5", "3", "4"]
    assert "sorted: NAME ▲" in shown.text
    assert "[1]hosts [2]jobs [3]queue" in shown.lines[0]  # not counts


@pytest.mark.parametrize("key", ["P", "r", ">"])
def test_a_new_order_is_shown_from_its_top(key):
    shown = top(MANY)
    shown.press("down", "page down", "home", key)
    assert shown.chosen() == shown.names()[0] == name_of(shown.model.rows()[0])


@pytest.mark.parametrize("key", ["P", "r", ">"])
def test_a_row_that_was_navigated_to_stays_selected_in_a_new_order(key):
    shown = top(MANY)
    shown.press("down", "down", key)
    assert shown.chosen() == "h3"


def test_an_order_that_a_view_does_not_have_is_reported():
    shown = top(LOADS)
    shown.press("T")
    assert shown.lines[-1] == "hosts have no column RAN"
    shown.press("down")
    assert shown.lines[-1] == KEYS


def test_jobs_by_cpu_and_by_how_long_they_ran():
    jobs = [job(1, cpu_s=5.0, started=900.0), job(2, cpu_s=9.0, started=950.0), job(3, cpu_s=None,
            started=10.0)]  # fmt: skip
    shown = top([host(1)], jobs)
    shown.press("2", "P")
    assert shown.names() == ["2", "1", "3"]
    shown.press("T")
    assert shown.names() == ["3", "1", "2"]


def test_a_filter_is_typed_kept_and_cancelled():
    shown = top(MANY)
    shown.press("/", *"H29", "enter")
    assert shown.names() == ["h29", *(f"h{number}" for number in range(290, 300))]
    assert "filter: H29" in shown.text
    shown.press("/", "backspace", "escape")
    assert shown.chosen() == "h29"
    assert "filter:" not in shown.text
    assert "… " in shown.text
    shown.press("/", *"nowhere", "enter")
    assert "no hosts with 'nowhere'" in shown.text


def test_in_a_filter_keys_are_letters():
    shown = top([host(1)])
    assert shown.press("/", "q", "k", "?") is None
    assert (shown.model.filter, shown.model.mode) == ("qk?", Mode.FILTER)


def test_the_queue_view_shows_what_waits_and_why():
    jobs = [job(1), job(2, "pending", reason="held by ann", host="")]
    shown = top([host(1)], jobs)
    shown.press("3")
    assert shown.names() == ["2"]
    assert "held by ann" in shown.text
    shown.show([host(1)], jobs[:1])
    assert "no jobs wait" in shown.text
    array = job(12, array="1-9", waiting="8-9", tasks={"running": 7, "pending": 2})
    shown.show([host(1)], [*jobs[:1], array])
    assert "> 12_[8-9]" in shown.text


def test_tab_cycles_through_the_views():
    shown = top()
    seen = []
    for _ in range(4):
        seen.append(shown.model.view)
        shown.press("tab")
    assert seen == [View.HOSTS, View.JOBS, View.QUEUE, View.HOSTS]


def test_only_a_yes_to_the_question_kills():
    shown = top([host(1)], [job(7), job(8)])
    shown.press("2", "down")
    assert shown.press("k") is None
    assert shown.lines[-1].startswith("end job 8 of ann? y/n")
    shown.press("n")
    for no in ("n", "enter", "escape", "q", "k"):
        assert shown.press("k", no) is None
        assert shown.lines[-1] == "job 8 was not ended"
    assert shown.press("k", "y") == Kill("8")


def test_the_question_about_an_array_says_how_many_tasks_would_end():
    tasks = {"running": 40, "pending": 10, "done": 7}
    shown = top([host(1)], [job(12, array="1-57", name="fit", tasks=tasks)])
    shown.press("2", "k")
    assert shown.lines[-1] == "end the 50 tasks of job 12 of ann? y/n   (fit)"


def test_the_question_shows_a_command_as_a_shell_reads_it():
    shown = top([host(1)], [job(7, command=["sh", "-c", "sleep 5; echo a"])])
    shown.press("2", "k")
    assert shown.lines[-1] == "end job 7 of ann? y/n   (sh -c 'sleep 5; echo a')"


def test_one_who_has_no_jobs_sees_how_many_others_have():
    queue = {"queued": 3, "running": 9}
    status = {**STATUS, "cluster": {**STATUS["cluster"], "dispatcher": queue}}
    shown = top([host(1)], [])
    shown.model.take(replace(shown.model.facts, status=status, only_of="bob"))
    shown.press("2")
    assert "none of your jobs runs or waits (others: 9 running, 3 waiting)" in shown.text
    shown.press("3")
    assert "none of your jobs waits (others: 3)" in shown.text
    shown.model.take(replace(shown.model.facts, only_of=""))  # an administrator sees all
    shown.press("2")
    assert "none of" not in shown.text


def test_the_question_is_about_the_job_it_was_asked_for():
    shown = top([host(1)], [job(7), job(8)])
    shown.press("2", "down", "k")
    shown.show([host(1)], [job(7), job(9)])  # that job has ended, another is in its place
    assert shown.press("y") == Kill("8")


def test_hosts_are_not_killed():
    shown = top([host(1)], [job(7)])
    assert shown.press("k", "y") is None
    shown.press("k")
    assert "select one" in shown.lines[-1]


@pytest.mark.parametrize("key", ["q", "Q", "\x03", "\x04", "f10"])
def test_quitting(key):
    assert top().press(key) == Quit()


def test_help_names_every_key_and_any_key_goes_back():
    shown = top([host(1)])
    shown.press("?")
    assert "end the selected job; asks first" in shown.text
    assert "h1" not in shown.names()
    assert shown.press("q") is None
    assert shown.names() == ["h1"]


@pytest.mark.parametrize("lines", [1, 2, 3, 4, 6, 8, 24, 50])
@pytest.mark.parametrize("columns", [10, 40, 80, 200])
def test_it_draws_at_every_size(lines, columns):
    shown = top(MANY, [job(number) for number in range(30)], lines, columns)
    for keys in (
        ["2"],
        ["3"],
        ["?"],
        ["x"],
        ["2", "k"],
        ["n"],
        ["/", "h"],
        ["enter"],
        ["1", "end"],
    ):
        shown.press(*keys)
    assert lines < 4 or shown.chosen().startswith("h")


def test_the_column_that_a_view_is_sorted_by_is_kept():
    shown = top([host(1)], [job(1, cpu_s=7.0), job(2, cpu_s=9.0)], columns=60)
    shown.press("2")
    heading = next(line for line in shown.lines if "COMMAND" in line)
    assert "CPU" not in heading.split()
    shown.press("P")
    heading = next(line for line in shown.lines if "COMMAND" in line)
    assert "CPU" in heading.split()


def test_a_daemon_that_does_not_answer_is_reported():
    shown = top([host(1)])
    shown.model.take(Facts({}, (), ("lim is not running",), has_come=True))
    shown.draw()
    assert "lim is not running" in shown.text


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1b[B\x1bOA", ["up", "down", "up"]),
        ("\x1b[6~x\r", ["page down", "x", "enter"]),
        ("\x1b", ["escape"]),
        ("\x1b[1;5Cq", ["q"]),  # ctrl-right is not one of ours
        ("\x1b[99~y", ["y"]),
        ("\x7f\t", ["backspace", "tab"]),
        ("", []),
    ],
)
def test_keys(typed, keys):
    assert keys_of(typed) == keys
