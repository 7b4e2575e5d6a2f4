"""The messages of a step that packs or unpacks, wherever it ran."""

import os

import pytest

from lbd.lbm.staging.step import complaint_in


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (b"a/b: No such file or directory\n", "a/b: No such file or directory"),
        (b"", "ended with 3"),
        (b"\n", "ended with 3"),
    ],
)
def test_a_step_reports_why_it_failed_or_its_status(said, shown):
    assert complaint_of(said) == shown


@pytest.mark.parametrize("said", [b"\x1b[2Ja: gone", b"a\nb: gone", b"\xff\x00: gone"])
def test_the_message_from_another_host_is_one_printable_line(said):
    """It is shown to the user, and names of files may be anything."""
    assert complaint_of(said).isprintable()


def complaint_of(said):
    descriptor = os.memfd_create("complaint")
    try:
        os.write(descriptor, said)
        return complaint_in(descriptor, 3)
    finally:
        os.close(descriptor)
