"""A host joins a cluster with a token, and is put out of it again: real daemons, real commands."""

import json
import os
import random
import re
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest

from lbd.trust import certificates
from lbd.trust.authority import Authority
from lbd.trust.files import Credentials
from tests.live.cluster import FAST, client_environment, wait_until
from tests.live.privileged import opened
from tests.live.trust import Newcomer, authority_on, files_of, made_for

AS_NOBODY = """
import gettext, locale, os, shutil, sys, lbd.cli.lbctl, lbd.cli.ctl.trust
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
sys.exit(lbd.cli.lbctl.main(sys.argv[1:]))
"""  # for users who could not read our own Python
SETTINGS = (*FAST, "tls.revocation_check_s=0.5")


@pytest.fixture(scope="module")
def tls_lab(make_module_lab):
    return make_module_lab(4, "none", "--tls", settings=SETTINGS)


@pytest.fixture
def newcomer(tls_lab, short_dir):
    made = Newcomer(tls_lab, short_dir)
    yield made
    made.stop()
    if made.name in authority_on(tls_lab).ledger().hosts:
        tls_lab.run("h1", "lbctl", "revoke", made.name)


def new_token(lab, *words):
    """A token for any host unless `words` name one."""
    words = words if words and not words[0].startswith("-") else ("--any", *words)
    return lab.run("h1", "lbctl", "token", "create", *words, check=True).stdout.strip()


def refused(done):
    """The one line that says why it was refused."""
    assert done.returncode in (1, 2), done
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line.removeprefix("lbctl: ")


def test_no_token_is_made_for_an_invalid_host_name(tls_lab):
    before = tls_lab.run("h1", "lbctl", "token", "list", check=True).stdout
    line = refused(tls_lab.run("h1", "lbctl", "token", "create", "bad name"))
    assert ": 'bad name' is not a valid host name: letters and digits with - . _" in line
    line = refused(tls_lab.run("h1", "lbctl", "token", "create", "h2", "--any"))
    assert line.startswith("give either h2 or --any")
    assert tls_lab.run("h1", "lbctl", "token", "list", check=True).stdout == before


def test_a_token_for_any_host_says_so(tls_lab):
    done = tls_lab.run("h1", "lbctl", "token", "create", check=True)
    assert "the first host to use it may join; `lbctl token create HOST`" in done.stderr
    assert done.stdout.startswith("lbd1-")


def test_a_host_joins_runs_commands_and_is_put_out(tls_lab, newcomer):
    done = newcomer.join(token := new_token(tls_lab, "--uses", "2"))
    assert done.returncode == 0, done.stderr
    assert f"certificate of {newcomer.name} in" in done.stdout
    again = refused(newcomer.join(token))
    assert "host new has already joined and its certificate is valid" in again
    assert newcomer.join(new_token(tls_lab, "new")).returncode == 0  # as if it had been revoked
    newcomer.start()
    tls_lab.wait_until(
        lambda: all(tls_lab.states(host)["new"] == "up" for host in tls_lab.hosts),
        "every host sees the newcomer", see=newcomer.log,
    )  # fmt: skip
    tls_lab.wait_until(
        lambda: (
            tls_lab.run("h2", "lbrun", "-H", "new", "sh", "-c", "echo $LBD_HOST").stdout == "new\n"
        ),
        "h2 runs a command on it",
    )
    there = newcomer.run("lbrun", "-H", "h2", "sh", "-c", "echo $LBD_HOST")
    assert (there.stdout, there.stderr) == ("h2\n", "")

    running = [
        tls_lab.popen("h2", "lbrun", "-H", "new", "sleep", "60", stderr=subprocess.PIPE, text=True),
        subprocess.Popen(
            ["lbrun", "-H", "h3", "sleep", "61"], env=newcomer.environment, text=True,
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        ),
    ]  # fmt: skip
    tls_lab.wait_until(
        lambda: {"60", "61"} <= {job["command"][-1] for job in tls_lab.lbctl_json("h2", "jobs")},
        "both run",
    )
    tls_lab.run("h1", "lbctl", "revoke", "new", check=True)
    for process in running:  # what ran there, or for it, has lost its other end
        _, said = process.communicate(timeout=90)
        assert process.returncode == 125, said
    for host in ("h2", "h3"):
        done = tls_lab.run(host, "lbrun", "-H", "new", "true")
        assert done.returncode == 125
    done = newcomer.run("lbrun", "-H", "h3", "true")
    assert done.returncode == 125
    wait_until(lambda: "new, is revoked" in newcomer.log(), "it is told why", see=newcomer.log)
    tls_lab.wait_until(lambda: tls_lab.states("h3")["new"] != "up", "it reports no load any more")
    tls_lab.wait_until(lambda: shown_revoked(tls_lab) == [{"new"}] * 3, "that is shown")
    assert re.search(r"(?m)^new +revoked ", tls_lab.run("h2", "lbctl", "status").stdout)
    found = newcomer.run("lbctl", "doctor").stdout
    assert re.search(r"FAULT +certificate +revoked", found)
    newcomer.stop()
    assert newcomer.join(new_token(tls_lab, "new")).returncode == 0
    shown = tls_lab.run("h1", "lbctl", "status").stdout  # where the authority is
    assert re.search(r"(?m)^new +down ", shown)
    assert "new: it has a new certificate, but its daemons have not used" in shown
    newcomer.start()
    tls_lab.wait_until(
        lambda: newcomer.run("lbrun", "-H", "h3", "true").returncode == 0, "it is in again"
    )
    tls_lab.wait_until(lambda: shown_revoked(tls_lab) == [set()] * 3, "so it is shown")


