"""A queued job's output, piece by piece."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from lbd.lbm.queue import other_spools
from lbd.lbm.session.queue_output import piece_of
from lbd.local.json_socket import AWAY, Refusal
from lbd.net.gen import dispatch_pb2 as pb

KEPT_BYTES = 1 << 20


@pytest.mark.parametrize(
    ("size", "says"), [(1, "in too many pieces"), (1 << 17, "more output than it may keep")]
)
@pytest.mark.parametrize("state", ["done", "running"])
async def test_the_output_of_an_ended_attempt_has_an_end(monkeypatch, size, says, state):
    """A host that was taken over answered each question with more: `lbctl logs` never ended, and
    filled its user's disk."""
    monkeypatch.setattr(other_spools, "SPARE_BYTES", 0)
    job = pb.JobInfo(id=1, state=state, attempt=1, started=1.0, is_final=True)
    job.attempts.append(pb.AttemptInfo(number=1, host="h2", state=state))

    async def logs(_host, asked):
        yield pb.LogsPiece(output=b"." * size, output_at=asked.output_at + size)

    queue = SimpleNamespace(spools=SimpleNamespace(logs=logs), kept_bytes=KEPT_BYTES)
    question, had_bytes = {"at": [0, 0], "seen_attempt": 1}, 0
    with nullcontext() if state == "running" else pytest.raises(Refusal, match=says) as raised:
        for _ in range(100):
            question["at"] = (await piece_of(job, question, queue))["at"]
            had_bytes += size
    if state == "done":
        assert raised.value.code == AWAY
        assert had_bytes <= KEPT_BYTES
    else:
        assert had_bytes == 100 * size


@pytest.mark.parametrize("at", [[1], [0, 0, 0, 0], [0, -1], [0, 0, 1 << 62], [0, "1"], 7])
async def test_only_what_the_last_answer_said_is_believed(at):
    job = pb.JobInfo(id=1, state="done", attempt=1, started=1.0)
    job.attempts.append(pb.AttemptInfo(number=1, host="h2", state="done"))
    with pytest.raises(ValueError, match="the last answer"):
        await piece_of(job, {"at": at, "seen_attempt": 1}, SimpleNamespace())
