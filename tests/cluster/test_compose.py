"""docker-compose.yml on a real engine: it works at once, and faults have the effects that the book
states."""

import contextlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.cluster import engine as engines
from tests.cluster.compose import Compose
from tests.live.cluster import PREFIX

LOST = 125
BURN = "import time\nend = time.process_time() + {0}\nwhile time.process_time() < end: pass"
HEALTHY = ("/opt/lbd/container", "healthy")
OPEN_PORTS = """\
for line in open("/proc/net/tcp").readlines()[1:] + open("/proc/net/tcp6").readlines()[1:]:
    local, state = line.split()[1], line.split()[3]
    if state == "0A" and not local.startswith("0B00007F"):  # but for Docker's name service
        print(int(local.rpartition(":")[2], 16))
"""
STRANGER = """\
import socket, ssl, sys
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.set_alpn_protocols(["h2"])
for port in sys.argv[2:]:
    try:
        with socket.create_connection((sys.argv[1], int(port)), 10) as plain:
            connection = context.wrap_socket(plain)
            connection.send(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n")
            print("refused" if connection.recv(1) == b"" else "heard")
    except (ssl.SSLError, ConnectionError):
        print("refused")
"""
LONG = "7351"  # seconds to sleep; it also identifies a job


@contextlib.contextmanager
def or_skip():
    """Skips a test that needs something missing here; fails it in CI."""
    try:
        yield
    except engines.Lacking as what:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no containers here: {what}")


@pytest.fixture(scope="module")
def engine():
    with or_skip():
        engine = engines.find()
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def cluster(engine):
    work = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        with or_skip():
            cluster = Compose(engine, work)
        try:
            cluster.up()
            yield cluster
        finally:
            cluster.down()
    finally:
        shutil.rmtree(work)


@pytest.fixture(autouse=True)
def whole(cluster, request):
    """A failed test leaves no broken cluster to the next ones."""
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        cluster.mend()


@pytest.fixture
def job(cluster):
    """job("host1"): an lbrun of the client whose command has started on another host."""
    started = []

    def start(host):
        script = f"setsid sleep {LONG} & sleep {LONG} & echo begun; wait"
        process = cluster.popen("client", "lbrun", "-H", host, "sh", "-c", script)
        started.append(process)
        assert process.stdout.readline() == "begun\n", process.communicate(timeout=90)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def lost(cluster, process, host):
    """Checks that the user got 125 and one line."""
    cluster.wait_until(lambda: process.poll() is not None, f"lbrun has lost {host}")
    _, errors = process.communicate()
    assert process.returncode == LOST
    assert errors.startswith(f"lbrun: lost contact with {host}"), errors
    assert errors.count("\n") == 1


def no_job_on(cluster, *hosts):
    for host in hosts:
        cluster.wait_until(
            lambda host=host: not cluster.processes(host, "sleep", LONG), f"{host} has no job"
        )


def works(cluster, host):
    """Waits until a command of the client's gets through to a host (again)."""

    def through():
        return (
            cluster.run("client", "lbrun", "-H", host, "echo", "ok", check=False).stdout == "ok\n"
        )

    cluster.wait_until(through, f"{host} runs commands of client")


def test_every_host_is_healthy(cluster):
    template = "{{.State.Health.Status}}"
    for host in cluster.hosts:
        cluster.run(host, *HEALTHY)
        cluster.wait_until(lambda host=host: cluster.inspect(host, template) == "healthy", host)


def test_a_hung_daemon_is_unhealthy(cluster):
    for daemon in ("lim", "lbm"):
        assert cluster.processes("host4", daemon, signal=19)
        result = cluster.run("host4", *HEALTHY, check=False)
        cluster.processes("host4", daemon, signal=18)
        assert result.returncode == 1, daemon
    cluster.run("host4", *HEALTHY)


def test_the_image_has_no_compiler_and_nothing_runs_as_root(cluster):
    for program in ("cc", "gcc", "pip"):
        assert cluster.run("first", "sh", "-c", f"command -v {program}", check=False).returncode
    for host in cluster.hosts:
        owners = cluster.run(host, "sh", "-c", "stat -c %U /proc/[0-9]*").stdout.split()
        assert set(owners) == {"lbd"}
    assert cluster.run("client", "lbrun", "-H", "host1", "id", "-un").stdout == "lbd\n"


def test_strangers_get_no_answer(cluster):
    """The ports of LIM, LBM and dispatcher are open, and none answers without a certificate."""
    ports = ["7901", "7902", "7903"]
    for host in cluster.hosts:
        opened = cluster.run(host, "python3", "-c", OPEN_PORTS).stdout.split()
        assert sorted(opened) == ports[: 3 if host == "first" else 2], host
    said = cluster.run("client", "python3", "-c", STRANGER, "first", *ports).stdout
    assert said.split() == ["refused"] * 3
    modes = cluster.run("client", "find", "/var/lib/lbd/cluster", "-perm", "/077").stdout
    assert modes == ""


def test_lbrun_from_the_client_uses_every_host(cluster):
    """By name, and by load: more commands than all hosts can run at once."""
    for host in cluster.hosts:
        told = cluster.run("client", "lbrun", "-H", host, "sh", "-c", "echo $LBD_HOST").stdout
        assert told == f"{host}\n"
    script = f"for i in $(seq 24); do lbrun -v python3 -c '{BURN.format(0.3)}' & done; wait"
    used = set()

    def all_are_used():
        said = cluster.run("client", "sh", "-c", script, timeout=120).stderr
        used.update(re.findall(r"^lbrun: python3 runs on (\w+)", said, re.MULTILINE))
        return used >= set(cluster.hosts) - {"client"}

    cluster.wait_until(all_are_used, "every host has had a command", 60)


