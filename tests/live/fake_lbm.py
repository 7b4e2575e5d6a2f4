"""An LBM that sends what a test tells it to, to see how a client reacts."""

import contextlib
import os
import socket
import subprocess
import threading

from lbd.local.frames import Splitter

SECONDS = 20  # limit for anything a client does here


class FakeLbm:
    """Listens in `root`/run and serves each client by `say(connection, first frame)`."""

    def __init__(self, root):
        (root / "run").mkdir()
        self.config = root / "lbd.toml"
        self.config.write_text(f'[host]\nname = "h1"\nruntime_dir = "{root / "run"}"\n')
        self.requests = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(root / "run/lbm.sock"))
        self._listener.listen()

    def close(self):
        self._listener.close()

    def run(self, argv, say, reads=True, times=1, stdin=subprocess.DEVNULL, **environment):
        """Runs `argv` to its end as one of our clients, which connects `times` times."""
        served = threading.Thread(target=self._serve, args=(say, reads, times))
        served.start()
        try:
            env = {"PATH": os.environ["PATH"], "LBD_CONFIG": str(self.config), **environment}
            return subprocess.run(argv, env=env, capture_output=True, timeout=SECONDS, stdin=stdin)
        finally:
            served.join(SECONDS)
            self._listener.settimeout(0)
            with contextlib.suppress(BlockingIOError):
                while True:  # nothing else that connected may be mistaken for the next client
                    self._listener.accept()[0].close()

    def _serve(self, say, reads, times):
        for _ in range(times):
            self._listener.settimeout(SECONDS)
            connection, _ = self._listener.accept()
            connection.settimeout(SECONDS)
            with connection, contextlib.suppress(OSError):
                frame = self._first_frame(connection) if reads else None
                self.requests.append(frame)
                say(connection, frame)

    def _first_frame(self, connection):
        split = Splitter(1 << 26)
        while data := connection.recv(1 << 16):
            for frame in split.feed(data):
                return frame
        return None
