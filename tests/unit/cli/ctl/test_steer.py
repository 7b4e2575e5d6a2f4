"""`lbctl algorithm`, `param` and `drain`: what they print about a change, and how long it lasts."""

import json
import re

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl import steer
from lbd.cli.ctl.steer import SAVED_LATER
from tests.unit.cli.canned import HOST, STATUS


def test_a_change_is_reported_with_its_hosts_and_how_long_it_lasts(daemon, capsys):
    where = {"hosts": 3, "changed": 2, "missing": ["h3"]}
    daemon(
        "lim",
        algorithm={"algorithm": "LOWEST", "was": "GLOBAL", **where},
        param={"name": "lim.min_gain", "value": 0.2, "was": 0.1, **where},
    )
    for words, out, change in (
        (["algorithm", "LOWEST"], "LOWEST\n", "algorithm GLOBAL → LOWEST"),
        (["param", "min_gain", "0.2"], "lim.min_gain = 0.2\n", "lim.min_gain 0.1 → 0.2"),
    ):
        assert lbctl.main(words) == 0
        said = (
            f"lbctl: {change} on 2 of 3 hosts; on trial until --reset, or until no LIM of the "
            "cluster runs any more; --save keeps it\n"
            "lbctl: not confirmed by h3: they will take it when they are heard again\n"
        )
        assert capsys.readouterr() == (out, said)


def test_a_reload_says_what_takes_effect_only_after_a_restart(daemon, capsys):
    """It said only that the rules were reloaded, and `config show` had the new values."""
    later = ["users.map", "admin.users", "users.allow", "dispatch.lease_s"]
    daemon("lbm", reload={"needs_restart": later})
    daemon("lim", settings={"saved": {"dispatch.lease_s": "60.0"}, "trial": {}})
    assert lbctl.main(["reload"]) == 0
    said, restart, keeper = capsys.readouterr().out.splitlines()
    assert said == "the owner's rules have been reloaded"
    assert restart == (
        "not in force yet: users.map, admin.users: takes effect after `lbctl restart`"
    )
    assert keeper.startswith(
        "not in force yet: users.allow: takes effect after `lbctl restart` and `systemctl restart "
        "lbd-keeper`"
    )
    assert lbctl.main(["reload", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["needs_restart"] == later[:3]


@pytest.mark.parametrize("words", [["reload"], ["config", "check"]])
def test_rules_edited_by_hand_that_cannot_work_as_meant_are_warned_of(
    daemon, capsys, tmp_path, words
):
    """The host admitted nobody, and the person who had edited the file read only "reloaded"."""
    daemon("lbm", reload={"needs_restart": []})
    with open(tmp_path / "lbd.toml", "a") as file:
        file.write('[admission]\ngroups = ["no-such-group"]\n')
    assert lbctl.main(words) == 0
    said = "lbctl: warning: admission.groups: this host has no group no-such-group: "
    assert capsys.readouterr().err.startswith(said)


def test_a_value_that_was_in_force_already_is_no_change(daemon, capsys):
    where = {"hosts": 3, "changed": 3, "missing": []}
    daemon("lim", algorithm={"algorithm": "GLOBAL", "was": "GLOBAL", **where})
    assert lbctl.main(["algorithm", "GLOBAL"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("lbctl: algorithm was already GLOBAL on 3 of 3 hosts; on trial until")


@pytest.mark.parametrize(
    ("missing", "down", "says"),
    [
        (["h2"], ["h2"], ["h2 has not confirmed yet; it learns of it as soon as it is heard"]),
        (
            ["h2", "h3", "h4"],
            ["h2", "h4"],
            [
                "not confirmed by h3: they will take it when they are heard again",
                "h2, h4 have not confirmed yet; they learn of it as soon as they are heard",
            ],
        ),
    ],
)
def test_a_change_names_the_hosts_that_are_down(daemon, capsys, missing, down, says):
    where = {"hosts": 4, "changed": 4 - len(missing), "missing": missing, "down": down}
    daemon("lim", algorithm={"algorithm": "LOWEST", "was": "GLOBAL", **where})
    assert lbctl.main(["algorithm", "LOWEST"]) == 0
    first, *rest = capsys.readouterr().err.splitlines()
    assert f" on {4 - len(missing)} of 4 hosts; " in first
    assert rest == [f"lbctl: {one}" for one in says]


@pytest.mark.parametrize(
    ("words", "saved", "lasts"),
    [
        (["NOLB", "--save"], "NOLB", "saved, so it survives restarts"),
        (["--save"], "NOLB", "saved, so it survives restarts"),
        (["--reset"], None, "each host's lbd.toml applies to lim.algorithm again"),
        (
            ["NOLB"],
            "LOWEST",
            "on trial until --reset, or until no LIM of the cluster runs any more; "
            "then the saved LOWEST applies",
        ),
    ],
)
def test_a_change_says_whether_it_is_saved(daemon, capsys, words, saved, lasts):
    reply = {"algorithm": "NOLB", "was": "GLOBAL", "hosts": 1, "changed": 1, "missing": []}
    lim = daemon("lim", algorithm={**reply, **({"saved": saved} if saved else {})})
    assert lbctl.main(["algorithm", *words]) == 0
    said = f"lbctl: algorithm GLOBAL → NOLB on 1 of 1 host; {lasts}\n"
    assert capsys.readouterr() == ("NOLB\n", said)
    assert (lim.asked[0]["save"], lim.asked[0]["reset"]) == ("--save" in words, "--reset" in words)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"dropped": "P2C"},
         "the saved P2C is dropped: each host's lbd.toml applies to lim.algorithm again"),
        ({"trial_ended": True, "saved": "GLOBAL"},
         "the trial has ended and the saved GLOBAL applies; --reset again drops that, too"),
    ],
)  # fmt: skip
def test_a_reset_says_what_it_dropped_or_restored(daemon, capsys, how, said):
    reply = {"algorithm": "GLOBAL", "was": "P2C", "hosts": 1, "changed": 1, "missing": []}
    daemon("lim", algorithm={**reply, **how})
    assert lbctl.main(["algorithm", "--reset"]) == 0
    assert capsys.readouterr().err.endswith(f"; {said}\n")