def shown_revoked(lab):
    """The revoked hosts as each host sees them."""
    shown = [lab.lbctl_json(host, "status")["hosts"] for host in ("h1", "h2", "h3")]
    return [{row["name"] for row in rows if row["revoked"]} for rows in shown]


def test_invalid_tokens(tls_lab, newcomer, short_dir):
    lab = tls_lab
    token = new_token(lab)
    assert "cut short or mistyped" in refused(newcomer.join(token[:-3]))
    assert "not a token" in refused(newcomer.join("secret"))
    assert "is not an address" in refused(newcomer.join(token, "10.0.0.1:99999"))
    assert "Connection refused" in refused(newcomer.join(token, f"{newcomer.address}:7901"))
    lbm = newcomer.join(token, newcomer.join_target.replace("7901", "7902"))
    assert "does not know this token" in refused(lbm)
    elsewhere = newcomer.join(token, f"{lab.record.plan.address('h2')}:7901")
    assert "the authority is on another host" in refused(elsewhere)
    assert "is for other, not for new" in refused(newcomer.join(new_token(lab, "other")))
    short = new_token(lab, "--expires", "1s")
    lab.wait_until(
        lambda: "ended" in {t["state"] for t in lab.lbctl_json("h1", "token", "list")["tokens"]},
        "it has ended",
    )
    assert re.search(r"token \w+ expired \d+ s ago", refused(newcomer.join(short)))
    gone = new_token(lab)
    number = lab.lbctl_json("h1", "token", "list")["tokens"][-1]["id"]
    lab.run("h1", "lbctl", "token", "revoke", number, check=True)
    assert "does not know this token" in refused(newcomer.join(gone))
    assert f"no token '{number}'" in refused(lab.run("h1", "lbctl", "token", "revoke", number))
    assert newcomer.join(token).returncode == 0
    twin = Newcomer(lab, short_dir, "twin")
    assert re.search(r"token \w+ has already been used, by new", refused(twin.join(token)))
    states = {row["state"] for row in lab.lbctl_json("h1", "token", "list")["tokens"]}
    assert states == {"open", "used", "ended"}


def test_a_name_that_is_taken(tls_lab, short_dir):
    twin = Newcomer(tls_lab, short_dir, "h2")
    assert "host h2 has already joined" in refused(twin.join(new_token(tls_lab)))


def test_nothing_is_sent_to_a_host_of_another_authority(tls_lab, newcomer, short_dir):
    """Neither to a LIM of another cluster nor to an impostor that records what it is sent."""
    other = Authority(short_dir / "other", 60.0)
    other.create("other", "h1", time.time())
    foreign = other.new_token("", 60.0, time.time()).text()
    assert "nothing was sent" in refused(newcomer.join(foreign))

    own = made_for(other.credentials(), "h1")
    pem = short_dir / "pem"
    pem.write_bytes(own.key + own.chain + other.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    heard = []

    def listen(listener):
        connection, _ = listener.accept()
        with context.wrap_socket(connection, server_side=True) as tls:
            heard.append(tls.recv(1 << 16))

    with socket.create_server((newcomer.address, 0)) as listener:
        thread = threading.Thread(target=listen, args=(listener,))
        thread.start()
        port = listener.getsockname()[1]
        said = refused(newcomer.join(new_token(tls_lab), f"{newcomer.address}:{port}"))
        thread.join(10)
    assert "is not in the token's cluster" in said
    assert heard == [b""]
    with socket.create_server((newcomer.address, 0)) as listener:
        thread = threading.Thread(target=greet, args=(listener,))
        thread.start()
        target = f"{newcomer.address}:{listener.getsockname()[1]}"
        assert "does not speak TLS" in refused(newcomer.join(new_token(tls_lab), target))
        thread.join(10)


def greet(listener):
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"hello\n")


