"""A compromised host takes queued jobs, says that it holds them, and begins none."""

import threading
from functools import partial

import grpc
from cluster import FAST, Lab
from trust import Stranger, authority_on, files_of

from lbd.net.gen import dispatch_pb2 as pb

QUEUE_PORT, WORK = 7903, "/lbd.v1.Dispatch/Work"
BEAT_S, SLOTS = 0.3, 28
SETTINGS = (*FAST, "dispatch.lease_s=3.0", "dispatch.begin_timeout_s=10.0")
LAB = partial(Lab.up, 2, "none", "--tls", "--mode", "fcfs", settings=SETTINGS)


class Hoarder:
    """The connection of a host without load and with many slots to the dispatcher."""

    def __init__(self, channel):
        self.held, self.is_over = {}, threading.Event()
        self.call = channel.stream_stream(WORK)(
            self._heartbeats(), metadata=(("lbd-host", "h2"),), timeout=120
        )
        self.reading = threading.Thread(target=self._read)
        self.reading.start()

    def _heartbeats(self):
        number = 0
        while not self.is_over.wait(BEAT_S):
            number += 1
            held = [pb.Held(job=job, attempt=n) for job, n in self.held.copy()]
            beat = pb.Heartbeat(number=number, slots=SLOTS, open_slots=SLOTS, held=held)
            yield pb.WorkUp(heartbeat=beat).SerializeToString()

    def _read(self):
        try:
            for data in self.call:
                down = pb.WorkDown.FromString(data)
                for start in down.starts:
                    self.held[start.job, start.attempt] = True
                for stop in down.stops:  # those that are no longer its own
                    if stop.signal == 9:
                        self.held.pop((stop.job, stop.attempt), None)
        except grpc.RpcError:
            pass

    def end(self):
        self.is_over.set()
        self.call.cancel()
        self.reading.join()


def test_jobs_that_it_takes_and_never_begins_run_elsewhere(lab):
    """With 28 slots and no load it was given nearly all, and kept them."""
    lab.kill("h2", "lbm")
    lab.run("h1", "lbctl", "drain", "h1", check=True)
    h2 = Stranger(authority_on(lab).certificate, files_of(lab, "h2").read_credentials())
    with h2.channel(lab, "h1", QUEUE_PORT) as channel:
        hoarder = Hoarder(channel)
        try:
            job = lab.run("h1", "lbrun", "-d", "--array", "1-8", "true", check=True).stdout.strip()
            lab.wait_until(lambda: len(hoarder.held) == 8, "it has taken all")
            lab.run("h1", "lbctl", "undrain", "h1", check=True)
            lab.run("h1", "lbctl", "wait", job, check=True)
            said = lab.run("h1", "lbctl", "job", f"{job}_1", check=True).stdout
            assert "h2 did not begin it within 10 s" in said, said
        finally:
            hoarder.end()
