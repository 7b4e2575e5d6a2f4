"""How long `lbrun -q` waits for a dispatcher that is away."""

from lbd.lbm.attached import Patience


def test_a_dispatcher_that_was_silent_for_long_is_waited_for_all_the_same():
    patience = Patience(60.0)
    patience.heard()  # at 0 s, and then nothing: the job printed nothing and went on
    assert [patience.ends(now_s) for now_s in (7200.0, 7259.0, 7260.0)] == [False, False, True]


def test_each_absence_counts_by_itself():
    patience = Patience(60.0)
    assert not patience.ends(10.0)
    patience.heard()
    assert not patience.ends(100.0)
    assert not patience.ends(159.0)
    assert patience.ends(160.0)


def test_an_absence_lasts_from_the_first_time_it_was_asked_in_vain():
    patience = Patience(60.0)
    assert patience.lasts_s(100.0) == 0.0
    assert patience.lasts_s(103.0) == 3.0
    patience.heard()
    assert patience.lasts_s(200.0) == 0.0
