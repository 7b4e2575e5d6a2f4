"""What the LIM answers when no host can take a command."""

import pytest

from lbd.lim.socket import Operations
from lbd.local.json_socket import Refusal
from lbd.model import Candidate, HostId
from lbd.policy.view import Nowhere


def test_the_hosts_are_listed_in_order():
    whys = tuple(Candidate(HostId(f"h{n}"), 0.0, 0.0, False, "no gpu") for n in (3, 10, 1))
    with pytest.raises(Refusal, match=r"^none \(h1: no gpu, h3: no gpu, h10: no gpu\)$"):
        Operations._nowhere(None, Nowhere("none", whys), dry=False)
