"""Text of other users and hosts is shown in printable lines and creates no lines of its own."""

import ast
import json
import logging
import os
import re
from pathlib import Path

import pytest

import lbd.cli
from lbd.cli import lbctl
from lbd.cli.daemons import journal
from lbd.client import complaints
from lbd.client.shell import lbsh
from lbd.console.output import put
from lbd.lbm.core.journey_events import CommandEnd, why_ended
from lbd.lbm.inbound.refusal_text import explain
from lbd.lbm.keeper_link import SpawnFailed
from lbd.lbm.session.client import pack_end
from lbd.local import client_tags, frames
from lbd.net.gen import lbm_pb2
from tests.unit.cli.canned import JOB, STATUS

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b1A\nlbd dispatcher: forged\r\u2028\u202e"
JOBS = {"jobs": [JOB | {"state": "pending"}], "missing": []}
ATTEMPTS = {
    "jobs": [
        JOB
        | {
            "attempts": [
                {
                    "number": 1,
                    "host": "h2",
                    "state": "failed",
                    "started": 1.0,
                    "finished": 2.0,
                    "reason": "it",
                }
            ]
        }
    ]
}
PLACED = {
    "verdict": "there",
    "host": "h2",
    "reason": "lowest",
    "algorithm": "GLOBAL",
    "candidates": [{"name": "h1", "load": 1.5, "willing": False, "why": "drained"}],
}
ELIGIBLE = {"eligible": True, "why": "listed", "reason": "yes", "key": "cc", "always": ["cc"],
            "commands": [{"key": "cc", "cpu_s": 1.0}]}  # fmt: skip
TAGS = {"mode": "tags", "source": "solved", "objective": "slowdown", "reason": "few",
        "changes": [{"at": 1.0, "what": "cutoffs"}],
        "tiers": [{"tier": 1, "hosts": ["h1"], "slots": 1}]}  # fmt: skip
PARAM = {"name": "lim.min_gain", "value": "x", "algorithm": "GLOBAL"}
EXACT = {"verdict", "source", "state", "op"}  # these are our own words


def spoilt(answer, key=""):
    """Returns the data with terminal sequences in every text that comes from others."""
    if isinstance(answer, dict):
        return {name: spoilt(value, name) for name, value in answer.items()}
    if isinstance(answer, list):
        return [spoilt(value, key) for value in answer]
    return answer + EVIL if isinstance(answer, str) and key not in EXACT else answer


VERBS = {
    "status": ["status"],
    "jobs": ["jobs"],
    "job": ["job", "3"],
    "explain": ["explain", "cc"],
    "eligible": ["eligible"],
    "algorithm": ["algorithm"],
    "param": ["param", "min_gain"],
    "tags": ["tags", "show"],
}


def answers(change):
    return {
        "lim": change({"status": STATUS, "algorithm": PARAM, "param": PARAM, "params": PARAM,
                       "doctor": {"version": "1", "peers": [{"name": "h2", "error": "no: way"}]}}),
        "lbm": change({"jobs": JOBS, "queue.jobs": ATTEMPTS, "explain": PLACED,
                       "eligible": ELIGIBLE, "queue.tags": TAGS, "status": {"version": "1"}}),
    }  # fmt: skip


def shown(daemon, capsys, words, change):
    for name, given in answers(change).items():
        daemon(name, **given)
    code = lbctl.main(words)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
def test_lbctl_prints_as_many_lines_whatever_others_say(daemon, capsys, words):
    plain = shown(daemon, capsys, words, lambda answer: answer)
    for path in Path(os.environ["LBD_CONFIG"]).parent.glob("*.sock"):
        path.unlink()
    code, out, err = shown(daemon, capsys, words, spoilt)
    assert plain[1]
    for text in (out, err):
        assert all(line.isprintable() for line in text.split("\n")), repr(text)
    assert (code, out.count("\n"), err.count("\n")) == (
        plain[0], plain[1].count("\n"), plain[2].count("\n"),
    )  # fmt: skip


def test_doctor_prints_the_same_number_of_lines_too(daemon, capsys):
    _, out, _ = shown(daemon, capsys, ["doctor"], spoilt)
    assert "forged" in out
    assert all(line.isprintable() for line in out.split("\n")), repr(out)
    assert "\nlbd dispatcher" not in out


def test_json_is_unchanged(daemon, capsys):
    said = spoilt(JOBS)
    daemon("lbm", jobs=said)
    assert lbctl.main(["jobs", "--json"]) == 0
    out = capsys.readouterr().out
    found = json.loads(out)
    assert all(job.pop("ran_s") > 0 for job in found)
    assert [{"schema": 1, **job} for job in said["jobs"]] == found
    assert out.isascii()
    assert "\x1b" not in out


def test_colours_are_ours(capsys):
    put("\x1b[31mred\x1b[0m\x1b[2J\nx", "")
    assert capsys.readouterr().out == "\x1b[31mred\x1b[0m?[2J x\n\n"


def test_lbctl_has_no_other_way_to_print():
    """`put` and `print_json` are the only ways to standard output."""
    folder = Path(lbd.cli.__file__).parent
    silent = {"trust", "tokens", "own_config"}  # these have no answers
    files = [p for p in (folder / "ctl").rglob("*.py") if p.stem not in silent]
    beside = [p for room in ("console", "doctor") for p in (folder.parent / room).rglob("*.py")]
    files += [p for p in beside if p.stem != "output"]
    for path in [folder / "lbctl.py", *files]:
        for node in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            assert name not in ("print", "sys.stdout.write", "sys.stderr.write"), path


@pytest.mark.parametrize("say", [complaints.say, lbsh.say])
def test_the_clients_print_one_printable_line(capfd, say):
    say(f"h2: {EVIL}")
    (line, rest) = capfd.readouterr().err.split("\n")
    assert line.isprintable()
    assert line.split(": ", 1)[1].startswith("h2: ?]0;owned??[2J?1A lbd dispatcher: forged")
    assert rest == ""


def test_the_end_of_a_command_is_reported_in_one_printable_line():
    assert why_ended("exited", EVIL, "h2").isprintable()
    packed = dict(frames.fields(pack_end(CommandEnd(1, "failed", reason=EVIL * 1000))))
    reason = packed[client_tags.REASON].decode()
    assert reason.isprintable()
    assert len(reason) <= 1000


@pytest.mark.parametrize("phase", ["chdir", "directory", "exec", "admission.programs"])
def test_a_refusal_is_one_printable_line(phase):
    request = lbm_pb2.RunRequest(directory=b"/tmp/" + EVIL.encode(), argv=[EVIL.encode()])
    trouble = SpawnFailed(phase, 2, [f"/usr/bin/{EVIL}", f"/opt/{EVIL}"])
    assert explain(request, trouble).isprintable()


def test_a_record_of_the_log_is_one_printable_line(capfd, monkeypatch):
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        journal.set_up_log("lbd test", "h1")
        logger = logging.getLogger("lbd.test")
        logger.info("job %s: %s", EVIL, EVIL)
        try:
            raise ValueError(EVIL)
        except ValueError:
            logger.exception("it failed %s", EVIL)
    finally:
        root.handlers[:], root.level = before
    lines = capfd.readouterr().err.split("\n")
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
    assert re.search(r"lbd test: it failed .*Traceback.*ValueError", lines[1])


def test_a_journal_record_is_one_printable_line():
    record = logging.LogRecord("lbd", logging.INFO, "x.py", 1, "job %s", (EVIL,), None)
    assert journal.fields(record)["MESSAGE"].isprintable()
