"""deploy/hosts with stand-ins for ssh and lbctl: what each host is told, and the report."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What a target gets on standard input and as arguments; down hosts answer as ssh does.
SSH = """#!/bin/sh
case $1 in *down*) echo "ssh: connect to host $1: No route" >&2; exit 255 ;; esac
{ echo "$2"; cat; } >>"$SAID/$1"
echo "welcome"
"""
LBCTL = """#!/bin/sh
case $3 in refused) echo "lbctl: refused" >&2; exit 1 ;; esac
echo "token-of-$3"
"""


@pytest.fixture
def hosts(tmp_path):
    for name, text in (("ssh", SSH), ("lbctl", LBCTL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    said = tmp_path / "said"
    said.mkdir()

    def hosts(*words):
        path = f"{tmp_path}:{os.environ['PATH']}"
        environment = {"PATH": path, "SSH": "ssh", "SAID": str(said)}
        done = subprocess.run(
            [ROOT / "deploy/hosts", *words], env=environment, capture_output=True, text=True
        )
        return done, {path.name: path.read_text() for path in said.iterdir()}

    return hosts


def join(name):
    return f"lbctl join --name '{name}' '10.0.0.1' - >/dev/null && lbctl restart\ntoken-of-{name}\n"


def test_each_of_twenty_hosts_gets_its_own_token(hosts):
    names = [f"h{number}" for number in range(2, 22)]
    done, said = hosts("10.0.0.1", *names)
    assert done.returncode == 0, done.stderr
    assert said == {name: join(name) for name in names}
    assert sorted(done.stdout.splitlines()[:-1]) == sorted(f"{name}: welcome" for name in names)
    assert done.stdout.endswith("joined: 20; see lbctl status\n")


def test_a_name_is_distinguished_from_the_ssh_target(hosts):
    _, said = hosts("10.0.0.1", "root@h2.example.org", "h3=root@10.0.0.3")
    assert said == {"root@h2.example.org": join("h2"), "root@10.0.0.3": join("h3")}


def test_one_that_fails_hinders_no_other_and_is_named(hosts):
    done, said = hosts("10.0.0.1", "h2", "down", "refused", "h3")
    assert done.returncode == 1
    assert done.stderr == "deploy/hosts: failed: down refused\n"
    assert {"h2", "h3"} <= said.keys()
    assert "down: ssh: connect to host down: No route\n" in done.stdout


@pytest.mark.parametrize(("name", "program"), [("lbd.deb", "apt-get"), ("lbd.rpm", "dnf")])
def test_the_package_comes_first(hosts, tmp_path, name, program):
    package = tmp_path / name
    package.write_text("the package\n")
    done, said = hosts("--package", package, "10.0.0.1", "h2")
    assert done.returncode == 0, done.stderr
    first, _, rest = said["h2"].partition("the package\n")
    assert program in first
    assert rest == join("h2")


@pytest.mark.parametrize("words", [(), ("10.0.0.1",), ("--package", "/none", "10.0.0.1", "h2")])
def test_wrong_arguments_print_the_usage(hosts, words):
    done, said = hosts(*words)
    assert (done.returncode, said) == (2, {})
    assert done.stderr.startswith("deploy/hosts [--package FILE] ADDRESS HOST")


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_the_help_is_no_error(hosts, word):
    done, said = hosts(word)
    assert (done.returncode, done.stderr, said) == (0, "", {})
    assert done.stdout.startswith("deploy/hosts [--package FILE] ADDRESS HOST")
