"""Canned answers of a LIM and an LBM, and a server that gives them."""

import socketserver

from lbd.local import frames
from lbd.local import json_socket as local

HOST = {
    "name": "h1", "address": "127.0.0.2", "state": "up", "index": 0.5,
    "queues": {"cpu": 1.0, "io": 0.0, "memory": 0.0}, "utilisation": 0.25, "cores": 2.0,
    "speed": 1.0, "age_s": 0.2, "slots": {"total": 2, "used": 1}, "tier": None,
    "jobs": {"local": 3, "foreign": 1},
}  # fmt: skip
DOWN = {
    **HOST, "name": "h2", "state": "down", "index": None, "utilisation": None, "age_s": None,
    "why_down": "unheard for 31 s",
}  # fmt: skip
STATUS = {
    "self": "h1",
    "cluster": {"name": "lab", "algorithm": "GLOBAL", "centre": "h1", "dispatcher": None},
    "hosts": [HOST, DOWN],
    "params": {"lim.min_gain": 0.1},
}
JOB = {
    "id": "h1-7", "name": "", "command": ["cc", "-c", "a b.c"], "user": "ann", "origin": "h1",
    "host": "h2", "state": "running", "attempt": 1, "tier": None, "exit_status": None,
    "submitted": 1.0, "started": 2.0, "finished": None, "cpu_s": 0.5, "slots": 1,
    "array_index": None, "reason": "lowest",
}  # fmt: skip


class Canned(socketserver.ThreadingUnixStreamServer):
    """Answers each op with its canned reply and records the requests."""

    daemon_threads = True

    def __init__(self, path, answers):
        self.answers = answers
        self.asked = []
        super().__init__(str(path), Answerer)


class Answerer(socketserver.BaseRequestHandler):
    def handle(self):
        split = frames.Splitter(1 << 20)
        while data := self.request.recv(1 << 16):
            for frame in split.feed(data):
                request = local.decode(*frame)
                self.server.asked.append(request)
                answer = self.server.answers[request["op"]]
                answer = answer(request) if callable(answer) else {"ok": True, **answer}
                self.request.sendall(local.encode({"id": request["id"], **answer}))
