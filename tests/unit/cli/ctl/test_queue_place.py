"""`lbctl queue`: when it is refused, and in which order hosts are named."""

import contextlib
import json
import os
import signal

import pytest

from lbd.cli.ctl.cluster import queue_place
from lbd.cli.lbctl import main
from lbd.console.daemons import Daemons
from lbd.errors import Unavailable
from lbd.process import last_words, written_disks

TAKEN = {"ok": True, "hosts": 2, "changed": 2, "missing": []}
HERE = {"dispatch.host": '"h1"', "dispatch.standby": "[]"}


def now(queued=0, running=0, closed=False, leader="h1"):
    return {"ok": True, "mode": "fcfs", "leader": leader, "queued": queued, "running": running,
            "closed": closed}  # fmt: skip


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(queue_place, "POLL_S", 0.01)
    monkeypatch.setattr(queue_place, "BEGIN_S", 0.3)


@pytest.fixture
def cluster(daemon):
    """cluster(saved, status of the queue) returns its LIM."""

    def start(saved, queue=None):
        away = {"ok": False, "error": "the dispatcher on h1 cannot be reached"}
        lbm = daemon("lbm", **{"queue.status": queue or away})
        lim = daemon("lim", settings={"ok": True, "saved": saved}, share=TAKEN)
        lim.lbm = lbm
        return lim

    return start


def shared(lim):
    return [one["values"] for one in lim.asked if one["op"] == "share" and one["values"]]


def placed(host):
    return {"dispatch.host": host, "dispatch.standby": [], "dispatch.closed": False}


def test_the_reason_why_the_dispatcher_here_cannot_start_is_reported_at_once(
    cluster, capsys, tmp_path, monkeypatch
):
    """It was only in the journal, and the command waited for half a minute."""
    monkeypatch.setattr(queue_place, "BEGIN_S", 100.0)
    lim = cluster({})
    last_words.leave(str(tmp_path), "dispatcher", "of another time")
    os.utime(tmp_path / "dispatcher.ended", (1.0, 1.0))
    why = "dispatch.store db/lbd does not answer: certificate verify failed"

    def starts_it(request):
        if request["values"]:
            last_words.leave(str(tmp_path), "dispatcher", why)
        return TAKEN

    lim.answers["share"] = starts_it
    assert main(["queue", "enable", "h1"]) == 1
    said = capsys.readouterr().err
    assert said == f"lbctl: the queue is assigned to h1, but its dispatcher cannot start: {why}\n"


WAITS = "waiting up to 1m until another host confirms that the queue is still here: h9"


def test_a_dispatcher_that_waits_for_the_word_of_a_host_that_is_lost_is_waited_for(
    cluster, capsys, tmp_path
):
    """On a cluster of two it was said that it cannot start, and what came next found no queue."""
    lim, asked = cluster({}), []
    lim.answers["share"] = lambda request: (
        last_words.leave(str(tmp_path), "dispatcher", WAITS) or TAKEN
    )

    def status(request):
        asked.append(request)
        return now(queued=4) if len(asked) > 3 else {"ok": False, "error": "not reached"}

    lim.lbm.answers["queue.status"] = status
    assert main(["queue", "enable", "h1"]) == 0
    out, err = capsys.readouterr()
    said = f"its dispatcher is {WAITS}; then it starts in any case"
    assert err == f"lbctl: the queue is assigned to h1; {said}\n"
    assert out.startswith("the queue is on h1: fcfs, 4 queued")


