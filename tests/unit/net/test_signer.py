"""The process that holds the authority's key, asked by a possibly compromised LIM."""

import asyncio
import os
import stat
import time

import pytest

from lbd.errors import ConfigError, LbdError, PeerError, Unavailable
from lbd.local import json_socket as local
from lbd.net.signer import AskedAuthority, Signer
from lbd.trust import certificates, evidence
from lbd.trust.authority import Authority, verified
from lbd.trust.files import Credentials
from lbd.trust.names import Identity, names_of
from lbd.trust.revocations import Revocations
from tests.unit.enrolment import made_authority

DAY_S = 86400.0
LIM = local.Caller(1, 1234, 1234)


@pytest.fixture
def signer(authority):
    return Signer(authority, LIM.uid)


def newcomer(authority, host, at_s=None):
    """Returns a token, a key, what the new host presents, and what it requests."""
    at_s = at_s or time.time()
    token, key = authority.new_token(host, 60.0, at_s), certificates.new_key()
    shown = certificates.certificate_of_newcomer(token, key, host, at_s)
    return token, key, shown, certificates.new_request(key, host)


def joined(authority, host):
    _, key, shown, request = newcomer(authority, host)
    return Credentials(key, authority.join_shown(shown, host, request, time.time()))


def ask(signer, op, caller=LIM, **given):
    given = {key: v.decode() if isinstance(v, bytes) else v for key, v in given.items()}
    return signer.answer({"op": op, **given}, caller, time.time())["made"].encode()


def renewal(own, request):
    proof = evidence.proof_of_renewal(own.key, request)
    return {"shown": own.certificate.encode(), "request": request, "proof": proof.hex()}


def test_a_new_host_joins_and_a_member_renews(authority, signer):
    _, key, shown, request = newcomer(authority, "h2")
    made = ask(signer, "join", shown=shown, host="h2", request=request)
    own = Credentials(key, made)
    fresh = certificates.new_request(certificates.new_key(), "h2")
    again = ask(signer, "renew", **renewal(own, fresh))
    assert certificates.is_signed_by(again, authority.certificate)
    assert verified(ask(signer, "list"), authority.certificate) == Revocations()


def test_a_token_is_good_only_for_the_key_and_the_name_it_has_signed(authority, signer):
    """A host that passes the request on cannot replace the key or the name in it."""
    token, _, shown, request = newcomer(authority, "h2")
    own = certificates.new_request(certificates.new_key(), "h2")
    for host, asked in (("h2", own), ("h3", request), ("h2", b"x"), ("h2", b"")):
        with pytest.raises(PeerError):
            ask(signer, "join", shown=shown, host=host, request=asked)
    other = certificates.new_authority("x", time.time())
    made_up = certificates.signed(
        other, certificates.private_key(certificates.new_key()).public_key(), "h2", ("h2",),
        time.time(), 60.0,
    )  # fmt: skip
    for wrong in (made_up, b"", b"garbage"):
        with pytest.raises(PeerError, match="needs a token"):
            ask(signer, "join", shown=wrong, host="h2", request=request)
    assert authority.ledger().hosts == {}
    ask(signer, "join", shown=shown, host="h2", request=request)
    with pytest.raises(LbdError, match=f"token {token.id} has already been used"):
        ask(signer, "join", shown=shown, host="h2", request=request)


def test_nobody_renews_for_another(authority, signer):
    """A certificate is public; its key is not."""
    h2, h3 = joined(authority, "h2"), joined(authority, "h3")
    request = certificates.new_request(certificates.new_key(), "h2")
    by_h3 = evidence.proof_of_renewal(h3.key, request).hex()
    plain = certificates.private_key(h2.key).sign(request, certificates.SIGNED_WITH).hex()
    of_another = evidence.proof_of_renewal(h2.key, b"another").hex()
    for proof in (by_h3, plain, of_another, "", "00"):
        with pytest.raises(
            PeerError, match="h2 does not prove possession of its certificate's key"
        ):
            ask(signer, "renew", shown=h2.certificate.encode(), request=request, proof=proof)
    with pytest.raises(PeerError, match="not a signature"):
        ask(signer, "renew", shown=h2.certificate.encode(), request=request, proof="x")
    made_for = certificates.signed(
        authority.credentials(), certificates.private_key(h3.key).public_key(), "h3",
        ("0.h2.lbd.",), time.time(), 60.0,
    )  # fmt: skip
    for wrong in (made_for, authority.certificate, b"", b"garbage"):
        with pytest.raises(PeerError, match="not a host's"):
            ask(signer, "renew", **renewal(h3, request) | {"shown": wrong})
    authority.revoke("h2")
    with pytest.raises(LbdError, match="h2 is revoked"):
        ask(signer, "renew", **renewal(h2, request))


