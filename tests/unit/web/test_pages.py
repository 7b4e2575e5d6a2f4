from pathlib import Path
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config
from lbd.console.figures import Clock
from lbd.doctor.checks import FAULT, OK, WARN, Check
from lbd.web.asked import SignInFirst
from lbd.web.pages.doctor import doctor_page, make_doctor
from lbd.web.pages.history import latest, make_history
from lbd.web.pages.job import make_job
from lbd.web.pages.jobs import make_jobs, notes_of
from lbd.web.pages.owners import owners_page
from lbd.web.pages.settings import settings_page
from lbd.web.pages.why import why_parts
from lbd.web.rendering import part_html
from lbd.web.site import KINDS

NASTY = "<script>x</script>\x1b[2J"


def html_of(page_or_parts):
    parts = getattr(page_or_parts, "parts", page_or_parts)
    return "".join(map(part_html, parts))


def is_text(html):
    return "<script" not in html and "\x1b" not in html and "&lt;script&gt;" in html


def test_the_faults_found_by_doctor_come_first():
    checks = [Check("a", OK, "fine"), Check("b", FAULT, NASTY, NASTY), Check("c", WARN, "hm")]
    page = doctor_page(checks, "h1")
    table = page.parts[1]
    assert [row[0].text for row in table.rows] == ["b", "c", "a"]
    assert page.parts[0].items[0][1].text == "1 fault, 1 warning"
    assert (page.data["faults"], page.data["warnings"]) == (1, 1)
    assert page.data["checks"][1]["fix"] == NASTY
    assert is_text(html_of(page))


def owner(**more):
    return {"host": "h1", "owner": "here", "since": 0.0, "stays": 2, "free_within_s": 60.0,
            "p01": 0.1, "p11": 0.9, "step_s": 60.0, "steps": 5, "rule": "keep", **more}  # fmt: skip


def test_owners_and_their_hours():
    hours = [{"hour": n, "p01": 0.5, "p11": 0.5, "steps": n % 2} for n in range(168)]
    page = owners_page([owner(by_hour=hours, interruptions=[1])], {"h2": "down"}, Clock(0.0))
    owners, by_hour = page.parts
    assert owners.rows[0][1].kind == "warn"
    assert owners.rows[1][1].text == "no answer: down"
    assert "no answer: down" in html_of(page)
    assert [item.text for item in by_hour.rows[0][:4]] == ["h1", "mon", ".", "5"]
    assert len(by_hour.rows) == 7
    assert "interruptions" not in page.data[0]
    assert len(owners_page([owner()], {}, Clock(0.0)).parts) == 1  # nothing learnt
    assert is_text(html_of(owners_page([owner(host=NASTY, rule=NASTY)], {}, Clock(0.0))))


def test_the_reason_for_a_placement():
    candidates = [
        {"name": "h2", "load": 0.2, "age_s": 1.0, "willing": True, "why": ""},
        {"name": NASTY, "load": 3.0, "age_s": 1.0, "willing": False, "why": NASTY},
    ]
    reply = {"verdict": "there", "host": "h2", "reason": "lowest", "algorithm": "GLOBAL",
             "candidates": candidates}  # fmt: skip
    parts = why_parts(reply, {})
    facts = {name: item.text for name, item in parts[0].items}
    assert facts["a command from this host"] == "goes there: h2"
    assert "0.20" in facts["because"]
    assert parts[1].rows[0][1].text == "→ 1"
    assert is_text(html_of(parts))


def test_settings_show_what_is_saved():
    params = [{"name": "lim.min_gain", "value": 0.1}, {"name": "load.index", "value": NASTY,
                                                       "saved": NASTY}]  # fmt: skip
    page = settings_page({"algorithm": "GLOBAL", "saved": "LOWEST"}, params)
    assert page.data["params"] == {"lim.min_gain": 0.1, "load.index": NASTY}
    assert page.data["saved"] == {"load.index": NASTY}
    assert is_text(html_of(page))


def test_the_latest_come_first_and_are_bounded():
    found = latest([{"id": str(n), "finished": float(n)} for n in range(1000)])
    assert found[0]["id"] == "999"
    assert len(found) == 200


def test_a_truncated_list_says_so():
    assert notes_of({}, {}, "") == []
    assert is_text(html_of(notes_of({"h2": NASTY}, {"h3": NASTY}, "")))
    assert is_text(html_of(notes_of({}, {}, "", [f"h2 could not record {NASTY}"])))


@pytest.mark.parametrize(("make", "op"), [(make_jobs, "jobs"), (make_history, "past")])
@pytest.mark.parametrize("of", ["", "bob"])
def test_what_the_viewer_may_not_see_is_said(make, op, of):
    withheld = {"jobs": {"h2": "admin.hosts"}, "past": "admin.hosts"}[op]
    reply = {"ok": True, "jobs": [], "only_of": "ann", "missing": ["h3"], "withheld": withheld}
    daemons = SimpleNamespace(
        lim=lambda *_: {"hosts": [{"name": "h2"}]}, lbm=lambda *_: {**reply, "more": False},
        picking=lambda *_: daemons,
    )  # fmt: skip
    words = {"user": of}
    asked = SimpleNamespace(daemons=daemons, need_viewer=lambda: None, unix_now_s=0.0,
                            as_json=False,
                            word=lambda name: words.get(name, ""))  # fmt: skip
    notes = make(asked).parts[-1]
    assert notes.title == "Not shown"
    said = [(host.text, why.text) for host, why in notes.rows]
    assert ("h2", "only jobs submitted here (admin.hosts there)") in said
    assert (("h3", "did not answer") in said) == (op == "jobs")
    own = ("all hosts", "you see only your own jobs; those of bob are for administrators")
    assert (own in said) == (of == "bob")


def nobody_asks(*words):
    raise AssertionError("somebody who has not signed in made a daemon be asked for a user's data")


@pytest.mark.parametrize("make", [make_jobs, make_job, make_history])
def test_jobs_are_shown_to_viewers_who_have_signed_in(make):
    def refuse():
        raise SignInFirst("sign in")

    daemons = SimpleNamespace(lim=nobody_asks, lbm=nobody_asks)
    with pytest.raises(SignInFirst):
        make(SimpleNamespace(daemons=daemons, need_viewer=refuse, name="1", unix_now_s=0.0))


def test_doctor_examines_nothing_of_this_process_for_others():
    asked = []

    def lim(question, timeout_s=5.0):
        asked.append(question["op"])
        return {"peers": [], "scope": "host", "version": "x", "cores": 2, "speed": 1.0}

    daemons = SimpleNamespace(
        lim=lim, lbm=lim, config=Config(), socket=Path, queue=lambda: ((), "")
    )
    page = make_doctor(SimpleNamespace(daemons=daemons, sees_host=False))
    names = {check["name"] for check in page.data["checks"]}
    assert "LIM" in names
    assert not names & {"configuration", "key", "state directory", "privilege"}


def test_every_page_has_its_own_address():
    assert len({kind.path for kind in KINDS}) == len(KINDS)
