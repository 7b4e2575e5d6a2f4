"""Callers and servers that should not be believed, for the tests of trust between hosts."""

import socket
import subprocess
import time
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass

import grpc
import psutil

from lbd.config.load import load
from lbd.lbm.link import wire as job_stream
from lbd.lim.core import messages as m
from lbd.local import json_socket as local
from lbd.model import HostId
from lbd.net import convert
from lbd.net.gen import lbm_pb2
from lbd.net.transport import HOST_HEADER
from lbd.trust import certificates
from lbd.trust.authority import Authority
from lbd.trust.files import Credentials, HostFiles, authority_dir, host_files
from lbd.trust.names import ANY_HOST, names_of

TIMEOUT_S = 5
DELIVER, JOBS, RUN = "/lbd.v1.Lim/Deliver", "/lbd.v1.Lbm/Jobs", "/lbd.v1.Lbm/Run"


def authority_on(lab, host="h1") -> Authority:
    config = load(str(lab.paths(host).config))
    return Authority(authority_dir(config), config.tls.certificate_s)


def files_of(lab, host) -> HostFiles:
    return host_files(load(str(lab.paths(host).config)))


def made_for(authority: Credentials, host, life_s=3600.0, issue=0) -> Credentials:
    """A key and a certificate of any authority, for any host, valid for `life_s`."""
    key = certificates.new_key()
    public = certificates.private_key(key).public_key()
    names = tuple(names_of(host, issue))
    now_s = time.time() + min(0.0, life_s) - 100.0  # an expired one began earlier
    chain = certificates.signed(authority, public, host, names, now_s, abs(life_s) + 100.0)
    if life_s < 0:
        chain = certificates.signed(authority, public, host, names, now_s, 100.0 + life_s)
    return Credentials(key, chain)


@dataclass
class Stranger:
    """A caller with these credentials (None: without any) and this idea of the authority."""

    root: bytes
    credentials: Credentials | None
    says: str = "h2"  # the host it claims to be

    @contextmanager
    def channel(self, lab, host, port):
        own = self.credentials
        pair = (own.key, own.chain) if own is not None else (None, None)
        credentials = grpc.ssl_channel_credentials(self.root, *pair)
        options = [("grpc.ssl_target_name_override", ANY_HOST)]
        target = f"{lab.record.plan.address(host)}:{port}"
        with grpc.secure_channel(target, credentials, options) as channel:
            yield channel

    def call(self, lab, host, port, method, data) -> tuple[grpc.StatusCode, str]:
        """(OK, "") or the code and details of the answer."""
        with self.channel(lab, host, port) as channel:
            try:
                metadata = ((HOST_HEADER, self.says),)
                channel.unary_unary(method)(data, timeout=TIMEOUT_S, metadata=metadata)
            except grpc.RpcError as problem:
                return problem.code(), problem.details()
        return grpc.StatusCode.OK, ""

    def ping(self, lab, host):
        return self.call(lab, host, 7901, DELIVER, message(lab, self.says, m.Ping()))

    def jobs(self, lab, host):
        return self.call(lab, host, 7902, JOBS, lbm_pb2.JobsRequest().SerializeToString())

    def run(self, lab, host, origin, argv=(b"true",)):
        """The first answer to a command: its tag and its body."""
        request = lbm_pb2.RunRequest(
            job_id=f"{origin}-7", origin=origin, user="root", uid=0, argv=argv, directory=b"/",
            umask=0o22, closed_fds=7, forced=True,
        )  # fmt: skip
        first = job_stream.pack(1, job_stream.RUN, request.SerializeToString())

        def say():
            yield first
            time.sleep(TIMEOUT_S)

        with self.channel(lab, host, 7902) as channel:
            answers = channel.stream_stream(RUN)(
                say(), timeout=TIMEOUT_S, metadata=((HOST_HEADER, self.says),)
            )
            answer = next(iter(answers))
            answers.cancel()
        _, tag, body = job_stream.unpack(answer)[0]
        return tag, bytes(body)


def message(lab, sender, body) -> bytes:
    cluster = load(str(lab.paths("h1").config)).cluster.name
    return convert.encode(m.Message(cluster, HostId(sender), time.time_ns(), body))


def speaks_plainly(address, port):
    """Whether a server answers a caller that does not encrypt."""
    with socket.create_connection((address, port), TIMEOUT_S) as sock:
        sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
        sock.settimeout(TIMEOUT_S)
        try:
            return sock.recv(64)[3:4] == b"\x04"  # SETTINGS
        except OSError:
            return False


@contextmanager
def in_place_of_lbm(lab, host, own, root, serve, **answers):
    """A server at the LBM's port of `host`, which that host's LIM takes for the LBM. `answers` maps
    its other methods to their functions."""
    server = grpc.server(futures.ThreadPoolExecutor(1), options=[("grpc.so_reuseport", 1)])
    handlers = {name: grpc.unary_unary_rpc_method_handler(one) for name, one in answers.items()}
    if serve is not None:
        handlers["Run"] = grpc.stream_stream_rpc_method_handler(serve)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lbd.v1.Lbm", handlers),))
    credentials = grpc.ssl_server_credentials([(own.key, own.chain)], root, True)
    server.add_secure_port(f"{lab.record.plan.address(host)}:7902", credentials)
    server.start()
    report = {"op": "lbm", "slots_total": 2, "slots_used": 0, "local": 0, "foreign": 0,
              "accepting": True, "keeper": 0}  # fmt: skip
    with socket.socket(socket.AF_UNIX) as lim:
        lim.connect(str(lab.paths(host).socket("lim")))
        lim.sendall(local.encode(report))
        try:
            yield
        finally:
            server.stop(None).wait()


class Newcomer:
    """A host beside a lab, with a directory, an address and a configuration of its own."""

    def __init__(self, lab, root, name="new"):
        self.lab, self.name = lab, name
        self.root = root / name
        self.root.mkdir()
        self.config = self.root / "lbd.toml"
        plan = lab.record.plan
        self.address = f"{plan.subnet}.200"
        self.join_target = f"{plan.address('h1')}:7901"
        cluster = load(str(lab.paths("h1").config)).cluster.name
        self.config.write_text(
            f"""[cluster]
name = "{cluster}"
join = "{self.join_target}"
[host]
name = "{name}"
address = "{self.address}"
runtime_dir = "{self.root}/run"
state_dir = "{self.root}/state"
[load]
scope = "jobs"
[daemons]
user = "root"
[users]
allow_root = true
allow = ["*"]
[tls]
revocation_check_s = 0.5
"""
        )
        self._up = None

    @property
    def environment(self):
        return self.lab.environment("h1", LBD_CONFIG=str(self.config))

    def run(self, *argv, timeout=120, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, timeout=timeout, **options
        )

    def join(self, token, target=None):
        return self.run("lbctl", "join", target or self.join_target, token)

    def start(self):
        with (self.root / "log").open("ab") as log:
            self._up = subprocess.Popen(
                ["lbd", "up"], env=self.environment, stdin=subprocess.DEVNULL, stderr=log
            )

    def log(self):
        return (self.root / "log").read_text()

    def stop(self):
        if self._up is not None:
            self._up.terminate()
            self._up.wait(60)
            self._up = None

    def die(self):
        """Dies as in a power failure: no daemon says goodbye."""
        up = psutil.Process(self._up.pid)
        up.suspend()  # otherwise it would restart what ends
        for process in up.children(recursive=True):
            process.kill()
        up.kill()
        self._up.wait()
        self._up = None