def test_an_expired_certificate_is_not_renewed(authority):
    h2 = joined(authority, "h2")
    request = certificates.new_request(certificates.new_key(), "h2")
    proof = evidence.proof_of_renewal(h2.key, request)
    shown, root = h2.certificate.encode(), authority.certificate
    found = evidence.check_renewal(root, shown, request, proof, time.time())
    assert found == Identity("h2", 0)
    assert "h2" in names_of("h2", 0)
    end_s = h2.valid_s[1]
    assert evidence.check_renewal(root, shown, request, proof, end_s) == found
    for now_s in (end_s + 1.0, time.time() - 2 * DAY_S):
        with pytest.raises(PeerError, match="not a host's"):
            evidence.check_renewal(root, shown, request, proof, now_s)


def test_a_certificate_signed_by_another_authority_is_not_renewed(authority, tmp_path):
    """Anyone who makes an authority of their own has certificates, and keys, for any name."""
    h2 = joined(made_authority(tmp_path / "other"), "h2")
    request = certificates.new_request(certificates.new_key(), "h2")
    proof = evidence.proof_of_renewal(h2.key, request)
    shown, root = h2.certificate.encode(), authority.certificate
    with pytest.raises(PeerError, match="not a host's"):
        evidence.check_renewal(root, shown, request, proof, time.time())


def test_only_the_daemons_may_ask(signer):
    for uid in (1000, 65534):
        with pytest.raises(local.Refusal, match="only this host's daemons"):
            ask(signer, "list", local.Caller(1, uid, uid))
    ask(signer, "list", local.Caller(1, 0, 0))
    with pytest.raises(local.Refusal, match="does not know"):
        ask(signer, "revoke", host="h2")


class ALim(AskedAuthority):
    """A LIM of a user that may not read the key."""

    has_key = False


async def test_a_lim_requests_what_it_may_not_sign(authority, tmp_path):
    signer, path = Signer(authority, os.geteuid()), tmp_path / "authority.sock"

    async def answer(asked, caller):
        return signer.answer(asked, caller, time.time())

    server = await local.serve_json(path, answer, 0o600)
    asked = ALim(authority.root, DAY_S, path)
    _, key, shown, request = newcomer(authority, "h2")
    now_s, run = time.time(), asyncio.to_thread
    made = await run(asked.join_shown, shown, "h2", request, now_s)
    own = Credentials(key, made)
    proof = evidence.proof_of_renewal(key, request)
    again = await run(asked.renew_shown, own.certificate.encode(), request, proof, now_s)
    assert certificates.is_signed_by(again, authority.certificate)
    assert verified(await run(asked.signed_list), authority.certificate) == Revocations()
    with pytest.raises(local.Refusal, match="h2 does not prove"):
        await run(asked.renew_shown, own.certificate.encode(), request, b"", now_s)
    server.close()


def test_a_lim_without_the_process_says_so(authority, tmp_path):
    asked = ALim(authority.root, DAY_S, tmp_path / "authority.sock")
    with pytest.raises(Unavailable, match="authority is not running"):
        asked.signed_list()


@pytest.mark.root
def test_the_key_is_roots_alone_and_who_signs_is_not_led_elsewhere(
    authority, tmp_path, monkeypatch
):
    """Once it runs it stays with the directory it has checked, whatever is put in its place."""
    monkeypatch.chdir(tmp_path)
    real, group = authority.root, 65534
    authority.keep_from(group)
    found = {path.name: path.stat() for path in real.iterdir()}
    shown = {name: (s.st_uid, s.st_gid, stat.S_IMODE(s.st_mode)) for name, s in found.items()}
    assert shown == {"authority.pem": (0, group, 0o600), "ledger.json": (0, group, 0o640)}
    assert stat.S_IMODE(real.stat().st_mode) == 0o750
    assert real.stat().st_uid == 0
    root = authority.certificate

    real.rename(tmp_path / "aside")
    fake = Authority(real, DAY_S)
    fake.create("fake", "h1", time.time())
    fake.new_token("h9", 60.0, time.time())
    assert authority.certificate == root
    assert authority.ledger().tokens == ()
    authority.new_token("h2", 60.0, time.time())
    ledger = tmp_path / "aside/ledger.json"
    assert stat.S_IMODE(ledger.stat().st_mode) == 0o640
    assert {path.name for path in (tmp_path / "aside").iterdir()} == set(found)

    os.link(tmp_path / "aside/authority.pem", real / "linked")
    (real / "linked").rename(real / "authority.pem")
    with pytest.raises(ConfigError, match="was not made by"):
        Authority(real, DAY_S).keep_from(group)


@pytest.mark.root
def test_a_directory_that_is_not_owned_by_root_is_not_given_to_others(authority):
    os.chown(authority.root, 65534, 65534)
    with pytest.raises(ConfigError, match="is not owned by root"):
        authority.show_to(65534)
