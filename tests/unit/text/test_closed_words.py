"""Why hosts take no commands, in words."""

from lbd.model import Closed
from lbd.text.closed_words import OF_HOSTS, WORDS, counted_reasons


def test_there_are_words_for_every_reason():
    assert set(WORDS) == set(OF_HOSTS) == set(Closed)
    assert Closed.numbered(7) is Closed.OWNER
    assert Closed.numbered(999) is Closed.UNSAID, "of a later release"


def test_reasons_are_counted():
    reasons = [Closed.DRAINED, Closed.OWNER, Closed.DRAINED, None]
    assert counted_reasons(reasons) == (
        "the owner is back on 1 host, 2 hosts drained, 1 host out of contact"
    )
