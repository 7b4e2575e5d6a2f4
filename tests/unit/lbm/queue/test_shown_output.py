"""The output of ended jobs, as `lbrun -q` shows it."""

import asyncio
from types import SimpleNamespace

import pytest

from lbd.lbm.queue import shown_output
from lbd.lbm.queue.shown_output import ShownOutput
from lbd.local import client_tags as tags
from lbd.net.gen import dispatch_pb2 as pb

WORDS = b"what it printed"


class Spools:
    """Those of hosts of which one never ends an answer, and says nothing more."""

    def __init__(self):
        self.asked = []

    async def logs(self, host, request):
        self.asked.append((host, int(request.job)))
        at = request.output_at
        if at < len(WORDS):
            yield pb.LogsPiece(output=WORDS[at:], output_at=len(WORDS))
        while host != "honest":
            await asyncio.sleep(0.001)
            if host == "trickles":
                yield pb.LogsPiece(output_at=len(WORDS))
            elif host == "slow" and at < len(WORDS) + 5:
                await asyncio.sleep(0.06)
                yield pb.LogsPiece(output=b"x", output_at=(at := max(at, len(WORDS)) + 1))
            elif host == "slow":
                return


@pytest.fixture
def shown(monkeypatch):
    monkeypatch.setattr(shown_output, "SILENT_S", 0.15)
    monkeypatch.setattr(shown_output, "SILENT_AGAIN_S", 0.01)
    said = []

    async def send(tag, body):
        said.append((tag, body))

    return ShownOutput(SimpleNamespace(spools=Spools(), said=said), "ann", "1ed9e4", send)


def ended(number, host):
    return pb.JobInfo(id=number, state="done", attempt=1, host=host, started=1.0)


@pytest.mark.parametrize("host", ["hangs", "trickles"])
async def test_a_host_whose_answer_does_not_end_keeps_back_nothing_else(shown, host):
    """One that was taken over kept `lbrun -q` from ending, and the output of all other tasks."""
    async with asyncio.timeout(20):
        for number, where in ((1, host), (2, "honest"), (3, host)):
            await shown.show(ended(number, where), follow=False)
    assert [body for tag, body in shown.queue.said if tag == tags.OUTPUT] == [WORDS] * 3
    warned = [body.decode() for tag, body in shown.queue.said if tag == tags.WARN]
    assert len(warned) == 2
    assert f"{host} sends nothing more of its output" in warned[0]
    assert "lbctl logs 1" in warned[0]
    assert [job for _, job in shown.queue.spools.asked] == [1, 2, 3], "it is not asked again"


async def test_output_that_comes_slowly_is_waited_for(shown):
    await shown.show(ended(1, "slow"), follow=False)
    assert (
        b"".join(body for tag, body in shown.queue.said if tag == tags.OUTPUT) == WORDS + b"xxxxx"
    )
    assert not [body for tag, body in shown.queue.said if tag == tags.WARN]


async def test_a_slow_reader_is_no_silent_host(shown, monkeypatch):
    async def send_slowly(tag, body):
        await asyncio.sleep(0.3)
        shown.queue.said.append((tag, body))

    shown.send = send_slowly
    await shown.show(ended(1, "honest"), follow=False)
    assert shown.queue.said == [(tags.OUTPUT, WORDS)]
