import json

import pytest

from lbd.console.figures import Clock
from lbd.web.charts import spark_of
from lbd.web.drawn import event
from lbd.web.pages.hosts import cluster_part, host_parts, hosts_part
from lbd.web.rendering import head_html, part_html, rest_html
from lbd.web.view import NOBODY, Item, Line, Table, Viewer

NASTY = '<script>alert("1")</script>\x1b[31m'


def host(name="h1", **more):
    return {"name": name, "state": "up", "index": 0.5, "queues": {}, "utilisation": 0.25,
            "slots": {"used": 1, "total": 2}, "jobs": {"local": 1, "foreign": 2},
            "memory": {"total": 8 << 30, "available": 6 << 30}, "age_s": 0.2, **more}  # fmt: skip


def status(*hosts, dispatcher=None):
    cluster = {"name": "c", "algorithm": "GLOBAL", "centre": "h1", "dispatcher": dispatcher}
    return {"cluster": cluster, "hosts": list(hosts)}


def table(*hosts):
    return hosts_part(status(*hosts), {}, Clock(0.0))


def test_a_row_of_a_host():
    found = table(host())
    row = dict(zip(found.head, (item.text for item in found.rows[0]), strict=True))
    assert row == {"Host": "h1", "State": "up", "Load": "0.50", "Last hour": "", "CPU": "25%",
                   "Memory": "2.0G/8.0G", "Slots": "1/2", "Jobs": "3", "Age": "200ms"}  # fmt: skip


def test_the_reason_why_a_host_accepts_no_jobs_is_shown_beside_it():
    drained = {"by": "ann", "since": None, "reason": "disk"}
    found = table(host(), host("h2", state="drained", drained=drained))
    assert found.head[-1] == "Note"
    assert [row[-1].text for row in found.rows] == ["", "drained by ann: disk"]


def test_the_numbers_of_a_host_that_is_down_are_grey_and_have_no_bar():
    row = table(host(state="down")).rows[0]
    assert row[1].kind == "bad"
    assert row[2].kind == "dim"
    assert row[2].bar is None


def test_the_cluster_shows_what_waits():
    queue = {"mode": "fcfs", "leader": "h1", "queued": 7, "running": 2}
    facts = dict(cluster_part(status(host(), dispatcher=queue)).items)
    assert facts["queue"].text == "fcfs on h1"
    assert facts["queued"].text == "7"


@pytest.mark.parametrize(
    ("hosts", "unknown", "said"),
    [
        ((), "", "none; lbctl queue enable HOST"),
        (("h1",), "", "on h1: no answer"),
        (("h1", "h2"), "", "on h1 or h2: no answer"),
        (("h1",), "not known", "on h1: not known"),
    ],
)
def test_a_queue_that_is_not_there_and_one_that_is_silent_are_told_apart(hosts, unknown, said):
    """Both were `none, or no answer`."""
    told = status(host())
    told["cluster"]["dispatcher_unknown"] = unknown
    assert dict(cluster_part(told, hosts).items)["queue"].text == said


def test_whatever_hosts_say_is_text():
    queue = {"mode": NASTY, "leader": NASTY, "queued": 1, "running": 1}
    bad = host(NASTY, why_closed=NASTY, features=[NASTY], address=NASTY, owner=NASTY,
               resources={NASTY: {"total": 1, "used": 1}})  # fmt: skip
    told = status(bad, dispatcher=queue)
    told["cluster"]["name"] = NASTY
    parts = [cluster_part(told), hosts_part(told, {}, Clock(0.0))]
    parts += host_parts(bad, (1.0,), (), Clock(0.0), Viewer(1, NASTY, "token"))
    viewer = Viewer(1, NASTY, "token", "key")
    made = {part.id: part_html(part) for part in parts}
    html = head_html(NASTY, "", viewer, f"/x{NASTY}")
    html += rest_html(made, NASTY)
    assert html.count("<script") == 1  # ours
    assert "\x1b" not in html
    assert '"1"' not in html
    assert html.count("&lt;script&gt;") > 8


def test_outputs_keep_their_lines_and_no_other_control_characters():
    html = part_html(Line("o", "Output", "a\tb\n<b>\x07\u202e\n", note=NASTY))
    assert "a    b\n&lt;b&gt;??\n" in html


def test_an_attribute_cannot_be_left():
    nasty = Item('"><b>', href='"><b>', spark=spark_of((1.0,)), label='"><b>')
    html = part_html(Table("t", "T", ('"><b>', "x"), [[nasty, nasty]]))
    assert "<b>" not in html


def test_an_event_is_one_line_of_data():
    assert event("parts", json.dumps("a\nb\r")) == b'event: parts\ndata: "a\\nb\\r"\n\n'


def test_a_viewer_who_is_not_signed_in_has_no_buttons():
    assert "act" not in [part.id for part in host_parts(host(), (), (), Clock(0.0), NOBODY)]
