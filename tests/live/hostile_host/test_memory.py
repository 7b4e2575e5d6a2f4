"""A host cannot fill the LBM's memory with data it sends ahead of what can run."""

from functools import partial

from cluster import FAST, Lab
from rogue import Peer, run_request

from lbd.lbm.link import wire as tags
from lbd.net.gen import lbm_pb2

MIB = 1 << 20
BUDGET = 13 * MIB
# A machine so busy that a ping takes long must not end the stream before all is answered.
SETTINGS = (
    "lbm.slots=1", "admission.slots=1", "lbm.named_limit_s=60", "lbm.orphan_after_s=60"
)  # fmt: skip

LAB = partial(Lab.up, 2, settings=(*FAST, *SETTINGS, f"lbm.host_request_bytes={BUDGET}"))


def run_long(number):
    environment = [b"PATH=/usr/bin:/bin", b"X=" + bytes(b"x" * (100 << 10))] + [
        b"Y%d=" % n + b"y" * (100 << 10) for n in range(9)
    ]
    request = run_request(
        f"h9-{number}", "sleep", "60", origin="h9", forced=True, environment=environment
    )
    return tags.pack(number, tags.RUN, request)


def test_long_requests_wait_within_a_budget_and_the_rest_are_refused(lab):
    messages = [run_long(number) for number in range(1, 41)]
    with Peer(lab, "h1", name="h9") as peer:
        refused, taken = {}, set()
        for number, tag, body in peer.converse(messages, timeout=60):
            if tag == tags.REFUSED:
                refused[number] = lbm_pb2.Refused.FromString(body).reason
            elif tag in (tags.QUEUED, tags.STARTED, tags.FAILED):
                taken.add(number)
            if len(refused) + len(taken) == len(messages):
                break
        lab.assert_all_served()
    assert set(refused.values()) == {
        "too many long requests at once (lbm.host_request_bytes, hosts_request_bytes)"
    }
    assert 8 <= len(taken) <= BUDGET // MIB + 1
    lab.wait_until(lambda: not lab.jobs_alive(), "they are ended with their stream")
    with Peer(lab, "h1", name="h9") as peer:  # the budget that they held is free again
        for _, tag, _ in peer.converse([run_long(1)]):
            if tag in (tags.STARTED, tags.FAILED):
                break
            assert tag != tags.REFUSED


def test_input_for_a_command_that_waits_ends_that_command_alone(lab):
    """A command that waits for its slot takes only signals."""
    first, waits, ahead = (
        tags.pack(
            number, tags.RUN, run_request(f"h9-{number}", "sleep", "60", origin="h9", forced=True)
        )
        for number in (1, 2, 3)
    )
    flood = [tags.pack(2, tags.STDIN, bytes(30_000)) for _ in range(4)]
    with Peer(lab, "h1", name="h9") as peer:
        heard, talk = set(), peer.converse([first, waits, *flood, ahead])
        for number, tag, _ in talk:
            heard.add((number, tag))
            if heard >= {(1, tags.STARTED), (3, tags.QUEUED)}:
                break
        lab.wait_until(lambda: lab.ask("h1", "lbm", "status")["waiting"] == 1, "one waits")
        assert lab.ask("h1", "lbm", "status")["slots"]["used"] == 1
        talk.close()
    lab.wait_until(lambda: not lab.jobs_alive(), "they are ended with their stream")
