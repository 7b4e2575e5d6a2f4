"""What an LBM tells the dispatcher of its keeper."""

import os
import subprocess
from types import SimpleNamespace

from lbd.lbm.queue.keeper_claim import claim, life_of


def link(*jobs, has=(), pid=7):
    about = SimpleNamespace(life="k")
    return SimpleNamespace(pid=pid, about=about, jobs=[*jobs], has=dict.fromkeys(has, b""))


def test_a_keeper_with_attempts_of_an_earlier_lbm_proves_nothing():
    assert claim(link(), set()) == "k"
    assert claim(link("12.1", "h1-26", "12_7.3"), {"12.1", "12_7.3"}) == "k"
    assert claim(link("12.1"), {"12.2"}) == ""
    assert claim(link("12_7.1"), {"12.1"}) == ""
    assert claim(link(has=["12.1"]), set()) == ""  # not taken over yet
    assert claim(link(pid=0), set()) == ""  # it is gone


def test_a_process_is_named_by_more_than_its_number():
    ours = life_of(os.getpid())
    assert ours == life_of(os.getpid())
    with subprocess.Popen(["sleep", "600"]) as other:
        theirs = life_of(other.pid)
        other.kill()
    assert len({"", ours, theirs}) == 3
    assert life_of(other.pid) == life_of(0) == ""  # it has ended; it is not known
