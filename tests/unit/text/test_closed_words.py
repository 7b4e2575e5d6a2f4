"""Why hosts accept no commands, in words."""

from lbd.model import Closed
from lbd.text.closed_words import OF_HOSTS, WORDS, closed_words, counted_reasons


def test_every_reason_has_words():
    assert set(WORDS) == set(OF_HOSTS) == set(Closed)
    assert Closed.numbered(7) is Closed.OWNER
    assert Closed.numbered(999) is Closed.UNSAID, "of a later release"


def test_reasons_are_counted():
    reasons = [(one, "") for one in (Closed.DRAINED, Closed.OWNER, Closed.DRAINED, None)]
    assert counted_reasons(reasons) == (
        "the owner is back on 1 host, 2 hosts drained, 1 host out of contact"
    )


def test_opening_hours_are_given_where_they_are_known():
    hours = Closed.HOURS
    assert closed_words(hours) == "it accepts no commands at this time (admission.when)"
    assert closed_words(hours, "19:00") == "it accepts no commands until 19:00 (admission.when)"
    assert closed_words(Closed.OWNER, "19:00") == "its owner is back"
    assert closed_words(None) == "out of contact"
    assert counted_reasons([(hours, "19:00"), (hours, "20:00"), (hours, "19:00")]) == (
        "2 hosts closed until 19:00 (admission.when), 1 host closed until 20:00 (admission.when)"
    )
