"""Whose changes of the cluster's settings count: real certificates, LIMs that are not running."""

import json
import time
from dataclasses import replace

import pytest

from lbd.config.access import AdminConfig
from lbd.errors import ConfigError
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core.signed import policy_version, signed_text, trial_digest
from lbd.lim.core.state import Identity, LimState
from lbd.lim.log_lines import LINES_AT_ONCE, LINES_PER_S, Lines
from lbd.lim.policy_guard import SAYERS_MAX, PolicyGuard
from lbd.lim.saved_settings import table
from lbd.lim.settings_file import settings_bytes, settings_of
from lbd.model import HostId
from lbd.net import convert
from lbd.net.lim_network import LimNetwork
from lbd.net.transport import Plain
from lbd.testing.builders import lim_state
from lbd.trust import seals
from tests.unit.enrolment import joined, made_authority

NAMES = ("h1", "h2", "h3")
LOWEST = e.ChangeSettings("LOWEST", {}, save=True)


class Host:
    """A LIM and its guard."""

    def __init__(self, tls, admin, settings=None):
        made = lim_state(tls.own_name, NAMES, settings=settings or m.Settings())
        of = made.identity
        strict = {**{n: getattr(of, n) for n in Identity.__slots__}, "cluster": "c"}
        identity = Identity(**{**strict, "is_strict": bool(admin.settings_hosts)})
        self.tls = tls
        self.state = LimState(identity, made.base, made._rng, 0.0)
        for name in NAMES:
            if name != tls.own_name:
                self.hear(name, m.Hello(member_of(name), wants_members=False), vet=False)
        self.guard = PolicyGuard(tls, admin, self.state)

    def change(self, change):
        self.state.handle(self.guard.sign(change), 1.0)
        return self.state.settings

    def hear(self, sender, body, *, vet=True):
        """Receives the message over the wire."""
        message = convert.decode(convert.encode(m.Message("c", HostId(sender), 1, body)))
        self.state.handle(e.Received(self.guard.vet(message) if vet else message), 1.0)

    @property
    def algorithm(self):
        return self.state.in_force.lim.algorithm


def member_of(name):
    return lim_state(name, NAMES).membership.me


@pytest.fixture
def trusts(authority):
    return {name: joined(authority, name) for name in NAMES}


@pytest.fixture
def cluster(trusts):
    """A cluster in which every host may change settings."""
    return {name: Host(tls, AdminConfig()) for name, tls in trusts.items()}


@pytest.fixture
def strict(trusts):
    """A cluster in which only h1 may."""
    return {name: Host(tls, AdminConfig(settings_hosts=("h1",))) for name, tls in trusts.items()}


def forged(tls, author, settings, counter=None):
    """Returns settings signed with that host's key, in any name."""
    seal = m.Seal(counter or int(time.time()) + 9, author, trial_digest(settings))
    shown, signature = seals.sign(tls.credentials, signed_text("c", seal, settings))
    return replace(settings, seal=replace(seal, certificate=shown, signature=signature))


def test_a_change_is_accepted_from_any_host_that_passes_it_on(cluster):
    made = cluster["h1"].change(LOWEST)
    assert made.seal.author == "h1"
    cluster["h3"].hear("h2", made)
    assert (cluster["h3"].algorithm, cluster["h3"].state.settings.saved) == ("LOWEST", made.saved)
    again = cluster["h3"].change(e.ChangeSettings("THRHLD", {}))
    cluster["h1"].hear("h3", again)
    assert cluster["h1"].algorithm == "THRHLD"


def test_it_is_accepted_by_a_host_whose_clock_is_behind_however_drains_are_numbered(strict):
    """Any host can number the drains as high as h1 accepts, by h1's clock."""
    highest = m.counter_max(time.time())
    strict["h1"].hear("h2", m.Settings(highest, "h2"))
    made = strict["h1"].change(LOWEST)
    assert made.counter == highest + 1
    an_hour_ahead = replace(made, counter=made.counter + 3_600_000)
    strict["h3"].hear("h1", an_hour_ahead)
    assert (strict["h3"].algorithm, strict["h3"].state.settings.counter) == ("LOWEST", 0)


def test_before_the_first_one_nobody_raises_its_number_in_another_name(cluster, trusts):
    theirs = m.Settings(5, "h2", "NOLB")
    cluster["h3"].hear("h2", forged(trusts["h2"], "h1", theirs, m.counter_max(time.time())))
    assert cluster["h3"].state.settings.seal == m.NO_SEAL
    cluster["h3"].hear("h1", cluster["h1"].change(LOWEST))
    assert cluster["h3"].algorithm == "LOWEST"


