"""What a joining host believes of the host that answers it."""

import pytest

from lbd.errors import PeerError
from lbd.net import joining
from lbd.net.gen import trust_pb2 as pb
from lbd.trust.token import Token
from tests.unit.enrolment import enrolled, made_authority

NOW_S = 1.8e9


@pytest.mark.parametrize("lie", ["another host's", "the cluster", "the home"])
def test_no_host_gives_anything_in_place_of_the_authority(tmp_path, monkeypatch, lie):
    """Any host of the cluster can pass for the one at that address. `lbctl join` stored the
    certificate of that host, reported success, and printed the name on the terminal unescaped."""
    authority = made_authority(tmp_path / "authority")

    def answer(_address, _authority, _own, request):
        made = authority.renew("h3", 0, request.request, NOW_S)
        if lie == "another host's":
            made = enrolled(authority, "h2").read_credentials().chain
        return pb.JoinReply(
            cluster="\x1b[2J" if lie == "the cluster" else "lbd",
            authority_host="h1 x" if lie == "the home" else "h1",
            certificates=made,
        )

    enrolled(authority, "h3")
    monkeypatch.setattr(joining, "ask", answer)
    monkeypatch.setattr(joining, "authority_at", lambda *_: authority.certificate)
    with pytest.raises(PeerError, match=r"certificate is not for h3|malformed"):
        joining.join(("127.0.0.1", 1), Token(b"s" * 16, b"f" * 32), "h3", NOW_S)
