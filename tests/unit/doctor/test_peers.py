"""What the doctor says of other hosts."""

from lbd.doctor.peers import fix_of
from lbd.keeper.run_as import ROOT_REFUSED


def test_root_is_told_to_ask_as_somebody_else() -> None:
    assert "ordinary user" in fix_of(ROOT_REFUSED)
    assert "account with the same name" in fix_of("no user ann here")
