"""The id of this boot, by which a note tells whether it is from before."""

import pytest

from lbd.process import boot_clock
from lbd.process.boot_clock import boot_id


def test_it_stays_the_same_and_is_printable():
    assert boot_id() == boot_id()
    assert len(boot_id()) == 36


def test_without_it_nothing_is_claimed(monkeypatch):
    monkeypatch.setattr(boot_clock, "BOOT_ID", "/nowhere")
    with pytest.raises(OSError, match="nowhere"):
        boot_id()
