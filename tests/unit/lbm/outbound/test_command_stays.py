"""A command that its client runs here and only reports (`lbrun --local`)."""

import logging
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.lbm.core import journey_events as e
from lbd.lbm.core.jobs import Jobs, LocalCap
from lbd.lbm.core.journey import JourneyPhase
from lbd.lbm.outbound.command import Command
from lbd.lbm.session.request import ClientRequest
from lbd.model import HostId, JobState, Needs, Verdict


@pytest.fixture
def home():
    return SimpleNamespace(
        config=Config(host=HostConfig(name="h1")),
        streams=object(),
        looker=None,
        unshared=None,
        jobs=Jobs(10, own="h1"),
        cap=LocalCap(2),
        commands={},
        eligible=None,
        room=SimpleNamespace(made=lambda: None),
    )


def command(home, request):
    client = SimpleNamespace(
        peer=SimpleNamespace(pid=0), here=lambda *_, **__: None, done=lambda _: None
    )
    return Command(home, client, request, "ann", 1000)


def stays(home, request):
    return command(home, request).stay()


def test_one_that_needs_what_is_to_be_asked_for_is_listed_no_longer(home):
    """With RUN it may ask; a command that is only reported would stay in the list for ever."""
    request = ClientRequest([b"true"], needs=Needs(resources=(("gpu", 1),)))
    assert not stays(home, request)
    assert not home.jobs.running
    assert [job.state for job in home.jobs.ended] == [JobState.CANCELLED]


def test_a_nested_command_says_why_it_stays(home):
    deep = ClientRequest([b"true"], depth=home.config.lbm.max_hops)
    made = Command(home, SimpleNamespace(peer=SimpleNamespace(pid=0)), deep, "ann", 1000)
    assert made.journey.demands.must_stay
    assert made.journey.demands.stays_as == "nested"


def test_what_was_compared_is_kept_with_the_job(home):
    peer = SimpleNamespace(pid=0)
    made = Command(home, SimpleNamespace(peer=peer), ClientRequest([b"true"]), "ann", 1000)
    said = e.LimSaid(Verdict.HERE, HostId("h1"), "", "no-gain", "", "load with it: h2 1.00")
    made._books.said = said
    made._books.note(e.RunHere("no-gain; /w is not the same on h3", 0))
    assert made.job.reason == "no-gain; load with it: h2 1.00; /w is not the same on h3"


@pytest.mark.parametrize(
    ("given", "reason", "kept"),
    [
        ({"mode": "remote"}, "lowest", "lowest; --remote was given; load with it: h2 1.00"),
        ({"excluded": ["h1"]}, "lowest", "lowest; -x h1 was given; load with it: h2 1.00"),
        ({"excluded": ["h3"]}, "lowest", "lowest; load with it: h2 1.00"),
        ({"mode": "remote"}, "wanted", "wanted"),
    ],
)
def test_what_the_user_asked_for_is_kept_as_the_reason(home, given, reason, kept):
    """Without --remote it would have stayed: the loads alone would be a wrong answer."""
    peer = SimpleNamespace(pid=0)
    request = ClientRequest([b"true"], **given)
    made = Command(home, SimpleNamespace(peer=peer), request, "ann", 1000)
    seen = "load with it: h2 1.00" if reason == "lowest" else ""
    made._books.said = e.LimSaid(Verdict.THERE, HostId("h2"), "h2:1", reason, "", seen)
    made._books.note(e.BegunHere(HostId("h2"), reason))
    assert made.job.reason == kept


def test_any_other_command_runs(home):
    assert stays(home, ClientRequest([b"true"]))
    assert list(home.jobs.running) == ["h1-1"]


def test_one_that_lost_its_host_is_in_the_journal(home, caplog):
    caplog.set_level(logging.INFO, "lbd.lbm")
    lost = command(home, ClientRequest([b"true"]))
    lost.journey.phase = JourneyPhase.RUNNING
    lost._handle(e.ContactLost("lost contact with h2: it is silent"))
    said = [(one.job, one.getMessage()) for one in caplog.records]
    assert said == [("h1-1", "lost contact with h2: it is silent")]


@pytest.mark.parametrize(
    ("killed_by", "must_end", "status", "cause", "reason"),
    [
        ("", False, 143, "signalled", ""),
        ("ann@h2", True, 143, "cancelled", "cancelled by ann@h2"),
        ("ann@h2", True, 0, "cancelled", "cancelled by ann@h2"),
        ("ann@h2", False, 0, "signalled", ""),  # TERM alone may mean anything
    ],
)
def test_the_caller_hears_who_cancelled_the_command(
    home, killed_by, must_end, status, cause, reason
):
    ends = []
    made = command(home, ClientRequest([b"true"]))
    made._client.done = ends.append
    made.job.killed_by, made.job.must_end = killed_by, must_end
    made._do(e.Finish(e.CommandEnd(status, "signalled", "h2")))
    assert ends == [e.CommandEnd(status, cause, "h2", reason)]
