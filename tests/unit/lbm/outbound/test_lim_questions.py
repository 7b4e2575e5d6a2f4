"""The LIM's answers about places and slots, as the events of a journey."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from lbd.errors import Unavailable
from lbd.lbm.core import journey_events as e
from lbd.lbm.outbound.context import SAID_AGAIN_S, OutboundContext
from lbd.lbm.outbound.lim import LimNotes, LimQuestions, lim_said, slots_of
from lbd.local.rate_limit import Rates
from lbd.local.starting import returning_mark
from lbd.model import HostId, Verdict

H1, H2 = HostId("h1"), HostId("h2")


def test_a_place():
    said = {"verdict": "there", "host": "h2", "address": "h2:1", "reason": "lowest"}
    assert lim_said(said) == e.LimSaid(Verdict.THERE, H2, "h2:1", "lowest")


def test_a_place_without_an_address():
    said = {"verdict": "here", "host": "h1", "address": None, "reason": "below-threshold"}
    shown = said | {"load_here": 0.05, "local_threshold": 0.7}
    assert lim_said(shown).phrase == "its load now, 0.05, is below 0.70 (lim.local_threshold)"
    assert lim_said(shown).seen == "load 0.05, threshold 0.70"
    loads = [{"name": "h2", "load": 1.0}, {"name": "h1", "load": 2.8}, {"name": "h3"}, 4]
    away = {"host": "h2", "reason": "lowest", "load_here": None, "candidates": loads}
    assert "be 1.00, the" in lim_said(said | away, "h1").phrase
    assert lim_said(said | away, "h1").phrase.endswith("here it would be 2.80")
    tied = [*loads, {"name": "h4", "load": 1.02}, {"name": "h5", "load": 1.0, "why": "drained"}]
    phrase = lim_said(said | away | {"candidates": tied}, "h1").phrase
    assert phrase == (
        "its load will be 1.00, the lowest of the hosts that accept commands now; h4 is as low; "
        "here it would be 2.80"
    )
    phrase = lim_said(said | away | {"candidates": tied}, "h1", left_out={"h4"}).phrase
    assert "as low" not in phrase
    barred = [loads[0], loads[1] | {"why": "no gpu"}]
    chosen = lim_said(said | away | {"candidates": barred}, "h1").phrase
    assert chosen == "its load will be 1.00, the lowest of the hosts that accept commands now"
    sent = lim_said(said | away, "", "--remote was given").phrase
    assert sent.startswith("--remote was given; its load will be 1.00")
    assert "here it would" not in sent
    assert lim_said(said | away, "h1").seen == "load with it: h2 1.00, h1 2.80"
    assert lim_said(said) == e.LimSaid(Verdict.HERE, H1, "", "below-threshold")
    full = {"reason": "no-free-slot", "candidates": [loads[1], loads[0] | {"why": "no free slot"}]}
    assert lim_said(said | full, "h1").seen == "h2: no free slot"
    assert lim_said(said | full | {"load_here": 2.8}, "h1").phrase == (
        "the other hosts that accept commands are full: they have no free slots; h2: no free slot"
    )


def test_a_host_that_was_left_out_is_not_said_to_be_excluded():
    """Its directory is not the same there, which is said with the command."""
    rows = [{"name": "h2", "why": "excluded"}, {"name": "h3", "why": "excluded"}]
    said = {"verdict": "here", "host": "h1", "reason": "no-willing-host", "candidates": rows}
    assert lim_said(said, "h1", left_out={"h2"}).seen == "h3: excluded"


@pytest.mark.parametrize("said", [{}, {"verdict": "nowhere"}, {"verdict": None}, {"verdict": 1}])
def test_an_invalid_answer(said):
    with pytest.raises(Unavailable, match="is not valid"):
        lim_said(said)


def host(name, total, used, state="up"):
    return {"name": name, "state": state, "slots": {"total": total, "used": used}}


def test_total_and_free_slots_of_hosts_that_are_up():
    status = {"hosts": [host("h1", 4, 1), host("h2", 2, 2), host("h3", 8, 0, "late")]}
    assert slots_of(status, H1) == {H1: (4, 3), H2: (2, 0)}


@pytest.mark.parametrize("hosts", [[], None, [host("h2", 2, 0)], [host("h1", 2, 0, "down")]])
def test_slots_elsewhere_count_only_with_our_own(hosts):
    with pytest.raises(Unavailable, match="how many slots this host has"):
        slots_of({"hosts": hosts}, H1)


class Lim:
    """A LIM that is away, and back after this many looks (None: never)."""

    def __init__(self, path, looks):
        self.path, self.looks, self.asked = path, looks, 0

    @property
    def connected(self):
        if self.looks is not None:
            self.looks -= 1
        return self.looks is not None and self.looks < 0

    async def call(self, question, timeout_s):
        if not self.connected:
            raise Unavailable("lim is not running")
        self.asked += 1
        return {"verdict": "here"}


def questions_to(lim):
    return LimQuestions(lim, LimNotes(lim), H1)


def ask_lim(questions, must):
    return questions.ask({}, must=must, may_be_no=False)


async def test_a_lim_that_is_being_replaced_is_waited_for(tmp_path):
    lim = Lim(tmp_path / "lim.sock", looks=3)
    Path(returning_mark(str(lim.path))).touch()
    assert await ask_lim(questions_to(lim), must=False) == {"verdict": "here"}
    assert lim.asked == 1


@pytest.mark.parametrize("must", [True, False])
async def test_a_lim_that_has_just_ended_is_waited_for_only_by_commands_that_need_it(
    tmp_path, must
):
    questions = questions_to(Lim(tmp_path / "lim.sock", looks=3 if must else None))
    questions.heard_s = time.monotonic()
    asked = ask_lim(questions, must=must)
    if must:
        assert await asked == {"verdict": "here"}
    else:
        with pytest.raises(Unavailable, match="not running"):
            await asked


async def test_a_lim_that_has_died_is_not_waited_for(tmp_path):
    lim = Lim(tmp_path / "lim.sock", looks=None)
    with pytest.raises(Unavailable, match="not running"):
        await ask_lim(questions_to(lim), must=True)
    mark = Path(returning_mark(str(lim.path)))
    mark.touch()
    os.utime(mark, (1.0, 1.0))  # or no LIM came
    with pytest.raises(Unavailable, match="not running"):
        await ask_lim(questions_to(lim), must=True)


def test_a_build_is_told_once_a_minute_that_the_lim_is_silent():
    home = SimpleNamespace(told=Rates(1 / SAID_AGAIN_S, 1))

    def said(*key, at_s=0.0):
        return OutboundContext.is_news(home, *key, "lim is silent", 1000.0 + at_s)

    assert said(7, 100)
    assert not any(said(7, 100, at_s=at_s) for at_s in (0.0, 1.0, 59.0))
    assert said(7, 101)  # the next command on the terminal
    assert said(8, 100)
    assert said(7, 100, at_s=60.0)
    assert OutboundContext.is_news(home, 7, 100, "lim is not running", 1001.0)