@pytest.mark.parametrize(
    "words",
    [
        ["algorithm", "NOLB", "--save", "--reset"], ["algorithm", "NOLB", "--reset"],
        ["param", "min_gain", "1", "--reset"], ["param", "--save"], ["param", "--reset"],
    ],
)  # fmt: skip
def test_a_parameter_that_cannot_be_saved_or_reset_is_a_usage_error(daemon, capsys, words):
    lim = daemon("lim")
    assert lbctl.main(words) == 2
    assert capsys.readouterr().err.startswith("lbctl")
    assert lim.asked == []


def test_saved_parameters_have_a_column(daemon, capsys):
    def param(request):
        if request["name"] == "min_gain":
            return {"ok": True, "name": "lim.min_gain", "value": 0.5, "saved": 0.25}
        return {"ok": True, "name": f"lim.{request['name']}", "value": 1.0}

    daemon("lim", param=param)
    assert lbctl.main(["param"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["PARAMETER", "VALUE", "SAVED"]
    assert ["lim.min_gain", "0.5", "0.25"] in lines


def test_drain_waits_for_a_sample_taken_after_it(daemon, capsys):
    rows = [
        {**HOST, "age_s": 0.0, "jobs": {"local": 0, "foreign": 2}},
        {**HOST, "age_s": 9.0, "jobs": {"local": 0, "foreign": 0}},  # older than the drain
        {**HOST, "age_s": 0.0, "jobs": {"local": 0, "foreign": 0}},
    ]
    seen = iter(rows)
    answers = {"status": lambda request: {"ok": True, **STATUS, "hosts": [next(seen)]}, "drain": {}}
    daemon("lim", **answers)
    assert lbctl.main(["drain", "h1", "--wait"]) == 0
    assert next(seen, None) is None
    assert capsys.readouterr().out == "h1 is drained and empty\n"


NOT_EMPTY = {**HOST, "age_s": 0.0, "jobs": {"local": 0, "foreign": 2}, "jobs_known": True}
EMPTY = {**NOT_EMPTY, "jobs": {"local": 0, "foreign": 0}}
UNKNOWN = {
    "its LIM was restarted, and its LBM has not reported yet": {**EMPTY, "jobs_known": False},
    "the LIM here was restarted, and does not know the host yet": None,
    "nor has it heard of it": {**EMPTY, "state": "down"},
}


def drained(daemon, monkeypatch, rows):
    """`lbctl drain --wait`, while the LIM says one thing after the other, the last one for ever."""
    left = list(rows)

    def status(request):
        row = left.pop(0) if left[1:] else left[0]
        return {"ok": True, **STATUS, "hosts": [row] if row else []}

    monkeypatch.setattr(steer, "POLL_S", 0.0)
    daemon("lim", status=status, drain={})
    code = lbctl.main(["drain", "h1", "--wait"])
    assert len(left) == 1, "it did not wait for what was said last"
    return code


@pytest.mark.parametrize("row", UNKNOWN.values(), ids=UNKNOWN)
def test_a_host_is_not_called_empty_while_it_is_not_known_what_runs_there(
    daemon, capsys, monkeypatch, row
):
    assert drained(daemon, monkeypatch, [row, NOT_EMPTY, row, NOT_EMPTY, EMPTY]) == 0
    assert capsys.readouterr().out == "h1 is drained and empty\n"


@pytest.mark.parametrize("row", UNKNOWN.values(), ids=UNKNOWN)
def test_nor_if_it_stays_unknown(daemon, capsys, monkeypatch, row):
    monkeypatch.setattr(steer, "UNKNOWN_S", 0.0)
    assert drained(daemon, monkeypatch, [NOT_EMPTY, row]) == 1
    said = "h1 is drained, but what runs there is not known: h1 does not say\n"
    assert capsys.readouterr().out == said


def test_that_a_host_was_stopped_meanwhile_is_said_at_once(daemon, capsys, monkeypatch):
    """It was said, half a minute later, that it is not known what runs there."""
    monkeypatch.setattr(steer, "SILENT_S", 0.0)
    stopped = {**EMPTY, "state": "down", "why_down": "was stopped"}
    assert drained(daemon, monkeypatch, [stopped, stopped, EMPTY]) == 0
    out, err = capsys.readouterr()
    assert out == "h1 is drained and empty\n"
    said = "lbctl: h1 was stopped: unless its daemons are only restarted, what runs there ends"
    assert err == f"{said}; waiting up to 30 s for them\n"


def test_nor_is_a_host_that_stays_stopped_one_that_says_nothing(daemon, capsys, monkeypatch):
    monkeypatch.setattr(steer, "UNKNOWN_S", 0.0)
    stopped = {**EMPTY, "state": "down", "why_down": "was stopped"}
    assert drained(daemon, monkeypatch, [stopped]) == 1
    said = "h1 is drained, but was stopped before it was known to be empty\n"
    assert capsys.readouterr().out == said


def test_drain_says_once_what_it_waits_for(daemon, capsys, monkeypatch):
    monkeypatch.setattr(steer, "SILENT_S", 0.0)
    busy = {**HOST, "age_s": 0.0, "jobs": {"local": 0, "foreign": 2}}
    rows = iter([busy, busy, {**HOST, "age_s": 0.0, "jobs": {"local": 0, "foreign": 0}}])
    answers = {"status": lambda request: {"ok": True, **STATUS, "hosts": [next(rows)]}, "drain": {}}
    daemon("lim", **answers)
    assert lbctl.main(["drain", "h1", "--wait"]) == 0
    said = "h1 is drained; waiting for 2 jobs of the queue or of other hosts there"
    assert capsys.readouterr().err == f"lbctl: {said}: lbctl jobs --host h1, as root on h1\n"


@pytest.mark.parametrize(
    ("typed", "run"),
    [
        (1, "1 command that was typed on it still runs"),
        (2, "2 commands that were typed on it still run"),
    ],
)
def test_a_drained_host_on_which_commands_were_typed_is_not_called_empty(
    daemon, capsys, typed, run
):
    """A reboot would end them. Plain `lbctl jobs` was named, which hides them elsewhere."""
    row = {**HOST, "age_s": 0.0, "jobs": {"local": typed, "foreign": 0}}
    daemon("lim", status={**STATUS, "hosts": [row]}, drain={})
    assert lbctl.main(["drain", "h1", "--wait"]) == 0
    said = "h1 is drained, and no job of the queue or of another host is left there; "
    shows = "(lbctl jobs, as root on h1); what lbsh keeps there is seen only by `ps`"
    assert capsys.readouterr().out == f"{said}{run}, there or elsewhere {shows}\n"


def test_who_stops_waiting_hears_that_the_host_stays_drained(daemon, capsys, monkeypatch):
    def interrupted(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(steer.time, "sleep", interrupted)
    busy = {**HOST, "age_s": 0.0, "jobs": {"local": 0, "foreign": 2}}
    daemon("lim", status={**STATUS, "hosts": [busy]}, drain={})
    assert lbctl.main(["drain", "h1", "--wait"]) == 130
    said = "lbctl: stopped waiting; h1 stays drained until `lbctl undrain h1`\n"
    assert capsys.readouterr() == ("", said)


def test_drain_of_a_host_that_is_down_waits_for_nothing(daemon, capsys):
    """It is no longer known what ran there last."""
    down = {**HOST, "state": "down", "jobs": {"local": 0, "foreign": 4}}
    lim = daemon("lim", status={**STATUS, "hosts": [down]}, drain={"when_back": True})
    assert lbctl.main(["drain", "h1", "--wait", "--reason", "disk sdb"]) == 0
    assert lim.asked[0]["reason"] == "disk sdb"
    assert "it will be drained when it is back" in capsys.readouterr().out


def test_a_repeated_drain_says_who_drained_it_before(daemon, capsys):
    before = {"reason": "disk sdb", "by": "ann", "since": 1.0}
    daemon("lim", status=STATUS, drain={"before": before})
    assert lbctl.main(["drain", "h1"]) == 0
    out, err = capsys.readouterr()
    assert out == "h1 is drained: it gets no new jobs\n"
    assert re.fullmatch(r"lbctl: h1 was already drained by ann since 1970-.*: disk sdb\n", err)
    assert lbctl.main(["drain", "h1", "--reason", "move"]) == 0
    assert capsys.readouterr().err.endswith(": disk sdb; the reason is now: move\n")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"was_drained": True}, "h1 takes jobs again\n"),
        ({"was_drained": True, "when_back": True}, "h1 takes jobs again when it is back\n"),
        ({"was_drained": False}, "h1 was not drained\n"),
    ],
)
def test_undrain_says_if_there_was_no_drain(daemon, capsys, reply, said):
    daemon("lim", drain=reply)
    assert lbctl.main(["undrain", "h1"]) == 0
    assert capsys.readouterr().out == said


