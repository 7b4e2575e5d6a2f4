"""A local user tries to see what the queued commands of others print."""

import os
import subprocess

import pytest

from tests.live.test_users import ANN, BOB, as_user

pytestmark = pytest.mark.root

SECRET = "the secret of Bob: 4711"


def queue(lab, user, *command):
    done = lab.run("h1", *as_user(user), "lbrun", "-q", *command)
    assert done.returncode == 0, done
    return done.stdout


def outputs(lab):
    return [path for path in lab.root.glob("**/spool/*/*") if path.suffix in (".out", ".err")]


def as_ann(shell, *descriptors):
    return subprocess.run(
        [*as_user(ANN), "sh", "-c", shell], pass_fds=descriptors, capture_output=True, text=True
    ).stdout


def test_a_descriptor_of_ones_own_output_never_shows_anothers(queue_lab):
    """Every job can open its own output with O_PATH and pass the descriptor to a process that
    stays. It is neither a reader nor a writer, so no file lease detects it."""
    queue(queue_lab, ANN, "true")
    kept = [os.open(path, os.O_PATH) for path in outputs(queue_lab)]
    assert kept
    try:
        said = queue(queue_lab, BOB, "sh", "-c", f"echo {SECRET}; echo {SECRET} >&2; sleep 0.1")
        assert SECRET in said
        shell = "; ".join(f"cat /proc/self/fd/{number}" for number in kept)
        assert SECRET not in as_ann(shell, *kept)
        assert any(SECRET in path.read_text() for path in outputs(queue_lab))
    finally:
        for descriptor in kept:
            os.close(descriptor)


def test_a_job_writes_its_output_by_name_and_no_other_user_may(queue_lab):
    said = queue(queue_lab, BOB, "sh", "-c", f"echo {SECRET} >/dev/stdout; echo x >/dev/stderr")
    assert said == f"{SECRET}\n"
    kept = [os.open(path, os.O_PATH) for path in outputs(queue_lab) if path.stat().st_size]
    try:
        shell = "; ".join(f"cat /proc/self/fd/{n}; echo ann >>/proc/self/fd/{n}" for n in kept)
        assert SECRET not in as_ann(shell, *kept)
        assert not any("ann" in path.read_text() for path in outputs(queue_lab))
    finally:
        for descriptor in kept:
            os.close(descriptor)
