"""Another host's information about its owner is checked before it is shown."""

import math

import pytest

from lbd.errors import PeerError
from lbd.lbm.core.owner_book import KEPT, OwnerBook
from lbd.lbm.session.owner_questions import owner_json, trial_limit_s
from lbd.model import HostId
from lbd.net.gen import lbm_pb2 as pb
from lbd.policy.wait_trials import FEWEST_WAITS


def reply(**values):
    known = {"owner": "here", "since": 5.0, "p01": 0.1, "p11": 0.9, "step_s": 60.0}
    made = pb.OwnersReply(**known | values)
    if not made.by_hour:
        made.by_hour.extend([pb.OwnerHour(p01=0.1, p11=0.9, steps=1)] * 168)
    return made


def test_valid_information_is_shown():
    one = pb.Interruption(ended=9.0, stay_s=4.0, cost_s=3.0)
    shown = owner_json("h3", reply(interruptions=[one], rule="suspend\n\x1b[2J"))
    assert (shown["host"], shown["owner"], shown["since"]) == ("h3", "here", 5.0)
    assert shown["interruptions"] == [[9.0, 4.0, 3.0, None, None]]
    assert shown["rule"].isprintable()
    assert owner_json("h3", reply(admission=["a\nb"] * 99))["admission"] == ["a b"] * 20
    assert owner_json("h3", reply(owner=""))["since"] is None
    assert owner_json("h3", reply())["shown_by"] is None
    assert owner_json("h3", reply(shown_by="pts/0\n" * 99))["shown_by"].startswith("pts/0 pts/0")


@pytest.mark.parametrize(
    "values",
    [
        {"owner": "asleep"},
        {"p01": 1.5},
        {"p11": math.nan},
        {"since": math.inf},
        {"since": 1e308},
        {"step_s": 1e300},
        {"step_s": -1.0},
        {"free_within_s": math.nan},
        {"by_hour": [pb.OwnerHour(p01=0.1)] * 167},
        {"interruptions": [pb.Interruption(ended=math.nan)]},
        {"interruptions": [pb.Interruption(moved_after_s=-1.0)]},
        {"interruptions": [pb.Interruption(trial_limit_s=math.inf)]},
    ],
)
def test_what_cannot_be_is_refused(values):
    with pytest.raises(PeerError):
        owner_json("h3", reply(**values))


def test_the_limit_of_the_trials_is_shown_once_they_have_seen_enough():
    book = OwnerBook(HostId("h3"), step_s=60.0)
    assert trial_limit_s(book, 600.0) is None
    book.trials.restore([[0, 9, 9]] * (len(book.trials.trials) - 1) + [[0, 9, 0]], FEWEST_WAITS)
    limit_s = trial_limit_s(book, 600.0)  # never moving has cost nothing
    one = pb.Interruption(ended=9.0, stay_s=4.0, cost_s=600.0, trial_limit_s=limit_s)
    assert owner_json("h3", reply(interruptions=[one]))["interruptions"][0][4] == 1e11


def test_the_answer_is_bounded():
    many = [pb.Interruption(stay_s=1.0)] * (2 * KEPT)
    assert len(owner_json("h3", reply(interruptions=many))["interruptions"]) == KEPT
