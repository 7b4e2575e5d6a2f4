"""What `lbctl owners` shows, and what `lbctl advise` says of other rules for owners."""

import time
import tomllib

import pytest

from lbd.cli.ctl.advise_rules import owner_lines, owner_results, owners_json
from lbd.cli.ctl.owners import hour_lines, owners_lines
from lbd.config.access import AdmissionConfig
from lbd.config.schema import Config
from lbd.console.figures import Clock
from lbd.console.output import Page, Paint
from lbd.console.owners import owner_row, tenths
from lbd.sim.owner_advice import RULES, TRIALS, Interruption, OwnerRuleResult, results

PAGE = Page(Paint(on=False))
NOW_S = 1795195805.0  # 17:30:05 UTC


def row(**values):
    hours = [{"hour": hour, "p01": 0.1, "p11": 0.9, "steps": 60} for hour in range(168)]
    known = {
        "host": "h3", "owner": "here", "since": time.time(), "p01": 0.1, "p11": 0.95,
        "step_s": 60.0, "by_hour": hours, "steps": 1000, "stays": 7, "free_within_s": 600.0,
        "rule": "decide by trials",
    }  # fmt: skip
    return known | values


def test_who_is_present_since_when_and_for_how_long():
    host, owner, since, *rest = owner_row(row(since=NOW_S - 60), Clock(NOW_S, utc=True))
    assert (host, owner.text, since) == ("h3", "here", "17:29:05")
    assert rest == ["7", "10m00s", "0.100", "0.950", "16h40m", "decide by trials"]


def test_the_note_below_the_table_says_how_presence_is_detected():
    why = "pts/0 was used 4 s ago (admission.owner_idle_s)"
    lines = owners_lines([row(shown_by=why), row(shown_by=None)], Clock(NOW_S), PAGE)
    assert lines[-2:] == ["", f"h3: {why}"]
    assert len(owners_lines([row(shown_by=None)], Clock(NOW_S), PAGE)) == 2


def test_if_presence_is_not_watched_no_note_is_shown():
    nothing = row(owner=None, since=None, steps=0, stays=0, free_within_s=None, rule="keep")
    host, owner, *rest = owner_row(nothing, Clock(NOW_S))
    assert (host, owner.text) == ("h3", "not watched")
    assert rest == ["–", "0", "–", "–", "–", "–", "keep"]


def test_a_week_is_seven_lines_with_a_digit_for_each_hour():
    shown = row()
    shown["by_hour"][25]["steps"] = 0
    head, monday, tuesday, *rest = hour_lines(shown)
    assert head.startswith("h3 ")
    assert monday.split() == ["mon", "5" * 24]
    assert tuesday.split() == ["tue", "5." + "5" * 22]
    assert len(rest) == 5
    assert tenths({"steps": 9, "p01": 1.0, "p11": 1.0}) == "9"


def test_advice_names_the_rule_and_how_to_set_it():
    found = results([Interruption(0.0, 1000.0, 10.0, None)] * 20)
    lines = "\n".join(owner_lines(found))
    assert '"move at once" would have saved 5h30m of waiting and lost work' in lines
    assert lines.endswith('    [admission]\n    owner_is_back = "evict"\n    evict_grace_s = 0')
    (better,) = [one for one in owners_json(found) if one["better"]]
    assert (better["rule"], better["moves"]) == ("move at once", 20)


@pytest.mark.parametrize(("rule", "setting"), [*(rule[:2] for rule in RULES), TRIALS])
def test_the_settings_that_advice_suggests_are_complete(rule, setting):
    now = OwnerRuleResult("as it was", "", 1000.0, 0.0, 0)
    better = OwnerRuleResult(rule, setting, 10.0, 0.0, 0)
    *_, table = "\n".join(owner_lines([now, better])).partition("[admission]")
    words = tomllib.loads(table)
    AdmissionConfig(**words)  # all of these exist, and are valid
    assert ("decide_by" in words) == (words["owner_is_back"] == "decide")


def test_if_there_are_too_few_interruptions_their_number_is_given(capsys):
    now_s = time.time()
    assert owner_results(Interrupted(now_s, 3), now_s - 60.0) == []
    few = "only 3, too few for advice (10 needed)"
    assert capsys.readouterr().err == f"lbctl: commands interrupted by owners: {few}\n"
    assert owner_results(Interrupted(now_s, 3), now_s + 60.0) == []
    assert owner_results(Interrupted(now_s, 10), now_s - 60.0) != []
    assert capsys.readouterr().err == ""


class Interrupted:
    """A cluster of one host whose owners made this many commands wait."""

    config = Config()

    def __init__(self, ended_s, count):
        self._rows = [[ended_s, 1000.0, 10.0, None]] * count

    def lim(self, question, timeout_s=5.0):
        return {"hosts": [{"name": "h1", "state": "up"}], "me": "h1"}

    def lbm(self, question, timeout_s=5.0):
        return {"interruptions": self._rows}


def test_advice_says_when_nothing_is_better():
    found = results([Interruption(0.0, 1000.0, 10.0, 0.0)] * 20)
    assert owner_lines(found)[-1] == "no other rule for owners was clearly better"
