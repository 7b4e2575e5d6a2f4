"""Who may use a host's two ports, and as whom: real daemons with certificates."""

import subprocess
import sys
import time

import grpc
import pytest

from lbd.lbm.link import wire as job_stream
from lbd.lim.core import messages as m
from lbd.model import LoadVector, Queues
from lbd.net.gen import lbm_pb2
from lbd.process.self_start import command
from lbd.testing.builders import published
from lbd.trust import certificates
from lbd.trust.files import write_private
from tests.live import trust
from tests.live.cluster import FAST, client_environment
from tests.live.trust import Stranger, authority_on, files_of, in_place_of_lbm, made_for

SETTINGS = (*FAST, "tls.revocation_check_s=0.5")
QUEUE_PORT = 7903  # of the dispatcher, on h1
SCAN = """
import socket, sys
found = []
for port in range(1, 65536):
    with socket.socket() as sock:
        sock.settimeout(1)
        if sock.connect_ex((sys.argv[1], port)) == 0:
            found.append(port)
print(*found)
"""


@pytest.fixture(scope="module")
def tls_lab(make_module_lab):
    return make_module_lab(3, "none", "--tls", "--mode", "fcfs", settings=SETTINGS)


@pytest.fixture(scope="module")
def root(tls_lab):
    return authority_on(tls_lab).certificate


@pytest.fixture(scope="module")
def h2(tls_lab, root):
    """A caller with the key of h2."""
    return Stranger(root, files_of(tls_lab, "h2").read_credentials())


def test_commands_run_and_bytes_flow(tls_lab):
    done = tls_lab.run("h1", "lbrun", "-H", "h2", "sh", "-c", "cat; echo $LBD_HOST", input="in\n")
    assert (done.returncode, done.stdout) == (0, "in\nh2\n")


def test_the_queue_works_and_checks_callers_as_well(tls_lab, h2):
    done = tls_lab.run("h3", "lbrun", "-q", "sh", "-c", "echo in a queue")
    assert (done.returncode, done.stdout) == (0, "in a queue\n"), done.stderr
    code, _ = h2.call(tls_lab, "h1", QUEUE_PORT, "/lbd.v1.Dispatch/None", b"")
    assert code is grpc.StatusCode.UNIMPLEMENTED


def test_a_host_is_accepted_as_itself(tls_lab, h2):
    assert h2.ping(tls_lab, "h1")[0] is grpc.StatusCode.OK
    assert h2.jobs(tls_lab, "h1")[0] is grpc.StatusCode.OK
    assert h2.run(tls_lab, "h1", "h2")[0] == job_stream.STARTED


@pytest.fixture(params=["none", "expired", "of another authority"])
def not_let_in(request, tls_lab, root):
    own = authority_on(tls_lab).credentials()
    other = certificates.new_authority("another", time.time())
    return {
        "none": Stranger(root, None),
        "expired": Stranger(root, made_for(own, "h2", -10.0)),
        "of another authority": Stranger(root, made_for(other, "h2")),
    }[request.param]


def test_a_caller_without_a_valid_certificate_fails_the_handshake(tls_lab, not_let_in):
    asked = not_let_in.call(tls_lab, "h1", QUEUE_PORT, "/lbd.v1.Dispatch/None", b"")
    for code, details in (
        not_let_in.ping(tls_lab, "h1"), not_let_in.jobs(tls_lab, "h1"), asked
    ):  # fmt: skip
        assert code is grpc.StatusCode.UNAVAILABLE
        assert "Socket closed" in details or "handshake" in details, details


def test_a_caller_that_does_not_encrypt_gets_no_answer(tls_lab):
    address = tls_lab.record.plan.address("h1")
    for port in (7901, 7902, QUEUE_PORT):
        assert not trust.speaks_plainly(address, port)


