"""What `lbctl advise` recommends, in words."""

from lbd.cli.ctl.advise import advice
from lbd.sim.advice import Finding, Trial

NOW = Finding(Trial("GLOBAL"), 3.0, 0.0, 0.0, 0.3, 0.1, 0.071, 0.0)
CHOSEN = Finding(Trial("NOLB"), 2.9, 0.048, 0.01, 0.0, 0.0, 0.04, 0.0)
FOUND = (
    "NOLB would have saved 4.8% (± 1.0%) of the mean response time, "
    "with 0.031 fewer messages per host and second"
)


def test_it_says_what_to_type():
    first, command = advice(NOW, CHOSEN)
    assert first == f"{FOUND}; to use it:"
    assert command == "    lbctl algorithm NOLB      # back: lbctl algorithm --reset"


def test_jobs_that_are_no_basis_give_nothing_to_type():
    """Whoever reads the last line types it."""
    (only,) = advice(NOW, CHOSEN, is_short=True)
    assert only == f"{FOUND}; too few hours to judge by: ask again after a day like others"