def test_users_and_hosts_that_may_not_make_tokens(tls_lab, newcomer):
    """A user who is neither root nor the daemons' own, and a host without the authority."""
    on_h2 = tls_lab.run("h2", "lbctl", "token", "create", "--any")
    assert "the authority is on h1: run this there" in refused(on_h2)
    assert "authority is on h1" in refused(tls_lab.run("h2", "lbctl", "revoke", "h3"))
    assert "host 'h9' has no certificate" in refused(tls_lab.run("h1", "lbctl", "revoke", "h9"))
    assert "it cannot be revoked" in refused(tls_lab.run("h1", "lbctl", "revoke", "h1"))
    if os.geteuid() == 0:
        tls_lab.root.chmod(0o711)
        newcomer.root.parent.chmod(0o711)
        for words in (("token", "create"), ("token", "list"), ("revoke", "h2")):
            done = tls_lab.run("h1", sys.executable, "-c", AS_NOBODY, *words)
            assert "only root can do that" in refused(done)
        token = new_token(tls_lab)
        done = newcomer.run(sys.executable, "-c", AS_NOBODY, "join", newcomer.join_target, token)
        assert "permission denied" in refused(done)
        number = json.loads(tls_lab.run("h1", "lbctl", "token", "list", "--json").stdout)
        assert number["tokens"][-1]["state"] == "open"  # the refusals did not spend it


def test_a_certificate_is_renewed_in_time_without_effect_on_commands(tls_lab):
    """h2 gets a certificate that lives 15 seconds; its LIM asks for another when 5 are left."""
    lab, files = tls_lab, files_of(tls_lab, "h2")
    running = [lab.popen("h1", "lbrun", "-H", "h2", "sh", "-c", "read x; echo done $x",
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True),
               lab.popen("h2", "lbrun", "-H", "h1", "sh", "-c", "read x; echo done $x",
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)]  # fmt: skip
    lab.wait_until(lambda: len(lab.lbctl_json("h1", "jobs")) == 2, "both run")
    authority = authority_on(lab).credentials()
    short = made_for(authority, "h2", 15.0)
    now_s = time.time()
    chain = certificates.signed(
        authority, certificates.private_key(short.key).public_key(), "h2",
        ("h2", "0.h2.lbd", "any.lbd"), now_s, 15.0,
    )  # fmt: skip
    files.write_credentials(Credentials(short.key, chain + authority.chain))
    seen = set()

    def renewed():
        assert lab.run("h1", "lbrun", "-H", "h2", "true").returncode == 0
        assert lab.run("h2", "lbrun", "-H", "h1", "true").returncode == 0
        with socket.create_connection((lab.record.plan.address("h2"), 7902)) as sock:
            seen.add(shown_certificate(sock))
        return files.read_credentials().valid_s[1] > time.time() + 1000

    lab.wait_until(renewed, "the certificate is renewed", timeout_s=40)
    lab.wait_until(lambda: renewed() and len(seen) >= 2, "the LBM shows the new one")
    for process in running:
        said, _ = process.communicate("well\n", timeout=90)
        assert (said, process.returncode) == ("done well\n", 0)


def shown_certificate(sock):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(sock) as connection:
        return connection.getpeercert(binary_form=True)


def test_a_host_that_was_down_learns_of_a_revocation_from_another(tls_lab, short_dir):
    """The authority's host is down at its return: the list is signed, so any host may send it."""
    lab, put_out = tls_lab, Newcomer(tls_lab, short_dir, "out")
    assert put_out.join(new_token(lab)).returncode == 0
    lab.kill("h4", "lim", "STOP")
    try:
        lab.run("h1", "lbctl", "revoke", "out", check=True)
        lab.wait_until(
            lambda: "out" in files_of(lab, "h3").read_revocations().lowest, "h3 has heard of it"
        )
        lab.kill("h1", "lim")
    finally:
        lab.kill("h4", "lim", "CONT")
    lab.wait_until(
        lambda: "out" in files_of(lab, "h4").read_revocations().lowest, "h4 has heard of it", 20
    )
    lab.start("h1", "lim")