def test_no_host_speaks_for_another(tls_lab, h2):
    as_h3 = Stranger(h2.root, h2.credentials, says="h3")
    code, details = as_h3.ping(tls_lab, "h1")
    assert (code, details) == (grpc.StatusCode.INVALID_ARGUMENT, "h2 speaks for h3")


def test_nobody_reports_the_load_of_another_host(tls_lab, h2):
    vector = LoadVector(0.0, Queues(), 0.0, 64.0, 1.0, 64, 0, 0, 0, True)
    sample = m.Sample("h3", time.time_ns(), 1 << 40, 0.0, vector, False)
    data = trust.message(tls_lab, "h2", m.Report(sample))
    code, details = h2.call(tls_lab, "h1", 7901, trust.DELIVER, data)
    assert (code, details) == (grpc.StatusCode.INVALID_ARGUMENT, "h2 reports the load of h3")
    relayed = trust.message(tls_lab, "h2", published(sample))  # as only a centre may do
    assert h2.call(tls_lab, "h1", 7901, trust.DELIVER, relayed)[0] is grpc.StatusCode.OK
    rows = {row["name"]: row for row in tls_lab.lbctl_json("h1", "status")["hosts"]}
    assert rows["h3"]["cores"] < 64
    hello = m.Hello(m.Member("h3", "127.0.0.9", 7901, 7902, 0, time.time_ns()), False)
    data = trust.message(tls_lab, "h2", hello)
    code, details = h2.call(tls_lab, "h1", 7901, trust.DELIVER, data)
    assert (code, details) == (grpc.StatusCode.INVALID_ARGUMENT, "h2 introduces itself as h3")


def test_nobody_runs_commands_in_the_name_of_another_host(tls_lab, h2):
    tag, body = h2.run(tls_lab, "h1", "h3")
    refused = lbm_pb2.Refused.FromString(body)
    assert (tag, refused.reason) == (job_stream.REFUSED, "h2 asks in the name of h3")


@pytest.mark.parametrize(("shown", "outcome"), [("h2", "cannot be reached"), ("h3", "refused it")])
def test_a_command_goes_to_the_host_asked_for_or_nowhere(tls_lab, root, shown, outcome):
    """h2's certificate at h3's address is not h3; h3's own would do."""
    seen = []

    def refuse(_, context):
        seen.extend(context.auth_context()["x509_common_name"])
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "reached")

    def answer():
        done = tls_lab.run("h1", "lbrun", "-H", "h3", "true")
        assert done.returncode == 125
        return outcome in done.stderr

    tls_lab.kill("h3", "lbm")
    own = files_of(tls_lab, shown).read_credentials()
    try:
        with in_place_of_lbm(tls_lab, "h3", own, root, refuse):
            tls_lab.wait_until(answer, outcome)
        assert set(seen) == ({b"h1"} if shown == "h3" else set())
    finally:
        tls_lab.start("h3", "lbm")


@pytest.mark.parametrize("daemon", ["lim", "lbm"])
def test_without_certificates_daemons_listen_on_loopback_only(daemon, short_dir):
    key, config = short_dir / "key", short_dir / "lbd.toml"
    write_private(key, b"k" * 64)
    config.write_text("")
    settings = {
        "host.address": "10.0.0.1", "security.key_file": key, "host.state_dir": short_dir,
        "host.runtime_dir": short_dir, "daemons.user": "root",
    }  # fmt: skip
    sets = [word for name, value in settings.items() for word in ("--set", f'{name}="{value}"')]
    done = subprocess.run(
        command(daemon, *sets), env=client_environment(LBD_CONFIG=str(config)), text=True,
        capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "host.address 10.0.0.1: without TLS the daemons listen on loopback only" in line


def test_a_port_scan_shows_the_two_ports(make_lab):
    """Hosts on a network of their own have certificates by default."""
    lab = make_lab(2, "namespaces")
    scan = lab.run("h1", sys.executable, "-c", SCAN, lab.record.plan.address("h2"), check=True)
    assert scan.stdout.split() == ["7901", "7902"]
