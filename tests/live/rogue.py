"""Hosts and users that speak our protocols, break their rules and send what they like."""

import contextlib
import getpass
import os
import socket
import threading
import tomllib

import grpc

from lbd.lbm.link import wire as tags
from lbd.lim.core import messages as m
from lbd.local import client_tags, frames
from lbd.net import convert
from lbd.net.gen import lbm_pb2

SECONDS = 40  # limit for any answer


def place_of(lab, host):
    """(address, LIM port, LBM port) of a host of the lab."""
    hosts = tomllib.loads(lab.paths(host).config.read_text())["cluster"]["hosts"]
    (row,) = (row for row in hosts if row["name"] == host)
    return row["address"], row["lim_port"], row["lbm_port"]


def key_of(lab, host="h1"):
    path = tomllib.loads(lab.paths(host).config.read_text())["security"]["key_file"]
    with open(path) as file:
        return file.read().strip()


class Peer:
    """A host with the cluster's key that talks to one host of the lab."""

    def __init__(self, lab, target, name="h2", **headers):
        address, lim_port, lbm_port = place_of(lab, target)
        self.name = name
        self.headers = (("lbd-key", key_of(lab)), ("lbd-host", name), *headers.items())
        self._lim = grpc.insecure_channel(f"{address}:{lim_port}")
        self._lbm = grpc.insecure_channel(f"{address}:{lbm_port}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._lim.close()
        self._lbm.close()

    def deliver(self, body, incarnation=1, cluster=None):
        """The LIM's answer to a message, or to bytes; raises grpc.RpcError."""
        data = body
        if not isinstance(body, bytes):
            data = convert.encode(m.Message(cluster or "lbd-lab", self.name, incarnation, body))
        call = self._lim.unary_unary("/lbd.v1.Lim/Deliver")
        return convert.decode(call(data, timeout=SECONDS, metadata=self.headers))

    def converse(self, messages, timeout=SECONDS):
        """Yields (conversation, tag, body) of each message that the LBM sends on a stream of
        `messages`."""
        done = threading.Event()

        def sent():
            yield from messages
            done.wait(timeout)  # the end of the stream would end the commands

        call = self._lbm.stream_stream("/lbd.v1.Lbm/Run")(
            sent(), timeout=timeout, metadata=self.headers
        )
        try:
            for message in call:
                for number, tag, body in tags.unpack(message):
                    yield number, tag, bytes(body)
        finally:
            done.set()
            call.cancel()


def run_request(job, *argv, **fields):
    """A RunRequest as bytes, of the user that runs the tests."""
    request = {
        "job_id": job, "origin": "h2", "user": getpass.getuser(), "uid": os.geteuid(),
        "argv": [word.encode() for word in argv], "environment": [b"PATH=/usr/bin:/bin"],
        "directory": b"/", "umask": 0o022,
    } | fields  # fmt: skip
    return lbm_pb2.RunRequest(**request).SerializeToString()


def connect(lab, host, name):
    """Connects to a Unix socket of a host."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(SECONDS)
    try:
        sock.connect(str(lab.paths(host).socket(name)))
    except OSError:
        sock.close()
        raise
    return sock


def client_request(*argv, **more):
    """The fields of RUN, for `-H h2` unless `host` names another host."""
    pairs = [(client_tags.ARGUMENT, word.encode()) for word in argv]
    here = os.getcwdb()
    given = {"MODE": b"host", "HOST": b"h2", "DIRECTORY": here, "CLOSED_FDS": b"7"} | more
    pairs += [(getattr(client_tags, key), value) for key, value in given.items()]
    return b"".join(frames.field(key, value) for key, value in pairs)


def frames_of(sock):
    """Yields frames as they come, until the other side hangs up."""
    split = frames.Splitter(1 << 26)
    with contextlib.suppress(ConnectionError):
        while data := sock.recv(1 << 16):
            yield from split.feed(data)
