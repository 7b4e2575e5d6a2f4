"""Two ledgers have jobs of the same numbers; what each has printed is kept."""

import os

from lbd.lbm.queue.kept_outputs import kept_in
from tests.unit.lbm.queue.test_spool import LIMIT_BYTES, Spool, read_all, write


def test_each_ledger_has_its_own_output_of_a_job_of_that_number(tmp_path):
    """A host that was named dispatcher for seconds had 7.1 begin, and what the user's 7.1 had
    printed a day before was gone."""
    spool, ledgers = Spool(str(tmp_path), LIMIT_BYTES), ["0a"]
    spool.files.ledger_of = lambda *_: ledgers[-1]
    os.close(write(spool, b"ours"))
    spool.ended("7", 1)
    ledgers.append("0b")
    assert not spool.exists("7", 1)
    os.close(write(spool, b"another's"))
    spool.ended("7", 1)
    assert read_all(spool) == (b"another's", 0)
    ledgers.pop()
    assert read_all(spool) == (b"ours", 0)
    assert sorted(kept.path for kept in kept_in(spool.root)) == [
        str(tmp_path / f"spool/{ledger}-0/7.1.out") for ledger in ("0a", "0b")
    ]


def test_output_is_found_before_a_dispatcher_has_been_reached(tmp_path):
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    spool.files.ledger_of = lambda *_: "0a"
    os.close(write(spool, b"ours"))
    again = Spool(str(tmp_path), LIMIT_BYTES)
    assert again.exists("7", 1)
    assert read_all(again) == (b"ours", 0)
