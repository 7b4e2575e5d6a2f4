"""The output of ended jobs, as `lbrun -q` shows it."""

import asyncio
from types import SimpleNamespace

import pytest

from lbd.lbm.queue import other_spools, shown_output
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
        if host == "tricky" and request.job == "2":
            return
        if at < len(WORDS):
            yield pb.LogsPiece(output=WORDS[at:], output_at=len(WORDS))
        while host != "honest":
            await asyncio.sleep(0.001)
            if host == "trickles":
                yield pb.LogsPiece(output_at=len(WORDS))
            elif host == "drips":
                yield pb.LogsPiece(output=b".", output_at=len(WORDS))
            elif host == "floods":
                yield pb.LogsPiece(output=b"." * 100_000, output_at=len(WORDS))
            elif host == "slow" and at < len(WORDS) + 5000:
                await asyncio.sleep(0.06)
                at = max(at, len(WORDS)) + 1000
                yield pb.LogsPiece(output=b"x" * 1000, output_at=at)
            elif host == "slow":
                return


@pytest.fixture
def shown(monkeypatch):
    monkeypatch.setattr(shown_output, "SILENT_S", 0.15)
    monkeypatch.setattr(shown_output, "SILENT_AGAIN_S", 0.01)
    monkeypatch.setattr(shown_output, "SLOWEST_BYTES_PER_S", 1000)
    monkeypatch.setattr(other_spools, "SPARE_BYTES", 0)
    said = []

    async def send(tag, body):
        said.append((tag, body))

    queue = SimpleNamespace(spools=Spools(), kept_bytes=10_000_000, said=said)
    return ShownOutput(queue, "ann", "1ed9e4", send)


def ended(number, host):
    return pb.JobInfo(id=number, state="done", attempt=1, host=host, started=1.0)


def printed(shown):
    return [body for tag, body in shown.queue.said if tag == tags.OUTPUT]


def warned(shown):
    return [body.decode() for tag, body in shown.queue.said if tag == tags.WARN]


WHY = {
    "hangs": "does not send the rest",
    "trickles": "sends its output in too many pieces",
    "drips": "sends its output in too many pieces",
    "floods": "sends more output than it may keep",
}


@pytest.mark.parametrize("host", list(WHY))
async def test_a_host_whose_answer_does_not_end_keeps_back_nothing_else(shown, host, monkeypatch):
    """One that was taken over kept `lbrun -q` from ending, and the output of all other tasks: it
    said nothing, or sent a byte each two seconds, or more than any attempt may print."""
    if host != "hangs":
        monkeypatch.setattr(shown_output, "SILENT_S", 20.0)
    async with asyncio.timeout(20):
        for number, where in ((1, host), (2, "honest"), (3, host)):
            await shown.show(ended(number, where), follow=False)
    assert printed(shown).count(WORDS) == 3
    assert len(b"".join(printed(shown))) <= 2 * 10_100_000 + 3 * len(WORDS)
    first, again = warned(shown)
    assert f"{host} {WHY[host]}" in first
    assert "lbctl logs 1" in first
    assert "lbctl logs 3" in again
    assert [job for _, job in shown.queue.spools.asked] == [1, 2, 3], "it is not asked again"


async def test_a_host_that_did_not_end_an_answer_is_not_waited_for_again(shown, monkeypatch):
    """One that ended every other answer was waited for 20 s each time."""
    async with asyncio.timeout(20):
        monkeypatch.setattr(shown_output, "UNENDED_MAX", 1)
        await shown.show(ended(1, "tricky"), follow=False)
        monkeypatch.setattr(shown_output, "SILENT_S", 3600.0)
        for number in (2, 3):
            await shown.show(ended(number, "tricky"), follow=False)
    assert len(warned(shown)) == 2


async def test_a_host_that_stalled_once_and_then_ended_an_answer_has_all_the_time_again(shown):
    await shown.show(ended(1, "tricky"), follow=False)
    assert shown._unending
    await shown.show(ended(2, "tricky"), follow=False)
    assert not shown._unending


async def test_output_that_comes_slowly_is_waited_for(shown):
    await shown.show(ended(1, "slow"), follow=False)
    assert b"".join(printed(shown)) == WORDS + b"x" * 5000
    assert not warned(shown)


async def test_a_slow_reader_is_no_silent_host(shown, monkeypatch):
    async def send_slowly(tag, body):
        await asyncio.sleep(0.3)
        shown.queue.said.append((tag, body))

    shown.send = send_slowly
    await shown.show(ended(1, "honest"), follow=False)
    assert shown.queue.said == [(tags.OUTPUT, WORDS)]
