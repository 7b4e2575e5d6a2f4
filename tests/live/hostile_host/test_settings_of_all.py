"""A compromised host with a valid certificate tries to change the settings of all hosts."""

import time
from dataclasses import replace
from functools import partial
from itertools import count

import grpc
import pytest
from cluster import FAST, Lab
from trust import DELIVER, Stranger, authority_on, files_of, message

from lbd.config.load import load
from lbd.lim.core import messages as m
from lbd.lim.core.signed import signed_text, trial_digest
from lbd.trust import seals

SAYS = 'admin.settings_hosts=["h1"]'


LAB = partial(Lab.up, 4, "none", "--tls", settings=(*FAST, SAYS))


@pytest.fixture(scope="module")
def h2(lab):
    return Stranger(authority_on(lab).certificate, files_of(lab, "h2").read_credentials())


@pytest.fixture(scope="module")
def good(lab):
    """A setting that h1's administrator has made, in force on h3 and h4."""
    lab.run("h1", "lbctl", "config", "set", "lim.min_gain", "0.25", "--cluster", check=True)
    for host in ("h3", "h4"):
        lab.wait_until(lambda host=host: in_force(lab, host) == 0.25, f"{host} has it")


def in_force(lab, host):
    return lab.lbctl_json(host, "param", "min_gain")["value"]


NUMBER = count(1)


def signed_by_h2(lab, h2, author):
    # Newer than the last forged settings too, which may be of the same second and have spread.
    later = int(time.time()) + 1000 + next(NUMBER)
    settings = m.Settings(
        later, author or "h1", params={"lim.min_gain": 3.0}, saved={"lim.min_gain": "3.0"}
    )
    seal = m.Seal(later, author, trial_digest(settings))
    cluster = load(str(lab.paths("h1").config)).cluster.name
    text = signed_text(cluster, seal, settings)
    shown, signature = seals.sign(h2.credentials, text)
    return replace(settings, seal=replace(seal, certificate=shown, signature=signature))


@pytest.mark.parametrize(
    ("target", "author", "why"),
    [
        ("h1", "h1", "h2 signed them in the name of h1"),
        ("h3", "h2", "h2 is not in admin.settings_hosts"),
        ("h4", "", "they are not signed"),
    ],
)
def test_what_no_author_who_may_has_signed_changes_nothing(lab, h2, good, target, author, why):
    forged = signed_by_h2(lab, h2, author or "h1")
    if not author:
        forged = replace(forged, seal=m.NO_SEAL)
    answer = h2.call(lab, target, 7901, DELIVER, message(lab, "h2", forged))
    assert answer == (grpc.StatusCode.OK, "")
    log = lab.paths(target).log("lim")
    line = f"rejected settings from h2: {why}"
    lab.wait_until(lambda: line in log.read_text(), "it says so")
    assert [in_force(lab, host) for host in ("h1", "h3", "h4")] == [0.25] * 3


def test_administrators_are_told_who_may_change_settings(lab, good):
    refused = lab.run("h2", "lbctl", "param", "min_gain", "2")
    assert refused.returncode != 0
    assert "h2 may not change settings for all hosts" in refused.stderr
    shown = lab.lbctl_json("h3", "config", "show", "lim.min_gain")
    assert shown[0]["from"].endswith("signed by h1")


def test_a_restarted_host_keeps_the_settings_and_their_signature(lab, good):
    lab.kill("h3", "lim", "TERM")
    lab.start("h3", "lim")
    lab.wait_until(lambda: in_force(lab, "h3") == 0.25, "h3 is back")
    found = lab.ask("h3", "lim", "settings")
    assert (found["signed_by"], found["signs"]) == ("h1", True)
    lab.run("h1", "lbctl", "config", "set", "lim.min_gain", "0.5", "--cluster", check=True)
    lab.wait_until(lambda: in_force(lab, "h3") == 0.5, "and takes the next")