def test_the_queue(cluster):
    assert cluster.run("client", "lbrun", "-q", "echo", "from the queue").stdout == (
        "from the queue\n"
    )


def test_the_home_directory_is_shared_and_tmp_is_not(cluster):
    write = "uname -n; mkdir -p made && pwd >made/$LBD_HOST"
    elsewhere = cluster.run("client", "lbrun", "-H", "host2", "sh", "-c", write).stdout
    assert elsewhere != cluster.run("client", "uname", "-n").stdout
    assert cluster.run("client", "cat", "made/host2").stdout == "/home/lbd\n"
    inside = ("sh", "-c", "cd /tmp && lbrun -H host2 true")
    refused = cluster.run("client", *inside, check=False)
    assert refused.returncode == LOST
    assert "/tmp" in refused.stderr


def is_alone_loaded(cluster, host):
    cpu = {row["name"]: row["queues"]["cpu"] for row in cluster.status()["hosts"]}
    return cpu.pop(host) > 2.5 and max(cpu.values()) < 1.5


def test_load_is_the_containers_own(cluster):
    """Three busy processes in one container: it is loaded, its neighbours on the same kernel are
    not."""
    burn = BURN.format(1000)
    busy = [cluster.popen("host3", "python3", "-c", burn) for _ in range(3)]
    try:
        cluster.wait_until(
            lambda: is_alone_loaded(cluster, "host3"), "host3 is loaded, and nobody else"
        )
    finally:
        cluster.processes("host3", burn, signal=9)
        for process in busy:
            process.communicate()
    found = cluster.run("host3", "lbctl", "doctor", check=False).stdout
    assert "scope container: auto" in found
    cluster.wait_until(lambda: cluster.row("host3")["queues"]["cpu"] < 0.5, "host3 is idle again")


def test_scaling_adds_hosts_and_takes_them_away(cluster):
    cluster.compose("up", "--detach", "--no-build", "--scale", "host=6")
    cluster.wait_until(
        lambda: [cluster.states().get(name) for name in ("host5", "host6")] == ["up", "up"],
        "the client sees two more hosts",
    )
    works(cluster, "host6")
    cluster.compose("up", "--detach", "--no-build", "--timeout", "5")
    gone = {"host5": "down", "host6": "down"}
    cluster.wait_until(lambda: gone.items() <= cluster.states().items(), "they are missed")
    for host in gone:
        cluster.run("client", "lbctl", "forget", host)
    cluster.wait_whole()


def test_a_recreated_container_is_the_same_host(cluster):
    before = cluster.container("host4")
    cluster.docker("rm", "--force", before)
    cluster.forget("host4")
    cluster.compose("up", "--detach", "--no-build")
    assert cluster.container("host4") != before
    cluster.wait_whole()
    works(cluster, "host4")


def test_killed_centre(cluster):
    """The next in rank takes over, and the queue waits; commands run, even those it has started."""
    queued = cluster.run("client", "lbrun", "-d", "sh", "-c", "sleep 6; echo kept").stdout.strip()
    cluster.wait_until(lambda: cluster.queued(queued)["state"] == "running", "it has begun")
    cluster.docker("kill", cluster.container("first"))
    assert cluster.run("client", "lbrun", "echo", "meanwhile").stdout == "meanwhile\n"
    cluster.wait_until(lambda: cluster.centre() not in ("first", ""), "another is the centre")
    cluster.wait_until(lambda: cluster.states()["first"] == "down", "first is down")
    works(cluster, "host1")
    cluster.docker("start", cluster.container("first"))
    cluster.wait_whole()
    works(cluster, "first")
    cluster.run("client", "lbctl", "wait", queued, check=False)
    ended = cluster.queued(queued)
    assert ended["state"] == "done", json.dumps(ended)  # the whole object, not cut by pytest
    assert cluster.run("client", "lbctl", "logs", queued).stdout == "kept\n"


def test_killed_host_with_running_jobs(cluster, job):
    running = [job("host1"), job("host1")]
    cluster.docker("kill", cluster.container("host1"))
    for process in running:
        lost(cluster, process, "host1")
    cluster.wait_until(lambda: cluster.states()["host1"] == "down", "host1 is down")
    cluster.docker("start", cluster.container("host1"))
    cluster.wait_whole()
    works(cluster, "host1")
    no_job_on(cluster, "host1")


def test_paused_host_with_a_running_job(cluster, job):
    process = job("host2")
    cluster.docker("pause", cluster.container("host2"))
    try:
        lost(cluster, process, "host2")
        cluster.wait_until(lambda: cluster.states()["host2"] == "down", "host2 is down")
    finally:
        cluster.docker("unpause", cluster.container("host2"))
    no_job_on(cluster, "host2")
    cluster.wait_whole()


def test_partitioned_host_with_a_running_job(cluster, job):
    """Both sides give up; the host is back with whatever address it gets."""
    process = job("host4")
    network = f"{cluster.name}_default"
    cluster.docker("network", "disconnect", network, cluster.container("host4"))
    lost(cluster, process, "host4")
    no_job_on(cluster, "host4")
    cluster.wait_until(lambda: cluster.states("host4")["client"] != "up", "host4 misses the client")
    assert cluster.run("host4", "lbrun", "echo", "alone").stdout == "alone\n"
    cluster.docker("network", "connect", network, cluster.container("host4"))
    cluster.wait_whole()
    works(cluster, "host4")


def test_killed_client(cluster, job):
    """No command runs on for a user who is gone."""
    hosts = ("host2", "host3")
    for host in hosts:
        job(host)
    cluster.docker("kill", cluster.container("client"))
    no_job_on(cluster, *hosts)
    cluster.docker("start", cluster.container("client"))
    cluster.wait_whole()