def test_who_signs_two_policies_with_one_number_is_named(cluster, trusts, caplog):
    """h2 told each of two hosts another one, and neither changed its mind again."""
    number = int(time.time()) + 9
    two = [
        forged(trusts["h2"], "h2", m.Settings(5, "h2", name, saved={"lim.algorithm": name}), number)
        for name in ("NOLB", "LOWEST")
    ]
    cluster["h1"].hear("h2", two[0])
    cluster["h3"].hear("h2", two[1])
    cluster["h1"].hear("h3", two[1])
    cluster["h3"].hear("h1", two[0])
    assert cluster["h1"].algorithm == cluster["h3"].algorithm
    (said,) = caplog.messages
    assert said.startswith(f"h2 has signed two different settings with one number, {number}")


def test_who_signs_very_many_with_one_number_does_not_fill_the_log(
    cluster, trusts, caplog, monkeypatch
):
    """In rising order of digest, each applies before the next; other hosts pass them on."""
    monkeypatch.setattr("lbd.lim.policy_guard.LINES", lines := Lines())
    number, many = int(time.time()) + 9, int(LINES_AT_ONCE) + 50
    signed = [
        forged(trusts["h2"], "h2", m.Settings(5, "h2", words={"note": str(one)}), number)
        for one in range(many)
    ]
    for turn, one in enumerate(sorted(signed, key=policy_version)):
        cluster["h1"].guard.vet(m.Message("c", HostId(("h2", "h3")[turn % 2]), 1, one))
        cluster["h1"].state.settings = one
    assert len(caplog.messages) == LINES_AT_ONCE
    caplog.clear()
    lines.say_left_out(time.monotonic() + 1 / LINES_PER_S)
    assert caplog.messages == ["49 more warnings about what host h2 has sent were left out"]


def test_no_author_numbers_it_so_high_that_none_can_follow(cluster, trusts, caplog):
    """Otherwise not even the revocation of that host would help."""
    theirs = m.Settings(5, "h2", "NOLB", saved={"lim.algorithm": "NOLB"}, drains={"h9": True})
    top = m.counter_max(time.time())
    cluster["h3"].hear("h2", forged(trusts["h2"], "h2", theirs, top + 3_600_000))
    found = cluster["h3"].state.settings
    assert (found.algorithm, found.seal, found.drains) == ("", m.NO_SEAL, {"h9": True})
    assert caplog.messages == [
        f"rejected settings from h2: their number {top + 3_600_000} is too high by this host's "
        "clock"
    ]
    for name in ("h1", "h3"):
        cluster[name].hear("h2", forged(trusts["h2"], "h2", theirs, top))
    assert cluster["h3"].algorithm == "NOLB"
    cluster["h3"].hear("h1", cluster["h1"].change(LOWEST))
    assert cluster["h3"].algorithm == "LOWEST"


def test_a_new_host_accepts_it_with_the_list_of_members(strict, caplog):
    made = strict["h1"].change(LOWEST)
    seen = strict["h2"].guard.vet(m.Message("c", HostId("h3"), 1, m.Members((), made)))
    assert seen.body.settings == made
    bad = replace(made, saved={"lim.algorithm": "NOLB"})
    seen = strict["h2"].guard.vet(m.Message("c", HostId("h3"), 1, m.Members((), bad)))
    assert seen.body.settings.saved == {}
    assert "rejected settings from h3: the signature is invalid" in caplog.messages


def bad_ones(trusts, good):
    """Returns, by name, what h2 may send and why it is refused."""
    theirs = m.Settings(99, "h1", "NOLB", saved={"lim.algorithm": "NOLB"})
    h2 = trusts["h2"]
    in_h1s_name = forged(h2, "h1", theirs)
    return {
        "its own": (forged(h2, "h2", theirs), "h2 is not in admin.settings_hosts"),
        "in another's name": (in_h1s_name, "h2 signed them in the name of h1"),
        "with another's certificate": (
            replace(in_h1s_name, seal=replace(in_h1s_name.seal, certificate=good.seal.certificate)),
            "the signature is invalid",
        ),
        "changed on the way": (
            replace(good, counter=99, saved=theirs.saved,
                    seal=replace(good.seal, counter=good.seal.counter + 1)),
            "the signature is invalid",
        ),
        "unsigned": (theirs, "they are not signed"),
        "garbage": (
            replace(theirs, seal=m.Seal(1 << 40, "h1", bytes(32), b"\x30\x03abc", b"x")),
            "they come without a host's certificate",
        ),
        "nothing": (
            replace(theirs, seal=m.Seal(1 << 40, "h1", bytes(32))),
            "they come without a host's certificate",
        ),
    }  # fmt: skip


