"""What renews a lease is known to a host and to the dispatchers of one ledger."""

from lbd.dispatch.ledger.lease_tokens import PARTS, TOKEN_BYTES, lease_secret, lease_token
from tests.unit.dispatch.ledger.test_ledger import opened
from tests.unit.dispatch.ledger.test_longest_lease import ledger  # noqa: F401  # of both stores
from tests.unit.dispatch.services import asking
from tests.unit.dispatch.services import opened as dispatcher_on
from tests.unit.until import until


async def test_the_next_dispatcher_of_a_ledger_has_the_same_secret(ledger):  # noqa: F811
    secret = await lease_secret(ledger)
    assert await lease_secret(ledger) == secret
    assert len(secret) == 16
    assert secret != bytes(16)


async def test_a_secret_of_which_only_a_part_was_written_is_completed(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as made:
        await made.set_counter(PARTS[0], (1 << 63) - 1)
        secret = await lease_secret(made)
        assert secret[:8] == b"\x7f" + b"\xff" * 7
        assert await lease_secret(made) == secret


def test_each_host_has_another_token():
    tokens = {lease_token(secret, host) for secret in (b"1", b"2") for host in ("h1", "h2", "h21")}
    assert len(tokens) == 6
    assert {len(token) for token in tokens} == {TOKEN_BYTES}


async def test_it_comes_with_the_order_and_with_each_renewal(tmp_path):
    async with dispatcher_on(tmp_path / "ledger.sqlite") as world:
        line = world.host("h3")
        await world.submit(asking())
        await until(lambda: line.starts)
        world.host("h3")
        (start,) = line.starts
        expected = lease_token(world.dispatcher.lease_secret, "h3")
        assert start.lease_token == line.answer.lease_token == expected
