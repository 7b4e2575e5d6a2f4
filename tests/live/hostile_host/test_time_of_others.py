"""A compromised host tries to make others seem down, or to keep their daemons busy."""

import threading
import time
from functools import partial

import grpc
import pytest
from cluster import FAST, Lab
from rogue import run_request
from trust import DELIVER, Stranger, authority_on, files_of

from lbd.lbm.link import wire as tags
from lbd.net.release import HEADER
from lbd.net.transport import HOST_HEADER

TOO_NEW = "99 98 9.0 "
RUN = "/lbd.v1.Lbm/Run"
STREAMS, BATCH = 4, 4000
GO_ON = b"\x12"  # SIGCONT, which has no effect here

# A machine so busy that a ping or a handshake takes long must not end what is asked meanwhile.
SETTINGS = (*FAST, "lbm.orphan_after_s=60", "lbm.connect_timeout_s=10")


LAB = partial(Lab.up, 3, "none", "--tls", settings=SETTINGS)


@pytest.fixture(scope="module")
def h2(lab):
    return Stranger(authority_on(lab).certificate, files_of(lab, "h2").read_credentials())


def test_no_call_makes_another_host_look_down(lab, h2):
    """h3 was once down for as long as h2 called in its name, and h2 could go on once revoked."""
    lab.wait_until(lambda: lab.states("h1")["h3"] == "up", "h3 is up")
    metadata = ((HOST_HEADER, "h3"), (HEADER, TOO_NEW))
    said = set()
    with h2.channel(lab, "h1", 7901) as channel:
        for _ in range(50):
            with pytest.raises(grpc.RpcError) as refused:
                channel.unary_unary(DELIVER)(b"", timeout=60, metadata=metadata)
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            rows = lab.ask("h1", "lim", "status", timeout_s=60.0)["hosts"]
            said |= {row["why_down"] for row in rows if row["name"] == "h3"}
    assert not [why for why in said if "upgrade" in why], said


def test_what_is_said_of_a_command_holds_up_nobody(lab, h2):
    """The host sends signals for its own command, 4000 a message, on several streams."""
    until_s, begun, stop = time.monotonic() + 300.0, [], threading.Event()

    def flood(number):
        request = run_request(f"h2-9{number}", "sleep", "1000", closed_fds=7, forced=True)
        signals = tags.pack_batch([tags.pack(1, tags.SIGNAL, GO_ON)] * BATCH)
        started = threading.Event()

        def say():
            yield tags.pack(1, tags.RUN, request)
            started.wait(60)
            while not stop.is_set() and time.monotonic() < until_s:
                yield signals

        with h2.channel(lab, "h1", 7902) as channel:
            metadata = ((HOST_HEADER, "h2"),)
            call = channel.stream_stream(RUN)(say(), timeout=300, metadata=metadata)
            for answer in call:  # it may have to wait for a moment
                if any(tag == tags.STARTED for _, tag, _ in tags.unpack(answer)):
                    begun.append(number)
                    started.set()
                    break
            stop.wait(300)
            call.cancel()

    threads = [threading.Thread(target=flood, args=(number,)) for number in range(STREAMS)]
    for thread in threads:
        thread.start()
    try:
        lab.wait_until(lambda: len(begun) == STREAMS, "their commands run")
        for _ in range(3):
            assert lab.served("h1", "h1") == (0, "served\n", "")
            assert lab.served("h3", "h1") == (0, "served\n", "")
        lab.wait_until(lambda: set(lab.states("h3").values()) == {"up"}, "all are up")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
