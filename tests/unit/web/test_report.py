import math
import re
from html.parser import HTMLParser

import pytest

from lbd.console.past_loads import NOTHING, PastLoads
from lbd.web.charts import level
from lbd.web.rendering import report_html
from lbd.web.report import HERE, MOVED, QUEUED, Advice, Material, report_page

NOW_S = 1_700_000_000.0 // 86400 * 86400
HOSTILE = '<script src="//x">&\x1b[31m'
DAY_S = 86400.0


def material(**other):
    given = {
        "cluster": "lab", "user": "", "since_s": NOW_S - DAY_S, "until_s": NOW_S, "hosts": ["h1"],
        "curve": NOTHING, "hours": NOTHING, "total": {}, "groups": {}, "jobs": [],
        "advice": None,
    }  # fmt: skip
    return Material(**{**given, **other})


def part(page, name):
    return next(part for part in page.parts if part.id == name)


class Asked(HTMLParser):
    """Returns what a browser would request."""

    def __init__(self):
        super().__init__()
        self.tags, self.addresses = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action")]


def test_it_stands_alone_and_every_text_is_escaped():
    hostile = {"jobs": 1}
    job = {"id": HOSTILE, "origin": HOSTILE, "host": HOSTILE, "submitted": 1.0, "started": 2.0,
           "finished": 3.0}  # fmt: skip
    loads = PastLoads(3600.0, NOW_S, {HOSTILE: (0.5,) * 48})
    page = report_page(material(
        cluster=HOSTILE, user=HOSTILE, hosts=[HOSTILE], curve=loads, hours=loads,
        groups={key: {HOSTILE: hostile} for key in ("by_user", "by_command", "by_host")},
        jobs=[job], advice=Advice(HOSTILE, [HOSTILE] * 3, [[HOSTILE] * 3]),
        missing={HOSTILE: HOSTILE}, notes=[HOSTILE],
    ))  # fmt: skip
    html = report_html(page, HOSTILE)
    asked = Asked()
    asked.feed(html)
    assert asked.addresses == ["data:,"]
    assert "script" not in asked.tags
    assert "img" not in asked.tags
    assert "\x1b" not in html
    assert html.count("&lt;script") > 15
    assert not re.search(r"url\(|@import|https?://", html)
    assert "default-src 'none'" in html


def test_what_its_slowdowns_mean_is_said():
    assert "high for what mostly sleeps" in part(report_page(material()), "slowdown").text


def test_the_curves_are_of_the_requested_time():
    loads = PastLoads(600.0, NOW_S, {"h1": (9.0, 1.0, math.nan), "h2": (9.0, 3.0, 2.0)})
    page = report_page(material(since_s=NOW_S - 1200.0, curve=loads))
    assert part(page, "load").points == (2.0, 2.0)
    assert part(page, "highest").points == (3.0, 2.0)


def test_hosts_by_hour_are_of_the_last_day_or_means_by_hour_of_the_day():
    points = tuple(float(hour // 24) for hour in range(72))  # 0 on the first day, 2 on the third
    loads = PastLoads(3600.0, NOW_S, {"h1": points})
    day = part(report_page(material(hours=loads)), "hours")
    assert day.head == [f"{hour:02}" for hour in range(24)]
    assert day.rows == [("h1", [2.0] * 24)]
    week = part(report_page(material(since_s=NOW_S - 3 * DAY_S, hours=loads)), "hours")
    assert week.rows == [("h1", [1.0] * 24)]
    assert part(report_page(material()), "hours").rows == []


@pytest.mark.parametrize(
    ("load", "found"),
    [(math.nan, "none"), (0.0, "0"), (0.1, "0"), (0.5, "2"), (1.5, "4"), (99.0, "5")],
)
def test_levels_of_colour(load, found):
    assert level(load) == found


def test_waiting_is_shown_by_route_and_by_run_time():
    jobs = [
        {"id": "h1-1", "origin": "h1", "host": "h1", "submitted": 0, "started": 0.5, "finished": 1},
        {"id": "h1-2", "origin": "h1", "host": "h2", "submitted": 0, "started": 2, "finished": 90},
        {"id": "12_7", "origin": "h1", "host": "h2", "submitted": 0, "started": 8, "finished": 9},
        {"id": "13", "origin": "h1", "host": None, "submitted": 0, "started": None, "finished": 4},
    ]
    table = part(report_page(material(jobs=jobs)), "waiting")
    found = {row[0].text: [item.text for item in row[1:]] for row in table.rows}
    assert found[HERE][0] == found[MOVED][0] == found[QUEUED][0] == "1"
    assert found[QUEUED][-1] == "8.0s"
    assert found["ran up to 1 s"][0] == "2"
    assert found["ran 1 min to 1 h"][0] == "1"
    assert "ran longer than 1 h" not in found
