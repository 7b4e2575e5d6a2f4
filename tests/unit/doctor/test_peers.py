"""What the doctor says of other hosts."""

import pytest

from lbd.config.schema import ClusterConfig, Config, HostConfig
from lbd.doctor.peers import fix_of, join_address
from lbd.keeper.run_as import ROOT_REFUSED


def test_root_is_told_to_ask_as_somebody_else() -> None:
    assert "ordinary user" in fix_of(ROOT_REFUSED)
    assert "same account" in fix_of("no user ann here")


@pytest.mark.parametrize(
    ("join", "address", "warns"),
    [
        ("10.0.0.1:7901", "10.0.0.4:7901", True),
        ("10.0.0.1:7901", "10.0.0.4", True),
        ("10.0.0.4:7901", "10.0.0.4:7901", False),
        ("10.0.0.4:7901", "10.0.0.4", False),
        ("10.0.0.2:7901", "10.0.0.4", False),  # its own
        ("h1.example:7901", "10.0.0.4", False),
        ("10.0.0.1:7901", "h1.example", False),
        ("[fd00::1]:7901", "fd00::1", False),
        ("", "10.0.0.4", False),
    ],
)
def test_an_address_to_join_by_that_no_host_has_any_more_is_said(join, address, warns) -> None:
    config = Config(
        host=HostConfig(name="h2", address="10.0.0.2"), cluster=ClusterConfig(join=join)
    )
    rows = {"name": "h2", "address": "10.0.0.2"}, {"name": "h1", "address": address}
    assert [check.name for check in join_address(rows, config)] == ["cluster.join"] * warns
    assert list(join_address([], config)) == []
