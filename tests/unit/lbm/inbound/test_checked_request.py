"""Checks of another host's requests."""

import contextlib

import pytest

from lbd.lbm.inbound.request import fault_of
from lbd.lbm.session.request import WORDS_MAX, read_request
from lbd.local import client_tags, frames
from lbd.net.gen import lbm_pb2


@pytest.mark.parametrize("where", ["send", "fetch"])
def test_the_paths_of_a_stage_count_as_words(where):
    """They take two bytes each on the wire, and five in the order: too many of them once made the
    keeper hang up on its LBM, which ended everybody's commands."""
    few, many = (lbm_pb2.WorkdirStep(step="unpack", **{where: [b""] * n}) for n in (9, WORDS_MAX))
    request = {"job_id": "h2-1", "origin": "h2", "user": "ann", "argv": [b"true"]}
    assert fault_of(lbm_pb2.RunRequest(workdir=few, **request)) == ""
    assert "stage" in fault_of(lbm_pb2.RunRequest(workdir=many, **request))


@pytest.mark.parametrize(
    ("fetch", "holds"),
    [
        ([b"x" * 4096], True),
        ([b"x" * 4097], False),
        ([b"%h" * 2000] * 300, False),
        ([b"x"] * 1000, True),
        ([b"x"] * 1001, False),
    ],
    ids=["long", "too long", "too much", "many", "too many"],
)
def test_names_to_be_fetched_are_names_of_files(fetch, holds):
    """They grow when placeholders are filled in, so megabytes would become gigabytes; and each task
    of an array goes through all of them: 190,000 stopped an LBM for two seconds at a time."""
    request = lbm_pb2.RunRequest(
        job_id="h2-1", origin="h2", user="ann", argv=[b"true"],
        workdir=lbm_pb2.WorkdirStep(fetch=fetch),
    )  # fmt: skip
    assert (fault_of(request) == "") is holds
    fields = [(client_tags.ARGUMENT, b"true")] + [(client_tags.FETCH, path) for path in fetch]
    with (
        contextlib.nullcontext()
        if holds
        else pytest.raises(ValueError, match=r"too long|more than 1000")
    ):
        read_request(b"".join(frames.field(key, value) for key, value in fields))


def test_a_directory_is_the_name_of_one():
    """It is split at each slash: 8 MiB of them would have stopped an LBM for days."""
    for directory, holds in ((b"/a" * 2048, True), (b"/a" * 2049, False)):
        request = lbm_pb2.RunRequest(
            job_id="h2-1", origin="h2", user="ann", argv=[b"true"], directory=directory
        )
        assert (fault_of(request) == "") is holds
        body = frames.field(client_tags.ARGUMENT, b"true")
        body += frames.field(client_tags.DIRECTORY, directory)
        with contextlib.nullcontext() if holds else pytest.raises(ValueError, match="directory"):
            read_request(body)
