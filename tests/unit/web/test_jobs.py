import base64
import json

import pytest

from lbd.console.figures import Clock
from lbd.console.job_details import detail_lines
from lbd.errors import Unavailable
from lbd.local.json_socket import Refusal
from lbd.web.acting import FORM_BYTES_MAX, Refused, form_of, host_act, job_act, read_form
from lbd.web.outputs import TAIL_BYTES, Outputs, Tail
from lbd.web.pages.job import acts, job_facts, output_parts
from lbd.web.pages.jobs import Found
from lbd.web.rendering import part_html
from lbd.web.view import Viewer

ANN = Viewer(1000, "ann", "token", "key")
NASTY = "<script>x</script>\x1b[2J"


def job(number="1", state="running", **more):
    return {"id": number, "state": state, "user": "ann", "command": ["make", "-j4"], "host": "h1",
            "submitted": 0.0, **more}  # fmt: skip


def job_parts(jobs, clock):
    found = Found(clock)
    for one in jobs:
        found.add(one)
    return found.parts()


def test_waiting_jobs_are_listed_separately_with_their_reasons():
    waits = job("2", "pending", reason="next, as soon as a slot is free")
    waiting, others = job_parts([job(), waits], Clock(60.0))
    assert [row[0].text for row in waiting.rows] == ["2"]
    assert waiting.rows[0][1].text == "next, as soon as a slot is free"
    assert waiting.rows[0][0].href == "/jobs/2"
    assert [row[0].text for row in others.rows] == ["1"]


def test_ten_thousand_jobs_are_not_all_shown():
    _, others = job_parts([job(str(number)) for number in range(10_000)], Clock(0.0))
    assert len(others.rows) == 200
    assert "9800 more" in others.note


def test_the_json_has_all_jobs_and_is_bounded(monkeypatch):
    found, jobs = Found(Clock(0.0), as_json=True), [job(str(n)) for n in range(300)]
    for one in jobs:
        found.add(one)
    assert [json.loads(one) for one in found.jsons] == [{"schema": 1, **one} for one in jobs]
    monkeypatch.setattr("lbd.web.pages.jobs.JSON_CHARS_MAX", 1000)
    with pytest.raises(Refusal, match="too many jobs"):
        found.add(job())


def test_what_users_say_is_text():
    bad = job("1", "pending", name=NASTY, reason=NASTY, user=NASTY, command=[NASTY], origin=NASTY)
    parts = [*job_parts([bad], Clock(0.0)), *job_facts(bad, detail_lines(bad, Clock(0.0)), 9)]
    html = "".join(map(part_html, parts))
    assert "<script" not in html
    assert "\x1b" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize(
    ("state", "reason", "queued", "verbs"),
    [
        ("running", "", True, ["kill"]),
        ("pending", "next", True, ["hold", "kill"]),
        ("pending", "held by ann", True, ["release", "kill"]),
        ("running", "", False, ["kill"]),
        ("done", "", True, []),
    ],
)
def test_which_actions_are_offered(state, reason, queued, verbs):
    parts = acts(job("h1-2", state, reason=reason), ANN, queued=queued)
    found = [button.action for part in parts for button in part.buttons]
    assert found == [f"/jobs/h1-2/{verb}" for verb in verbs]
    assert all(part.csrf == "token" for part in parts)


def piece(output=b"", error=b"", at=(0, 0), attempt=1, **more):
    data = [base64.b64encode(one).decode() for one in (output, error)] if output or error else []
    return {"attempt": attempt, "data": data, "at": list(at), **more}


class Answers:
    def __init__(self, *replies):
        self.replies, self.asked = list(replies), []

    def lbm(self, question, timeout_s):
        self.asked.append(question)
        reply = self.replies.pop(0) if self.replies else {"attempt": 0, "data": []}
        if isinstance(reply, Exception):
            raise reply
        return reply


def test_only_new_output_is_read():
    outputs = Outputs()
    answers = Answers(piece(b"a\n", at=(2, 0)), piece(at=(2, 0)))
    assert outputs.read("key", answers, "1").kept == [b"a\n", b""]
    answers.replies = [piece(b"b\n", b"e\n", at=(4, 2)), piece(at=(4, 2))]
    assert outputs.read("key", answers, "1").kept == [b"a\nb\n", b"e\n"]
    assert answers.asked[2] == {"op": "queue.logs", "ids": ["1"], "at": [2, 0], "seen_attempt": 1}
    answers.replies = [piece(b"theirs", at=(6, 0)), piece()]
    assert outputs.read("other", answers, "1").kept == [b"theirs", b""]


def test_of_a_long_output_the_end_is_shown():
    tail = Tail()
    tail.read(Answers(*(piece(b"x" * TAIL_BYTES, at=(n, 0)) for n in range(100))), "1")
    assert len(tail.kept[0]) == TAIL_BYTES
    assert tail.behind
    notes = output_parts(job(), tail)[0].note
    assert "lbctl logs 1" in notes
    assert "more is being read" in notes


def test_the_output_of_another_attempt_is_not_appended():
    tail = Tail()
    tail.read(Answers(piece(b"first", at=(5, 0)), piece(b"second", at=(6, 0), attempt=2)), "1")
    assert tail.kept[0] == b"second"
    tail = Tail()
    replies = piece(b"first", at=(5, 0)), piece(b"+", at=(1, 0), attempt=2, continued=True)
    tail.read(Answers(*replies), "1")
    assert tail.kept[0] == b"first+"


def test_an_output_that_cannot_be_read_says_why():
    tail = Tail()
    tail.read(Answers(piece(b"a", at=(1, 0)), Unavailable("h2 is away")), "1")
    assert tail.kept[0] == b"a"
    assert output_parts(job(), tail)[0].note == "h2 is away"


def test_forms():
    assert form_of(b"csrf=a%26b&x=") == {"csrf": "a&b", "x": ""}
    assert form_of(b"csrf=a&csrf=b") == {}
    for bad in (b"\xff", b"a=%ff", b"&".join(b"a=1" for _ in range(50))):
        with pytest.raises(Refused):
            form_of(bad)


class Posted:
    def __init__(self, *pieces, kind="application/x-www-form-urlencoded"):
        self.headers, self._pieces, self.read = {"content-type": kind}, pieces, 0

    async def stream(self):
        for one in self._pieces:
            self.read += 1
            yield one


async def test_a_form_is_bounded():
    assert await read_form(Posted(b"a=", b"1")) == {"a": "1"}
    endless = Posted(*[b"x" * FORM_BYTES_MAX] * 100)
    with pytest.raises(Refused, match="too long"):
        await read_form(endless)
    assert endless.read == 2
    with pytest.raises(Refused, match="expected a form"):
        await read_form(Posted(b"{}", kind="application/json"))


@pytest.mark.parametrize(
    ("act", "name", "verb"),
    [(job_act, "1", "requeue"), (job_act, "@me", "kill"), (job_act, "1-9", "kill"),
     (job_act, "last", "kill"), (host_act, "h1", "cut")],
)  # fmt: skip
def test_unknown_actions(act, name, verb):
    with pytest.raises(Refusal, match="no such act"):
        act(None, name, verb)