def test_if_it_waits_for_longer_that_is_no_failure(cluster, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(queue_place, "WORD_S_MAX", 0.1)
    lim = cluster({})
    last_words.leave(str(tmp_path), "dispatcher", WAITS)  # already before
    os.utime(tmp_path / "dispatcher.ended", (1.0, 1.0))
    assert main(["queue", "enable", "h1"]) == 0
    out = capsys.readouterr().out
    assert out == f"the queue is on h1, which is {WAITS}; then it starts in any case\n"
    assert shared(lim) == [placed("h1")]


def test_if_it_does_not_start_there_it_is_said_how_to_go_back(cluster, capsys):
    lim, asked = cluster(HERE), []

    def status(request):  # the old one closes, the new one does not start
        asked.append(request)
        if len(asked) <= 3:
            return now(closed=len(asked) > 1)
        return {"ok": False, "error": "not reached"}

    lim.lbm.answers["queue.status"] = status
    assert main(["queue", "enable", "h2"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("lbctl: the queue is assigned to h2, but no dispatcher answered")
    assert said.endswith("; to go back: lbctl queue enable h1\n")


def test_where_it_is(cluster, capsys):
    cluster(HERE, now(2, 1))
    assert main(["queue"]) == 0
    said = capsys.readouterr().out
    assert said == "the queue is on h1 (lbctl queue)\nfcfs, 2 queued, 1 running\n"
    assert main(["queue", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["hosts"], found["from"], found["queued"]) == (["h1"], "lbctl queue", 2)


def test_a_silent_dispatcher_is_named_rather_than_the_lbm_that_waits_for_it(
    cluster, capsys, monkeypatch
):
    cluster(HERE, now())

    def silent(self, request, timeout_s):
        raise Unavailable(f"lbm did not answer within {timeout_s:g} s; see `lbctl doctor`")

    monkeypatch.setattr(Daemons, "lbm", silent)
    for words in (["queue"], ["queue", "--json"]):
        assert main(words) == 1  # what it prints lacks the jobs
        out, err = capsys.readouterr()
        assert "h1" in out
        assert err == "lbctl: no dispatcher on h1 answered within 2 s; see `lbctl doctor`\n"
    assert main(["queue", "enable", "h2"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(
        "lbctl: no dispatcher on h1 answered within 2 s; jobs may be waiting there"
    )


def test_without_a_queue_that_is_said(cluster, capsys):
    cluster({})
    assert main(["queue"]) == 0
    assert capsys.readouterr().out.startswith("this cluster has no queue; `lbctl queue enable")
    assert main(["queue", "disable"]) == 0


def test_without_its_state_disk_a_host_does_not_say_that_there_is_no_queue(
    cluster, capsys, tmp_path, monkeypatch
):
    """It advised `lbctl queue enable`, while the queue was on the disk that was missing."""
    cluster({})
    (tmp_path / "fstab").write_text(f"/dev/sdb1 {tmp_path} auto nofail 0 2\n")
    monkeypatch.setattr(written_disks, "FSTAB", tmp_path / "fstab")
    says = f"lbctl: {tmp_path} is in /etc/fstab, but nothing is mounted there: `mount {tmp_path}`"
    for words in (["queue"], ["queue", "enable", "h1"]):
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(says)


@pytest.mark.parametrize("words", [["disable"], ["disable", "--drain"], ["enable", "h2"]])
def test_a_user_who_may_not_place_it_is_told_so_and_gets_no_advice_for_administrators(
    words, daemon, capsys
):
    refused = {"ok": False, "error": "only administrators may", "code": "denied"}
    daemon("lbm", **{"queue.status": now(2, 1)})
    daemon("lim", settings={"ok": True, "saved": HERE}, share=refused)
    assert main(["queue", *words]) == 1
    said = capsys.readouterr().err
    assert "only administrators may" in said
    assert "the queue has jobs" not in said


def test_enable_returns_once_the_dispatcher_answers(cluster, capsys):
    lim = cluster({}, now())
    assert main(["queue", "enable", "h1"]) == 0
    assert shared(lim) == [placed("h1")]
    said = "the queue is on h1: fcfs, 0 queued, 0 running; other hosts know it within 2 s\n"
    assert capsys.readouterr().out == said


def test_a_dispatcher_that_does_not_start_is_reported(cluster, capsys):
    lim = cluster({})
    assert main(["queue", "enable", "h1"]) == 1
    assert "no dispatcher answered" in capsys.readouterr().err
    assert shared(lim) == [placed("h1")]  # it may start yet


def test_the_cause_why_another_hosts_dispatcher_waits_is_named_at_once(
    cluster, capsys, monkeypatch
):
    """It was waited for half a minute, and its log was to be read."""
    monkeypatch.setattr(queue_place, "BEGIN_S", 100.0)
    cause = "the disk of the ledger is full: free some space in /srv/ledger"
    of = {"ok": False, "code": "unavailable"}
    said = iter(("h1", "h2"))  # the first answer is still of the queue's last host
    cluster({}, lambda _: {**of, "error": f"the dispatcher on {next(said)} waits: {cause}"})
    assert main(["queue", "enable", "h2"]) == 1
    assert capsys.readouterr().err == (
        f"lbctl: the queue is assigned to h2, but its dispatcher waits: {cause}\n"
    )


@pytest.mark.parametrize("words", [("disable",), ("enable", "h2")])
def test_refused_while_the_queue_has_jobs(cluster, capsys, words):
    lim = cluster(HERE, now(1, 1))
    assert main(["queue", *words]) == 1
    said = capsys.readouterr().err
    assert "the queue has jobs: 1 queued, 1 running" in said
    waits = "--drain` waits for them (held jobs must be released or"
    assert (waits in said) is (words[0] == "disable")
    assert shared(lim) == []


@pytest.mark.parametrize("words", [("disable",), ("disable", "--drain"), ("enable", "h2")])
def test_refused_while_the_jobs_in_the_queue_are_unknown(cluster, capsys, words):
    lim = cluster(HERE)
    assert main(["queue", *words]) == 1
    assert "jobs may be waiting there: --force" in capsys.readouterr().err
    assert shared(lim) == []
    assert main(["queue", "disable", "--force"]) == 0
    assert shared(lim) == [placed("")]


def test_disable_closes_the_queue_before_turning_it_off(cluster):
    lim = cluster(HERE, now(closed=True))
    assert main(["queue", "disable"]) == 0
    assert shared(lim) == [{"dispatch.closed": True}, placed("")]


@pytest.mark.parametrize("words", [("disable",), ("disable", "--force")])
def test_disable_says_where_the_ledger_remains(cluster, capsys, tmp_path, words):
    cluster(HERE, now(closed=True))
    assert main(["queue", *words]) == 0
    assert capsys.readouterr().out.endswith(" on h1\n")
    with open(tmp_path / "lbd.toml", "a") as file:
        file.write('[dispatch]\nstore = "postgresql://db/lbd"\n')
    assert main(["queue", *words]) == 0
    assert capsys.readouterr().out.endswith("in PostgreSQL\n")


def test_the_queue_opens_again_if_it_does_not_close(cluster, capsys):
    lim = cluster(HERE, now())
    assert main(["queue", "disable"]) == 1
    assert "did not close" in capsys.readouterr().err
    assert shared(lim) == [{"dispatch.closed": True}, {"dispatch.closed": None}]


def test_the_queue_opens_again_after_the_drain_timeout(cluster, capsys):
    lim = cluster(HERE, now(queued=1, closed=True))
    assert main(["queue", "disable", "--drain", "--timeout", "0.05"]) == 1
    assert "1 queued, 0 running; the queue stays open" in capsys.readouterr().err
    assert shared(lim)[-1] == {"dispatch.closed": None}


def test_the_queue_opens_again_if_the_drain_is_interrupted(cluster, monkeypatch):
    lim = cluster(HERE, now(queued=1, closed=True))

    def interrupted(daemons, now):
        raise KeyboardInterrupt

    monkeypatch.setattr(queue_place, "patiently", interrupted)
    with contextlib.suppress(KeyboardInterrupt, SystemExit):
        main(["queue", "disable", "--drain"])
    assert shared(lim) == [{"dispatch.closed": True}, {"dispatch.closed": None}]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_queue_opens_again_if_a_signal_ends_the_drain(cluster, monkeypatch, number):
    lim = cluster(HERE, now(queued=1, closed=True))

    def ended(_daemons, before):
        signal.raise_signal(number)
        return before

    monkeypatch.setattr(queue_place, "patiently", ended)
    ours = signal.signal(number, signal.SIG_IGN)
    try:
        assert main(["queue", "disable", "--drain", "--timeout", "0.05"]) == 128 + number
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, ours)
    assert shared(lim) == [{"dispatch.closed": True}, {"dispatch.closed": None}]


def test_one_of_several_hosts_can_be_removed_at_once(cluster):
    lim = cluster({**HERE, "dispatch.standby": '["h2"]'}, now(3))
    assert main(["queue", "disable", "h1"]) == 0
    assert shared(lim) == [placed("h2")]


def test_several_hosts_need_a_database(cluster, capsys):
    cluster({})
    assert main(["queue", "enable", "h1,h2"]) == 2
    assert "only with dispatch.store" in capsys.readouterr().err
    assert main(["queue", "disable", "h3"]) == 0  # there is none


@pytest.mark.parametrize(("queued", "in_file", "status"), [(2, True, 1), (2, False, 0)])
def test_jobs_in_a_file_are_not_left_behind_for_a_database(
    cluster, capsys, tmp_path, queued, in_file, status
):
    lim = cluster(HERE, now(queued) | {"in_file": in_file})
    with open(tmp_path / "lbd.toml", "a") as file:
        file.write('[dispatch]\nstore = "postgresql://db/lbd"\n')
    assert main(["queue", "enable", "h1,h2"]) == status
    assert bool(shared(lim)) != bool(status)
    assert ("2 queued, 0 running; they are in SQLite on h1" in capsys.readouterr().err) == in_file


def test_if_nothing_runs_it_is_not_said_that_there_is_no_queue(daemon, capsys):
    assert daemon  # only its configuration is needed; no daemon is started
    assert main(["queue"]) == 1
    out, err = capsys.readouterr()
    assert (out, "lim is not running" in err) == ("", True)