@pytest.mark.parametrize("words", [["drain", "h2"], ["undrain", "h2"], ["algorithm", "LOWEST"]])
def test_a_change_that_was_not_saved_says_so(daemon, capsys, words):
    why = "/var/lib/lbd/settings.json: No space left on device"
    where = {"hosts": 2, "changed": 2, "missing": [], "unsaved": why}
    daemon("lim", drain={"unsaved": why}, algorithm={"algorithm": "LOWEST", "was": "NOLB", **where})
    assert lbctl.main(words) == 0
    said = f"lbctl: not saved on this host: {why}; {SAVED_LATER}\n"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [["algorithm", "LOWEST"], ["param", "min_gain", "0.2"]])
def test_what_was_saved_on_some_hosts_is_said_in_one_line(daemon, capsys, words):
    """It was said to be saved, and then not to be."""
    why = "/var/lib/lbd/settings.json: No space left on device"
    where = {"hosts": 2, "changed": 2, "missing": [], "unsaved": why}
    param = {"name": "lim.min_gain", "value": 0.2, "was": 0.1, **where}
    daemon("lim", algorithm={"algorithm": "LOWEST", "was": "NOLB", **where}, param=param)
    assert lbctl.main([*words, "--save"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    saved = f"saved on 1 of 2 hosts; not on this one: {why}; {SAVED_LATER}"
    assert line.endswith(f" on 2 of 2 hosts; {saved}")


def test_drain_gives_up_after_its_timeout(daemon, capsys):
    daemon("lim", status=STATUS, drain={})
    assert lbctl.main(["drain", "h1", "--wait", "--timeout", "0"]) == 1
    assert (
        capsys.readouterr().out
        == "h1 is drained; 1 job of the queue or of another host still runs there\n"
    )
