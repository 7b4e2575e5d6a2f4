"""What an LBM tells the dispatcher of its keeper."""

import os
import subprocess

from lbd.lbm.queue.keeper_claim import claim, life_of


def test_a_keeper_with_attempts_of_an_earlier_lbm_proves_nothing():
    assert claim("k", [], set()) == "k"
    assert claim("k", ["12.1", "h1-26", "12_7.3"], {"12.1", "12_7.3"}) == "k"
    assert claim("k", ["12.1"], {"12.2"}) == ""
    assert claim("k", ["12_7.1"], {"12.1"}) == ""


def test_a_process_is_named_by_more_than_its_number():
    ours = life_of(os.getpid())
    assert ours == life_of(os.getpid())
    with subprocess.Popen(["sleep", "600"]) as other:
        theirs = life_of(other.pid)
        other.kill()
    assert len({"", ours, theirs}) == 3
    assert life_of(other.pid) == life_of(0) == ""  # it has ended; it is not known
