"""The authority moves to another host while all of them run, with and without privilege."""

import random
import time

import pytest

from lbd.trust import certificates
from lbd.trust.authority import Authority
from lbd.trust.names import names_of
from tests.live.cluster import wait_until
from tests.live.test_joining import BareHost, refused, states

pytestmark = [pytest.mark.live, pytest.mark.root]
LONG_S = 90


@pytest.fixture(params=["root", "mail"])
def three(request, short_dir):
    """Three hosts with directories of their own; all are up, and the first has the authority."""
    short_dir.chmod(0o755)
    net = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}"
    hosts = [BareHost(short_dir, f"h{n}", f"{net}.{n}") for n in (1, 2, 3)]
    try:
        first, second, _ = hosts
        succeeds(first, "lbctl", "init", "--name", "h1", "--address", first.address)
        up(first, request.param)
        joins(first, second, request.param)
        yield hosts, request.param
    finally:
        for host in hosts:
            host.down()


def up(host, user):
    host.up(user)
    wait_until(lambda: host.run("lbctl", "status").returncode == 0, f"{host.name} is up", LONG_S,
               host.log.read_text)  # fmt: skip


def succeeds(host, *words):
    done = host.run(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def joins(home, host, user):
    def joined():
        token = succeeds(home, "lbctl", "token", "create", host.name)
        own = ("--name", host.name, "--address", host.address)
        return host.run("lbctl", "join", *own, f"{home.address}:7901", token)

    # The process that has the key may only just be starting.
    wait_until(lambda: joined().returncode == 0, f"{host.name} joins", LONG_S, lambda: joined())
    up(host, user)


def where(host):
    return succeeds(host, "lbctl", "authority").split()[4].rstrip(",")


def test_the_authority_moves_and_hosts_join_and_are_revoked_where_it_is(three, short_dir):
    (first, second, third), user = three
    wait_until(lambda: states(first) == states(second) == ["up", "up"], "all are up", LONG_S,
               second.log.read_text)  # fmt: skip
    file = short_dir / "authority.tar"
    succeeds(first, "lbctl", "authority", "give", str(file))
    assert first.run("sh", "-c", "ls /var/lib/lbd-authority").stdout == ""
    assert "there is no authority" in refused(first.run("lbctl", "token", "create"))
    succeeds(second, "lbctl", "authority", "take", str(file))
    wait_until(lambda: where(first) == "h2", "the first hears of it", LONG_S,
               second.log.read_text)  # fmt: skip
    assert "the authority is on h2" in refused(first.run("lbctl", "token", "create"))
    joins(second, third, user)
    wait_until(lambda: states(third) == ["up"] * 3, "the third is in", LONG_S, third.log.read_text)
    listed = second.run("sh", "-c", "stat -c %n:%U:%a /var/lib/lbd-authority/*").stdout.split()
    mode = "640" if user == "mail" else "600"
    assert sorted(line.rpartition("/")[2] for line in listed) == [
        "authority.pem:root:600", f"ledger.json:root:{mode}"
    ]  # fmt: skip

    renewed_at(second, first, user, short_dir)
    succeeds(second, "lbctl", "revoke", "h1")
    wait_until(lambda: "h1, is revoked" in first.log.read_text(), "the first is told", LONG_S,
               first.log.read_text)  # fmt: skip


KEY = "/var/lib/lbd-authority/authority.pem"
OWN = "/var/lib/lbd/tls/host.pem"
PUT = f'install -o "$1" -g "$1" -m 600 "$2" {OWN}.new && mv {OWN}.new {OWN}'


def renewed_at(home, host, user, directory):
    """Replaces a host's certificate by one that is about to expire, so that it asks for another."""
    (directory / "authority.pem").write_text(succeeds(home, "cat", KEY) + "\n")
    authority = Authority(directory, 1.0).credentials()
    key, names = certificates.new_key(), names_of(host.name, 0)
    public = certificates.private_key(key).public_key()
    begin_s = time.time() - 2000.0
    made = certificates.signed(authority, public, host.name, tuple(names), begin_s, 2600.0)
    short = (key + made + authority.chain).decode()
    (directory / "host.pem").write_text(short)
    succeeds(host, "sh", "-c", PUT, "sh", user, str(directory / "host.pem"))
    wait_until(lambda: succeeds(host, "cat", OWN) != short.strip(), "it is renewed", LONG_S,
               host.log.read_text)  # fmt: skip