class BareHost:
    """A host with only the programs: a /var/lib and /run of its own, and no configuration yet."""

    def __init__(self, root, name, address):
        self.name, self.address = name, address
        self.config = root / f"{name}.toml"
        self.environment = client_environment(LBD_CONFIG=str(self.config))
        self.log = root / f"{name}.log"
        mounts = "mount -t tmpfs t /var/lib && mount -t tmpfs t /run && echo ready && exec cat"
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", mounts],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._holder.stdout.readline() == b"ready\n"
        self._up = None

    def inside(self, *argv):
        return ["nsenter", "--mount", "--target", str(self._holder.pid), *argv]

    def run(self, *argv):
        return subprocess.run(
            self.inside(*argv), env=self.environment, capture_output=True, text=True, timeout=120,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def up(self, user):
        sets = ("--set", f"daemons.user={user}", "--set", "tls.revocation_check_s=0.5")
        argv = [*opened(), "lbd", "up", *sets]
        with self.log.open("wb") as log:
            self._up = subprocess.Popen(
                self.inside(*argv), env=self.environment, stdin=subprocess.DEVNULL, stderr=log
            )

    def down(self):
        if self._up is not None:
            self._up.terminate()
            self._up.wait(20)
        self._holder.communicate()


@pytest.mark.root
@pytest.mark.parametrize("user", ["root", "mail"])
def test_first_host_second_host(short_dir, user):
    """As in docs/how-to/install.md, with nothing prepared; daemons with and without privilege."""
    net = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}"
    short_dir.chmod(0o755)
    first = BareHost(short_dir, "first", f"{net}.1")
    second = BareHost(short_dir, "second", f"{net}.2")
    try:
        made = first.run(
            "lbctl", "init", "--name", "first", "--address", first.address, "--next", "second",
            "--queue",
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        assert [line.split()[0] for line in made.stdout.splitlines()] == [
            "authority", "certificate", "the", "configuration", "start", "then", "echo"
        ]  # fmt: skip
        first.up(user)
        command = made.stdout.splitlines()[-1]
        wait_until(
            lambda: first.run("lbctl", "status").returncode == 0, "the first host is up", 20,
            see=first.log.read_text,
        )  # fmt: skip
        named = f" --name second --address {second.address}"
        joined = second.run("sh", "-c", command + named)
        assert joined.returncode == 0, joined.stderr
        assert second.config.read_text().splitlines()[:3] == [
            "[cluster]", 'name = "lbd"', f'join = "{first.address}:7901"'
        ]  # fmt: skip
        second.up(user)
        for host in (first, second):
            wait_until(lambda host=host: states(host) == ["up", "up"], "each sees the other", 20,
                       see=second.log.read_text)  # fmt: skip
        wait_until(lambda: "0 queued" in second.run("lbctl", "queue").stdout,
                   "the queue of `init --queue` is found", 30, see=first.log.read_text)  # fmt: skip
        if user == "root":  # others may not look at a command of root
            wait_until(
                lambda: "first: commands of root are not allowed here"
                in second.run("lbrun", "-H", "first", "true").stderr,
                "its commands reach the other", 30, see=second.log.read_text,
            )  # fmt: skip
        if user != "root":  # with the authority as a process of its own
            done = first.run("lbctl", "restart", "--json")
            assert list(json.loads(done.stdout))[1:] == ["authority", "lim", "lbm", "dispatcher"]
        again = first.run("lbctl", "init")
        assert refused(again).startswith("this host has already joined, as first")
        assert first.run("lbctl", "revoke", "second").returncode == 0
        listed = "stat -c %n:%U:%G:%a /var/lib/lbd-authority/* /var/lib/lbd/tls/*"
        owners = {line.rpartition("/")[2] for line in first.run("sh", "-c", listed).stdout.split()}
        keys = {"authority.pem:root:mail:600", "ledger.json:root:mail:640"}
        if user == "root":
            keys = {"authority.pem:root:root:600", "ledger.json:root:root:600"}
        assert owners >= {*keys, f"host.pem:{user}:{user}:600"}, "no daemon reads the authority's"
        wait_until(
            lambda: "second, is revoked" in second.log.read_text(), "the daemons have read it",
            see=first.log.read_text,
        )  # fmt: skip
    finally:
        second.down()
        first.down()


def states(host):
    hosts = json.loads(host.run("lbctl", "status", "--json").stdout)["hosts"]
    return [row["state"] for row in hosts]