@pytest.mark.parametrize("case", [
    "its own", "in another's name", "with another's certificate", "changed on the way", "unsigned",
    "garbage", "nothing",
])  # fmt: skip
def test_what_is_not_of_an_author_who_may_is_refused_in_a_line(strict, trusts, caplog, case):
    good = strict["h1"].change(LOWEST)
    strict["h3"].hear("h1", good)
    bad, why = bad_ones(trusts, good)[case]
    for _ in range(3):
        strict["h3"].hear("h2", bad)
    found = strict["h3"].state.settings
    assert (strict["h3"].algorithm, found.saved, found.seal) == ("LOWEST", good.saved, good.seal)
    assert caplog.messages == [f"rejected settings from h2: {why}"], "once"


def test_the_authority_of_another_cluster_vouches_for_nobody(strict, tmp_path, caplog):
    stranger = joined(made_authority(tmp_path / "other"), "h1")
    strict["h3"].hear("h2", forged(stranger, "h1", m.Settings(9, "h1", "NOLB")))
    assert strict["h3"].state.settings.algorithm == ""
    assert "their certificate is not from this cluster" in caplog.text


def test_a_replay_changes_nothing(cluster):
    old = cluster["h1"].change(LOWEST)
    new = cluster["h1"].change(e.ChangeSettings("THRHLD", {}))
    cluster["h3"].hear("h1", new)
    cluster["h3"].hear("h2", replace(old, counter=10**12, author="h9"))
    assert cluster["h3"].algorithm == "THRHLD"
    cluster["h3"].hear("h1", cluster["h1"].change(e.ChangeSettings("NOLB", {})))
    assert cluster["h3"].algorithm == "NOLB", "nor does a number keep the next from being made"


def test_a_host_without_the_right_says_so_and_signs_nothing(strict):
    with pytest.raises(ConfigError, match=r"h2 may not .* only h1 may \(admin.settings_hosts\)"):
        strict["h2"].change(LOWEST)
    note = e.ChangeSettings(None, {}, drain_notes={HostId("h3"): m.DrainNote("disk", "ann", 1.0)})
    strict["h1"].hear("h2", strict["h2"].change(note))
    assert strict["h1"].state.settings.drain_notes.keys() == {"h3"}, "of drains anybody may speak"


def test_who_was_revoked_signs_nothing_more(authority, trusts, cluster, caplog):
    made = cluster["h2"].change(LOWEST)
    cluster["h1"].hear("h2", made)
    trusts["h1"].learn(authority.revoke("h2"))
    assert "settings are signed by h2, which is now revoked" in caplog.text
    cluster["h1"].hear("h3", forged(trusts["h2"], "h2", m.Settings(9, "h2", "NOLB")))
    assert "h2, which signed them, is revoked" in caplog.text
    assert cluster["h1"].algorithm == "LOWEST", "what it had set before holds on"
    trusts["h3"].learn(authority.signed_list())
    cluster["h3"].hear("h1", made)
    assert cluster["h3"].state.settings.saved == {}
    again = cluster["h1"].change(e.ChangeSettings("LOWEST", {}, save=True))
    cluster["h3"].hear("h1", again)
    assert cluster["h3"].algorithm == "LOWEST", "once another host has set it again"


def test_a_host_that_rejects_the_policy_makes_none_and_others_are_told_to_sign_it(
    authority, trusts, cluster
):
    """A newly joined host, which knows nothing, would replace everything with nothing."""
    made = cluster["h2"].change(e.ChangeSettings("LOWEST", {}, save=True))
    cluster["h1"].hear("h2", made)
    assert (cluster["h1"].guard.doubt(), cluster["h3"].guard.doubt()) == ("", "")
    revoked = authority.revoke("h2")
    for name in ("h1", "h3"):
        trusts[name].learn(revoked)
    cluster["h3"].hear("h1", made)
    assert cluster["h3"].state.settings.saved == {}
    with pytest.raises(ConfigError, match=r"h3 rejects the settings .* h2, which signed"):
        cluster["h3"].change(LOWEST)
    for name in ("h1", "h3"):  # and this is reported before anybody tries
        assert cluster[name].guard.doubt() == "h2, which signed them, is revoked"
    again = cluster["h1"].change(e.ChangeSettings(None, {}, save=True))
    assert (again.saved, again.seal.author) == (made.saved, "h1")
    assert cluster["h1"].guard.doubt() == ""
    cluster["h3"].hear("h1", again)
    assert cluster["h3"].guard.doubt() == ""
    assert cluster["h3"].change(e.ChangeSettings("THRHLD", {}, save=True)).seal.author == "h3"


def test_an_old_certificate_of_a_host_that_has_a_new_one(authority, trusts, cluster):
    """As after `lbctl restore`: the certificate is revoked, not the host."""
    made = cluster["h2"].change(e.ChangeSettings("LOWEST", {}, save=True))
    cluster["h3"].hear("h2", made)
    revoked = authority.revoke("h2")
    for tls in trusts.values():
        tls.learn(revoked)
    assert cluster["h2"].guard.doubt() == "h2, which signed them, is revoked"
    trusts["h2"].identity = replace(trusts["h2"].identity, issue=1000)
    assert cluster["h2"].guard.doubt() == "they are signed with an old certificate of h2"
    assert cluster["h3"].guard.doubt() == "h2, which signed them, is revoked"


def test_a_restart_keeps_the_policy_with_its_seal(trusts, strict):
    made = strict["h1"].change(e.ChangeSettings("LOWEST", {"lim.min_gain": 0.4}, save=True))
    made = strict["h1"].change(e.ChangeSettings("THRHLD", {}))  # not saved
    kept = settings_of(table(settings_bytes(made.lasting, "c1")))
    assert (kept.seal, kept.saved) == (made.seal, made.saved)
    again = Host(trusts["h2"], AdminConfig(settings_hosts=("h1",)), kept)
    strict["h3"].hear("h2", again.state.settings)
    assert strict["h3"].state.settings.saved == made.saved, "handed on by a host that has restarted"
    assert strict["h3"].algorithm == "LOWEST"
    strict["h3"].hear("h1", made)
    assert strict["h3"].algorithm == "THRHLD", "the rest of it by one that has not"


SHORT = {"counter": 1, "author": "h1", "trial": "zz" * 32, "certificate": "", "signature": ""}


@pytest.mark.parametrize("seal", [7, {"counter": 1}, SHORT, {**SHORT, "trial": "00"}])
def test_settings_with_a_damaged_seal_are_ignored(seal):
    kept = json.loads(settings_bytes(m.Settings(3), "c1"))
    with pytest.raises(ValueError, match=r"not the seal|non-hexadecimal"):
        settings_of({**kept, "seal": seal})


def test_a_warning_is_given_if_the_saved_settings_were_never_signed(trusts, caplog):
    before = m.Settings(3, saved={"dispatch.lease_s": "20"})
    Host(trusts["h1"], AdminConfig(settings_hosts=("h1",)), before)
    assert "the settings saved for all hosts are not signed" in caplog.text


def test_a_policy_that_nobody_signed(cluster, strict):
    """It is accepted while no policy is signed, but never where only some hosts may change
    settings."""
    theirs = m.Settings(7, "h3", "LOWEST", saved={"lim.algorithm": "LOWEST"})
    cluster["h1"].hear("h3", theirs)
    strict["h1"].hear("h3", theirs)
    assert (cluster["h1"].algorithm, strict["h1"].state.settings.saved) == ("LOWEST", {})
    cluster["h1"].change(e.ChangeSettings("THRHLD", {}))
    cluster["h1"].hear("h3", replace(theirs, counter=99))
    assert cluster["h1"].algorithm == "THRHLD", "signed once, signed always"


async def test_if_hosts_have_no_certificates_no_seal_counts(authority):
    network = LimNetwork(Plain("h1", "x" * 40), 1 << 20, 10.0)
    theirs = m.Settings(3, "h2", "LOWEST", seal=m.Seal(1 << 40, "h2", bytes(32)))
    assert network.vet(m.Message("c", HostId("h2"), 1, theirs)).body == replace(
        theirs, seal=m.NO_SEAL
    )
    await network.close()


def test_complaints_are_bounded(strict, caplog):
    bad = m.Settings(99, "h1", "NOLB")
    for number in range(SAYERS_MAX + 5):
        strict["h3"].guard.vet(m.Message("c", HostId(f"x{number}"), 1, bad))
    assert len(strict["h3"].guard._said_s) <= SAYERS_MAX


def test_only_the_settings_of_a_message_are_examined(strict):
    for body in (m.Ping(), m.Members((), m.Settings())):
        message = m.Message("c", HostId("h2"), 1, body)
        assert strict["h3"].guard.vet(message) == message


def test_certificates_with_long_names_fit(authority):
    name = "n" * 60 + ".x" * 60
    made = joined(authority, name)
    shown, signature = seals.sign(made.credentials, b"text")
    assert len(shown) < m.CERTIFICATE_BYTES_MAX
    assert seals.signer_of(authority.certificate, shown, signature, b"text").host == name
