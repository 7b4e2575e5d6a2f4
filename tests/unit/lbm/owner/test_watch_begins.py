"""When a host begins to look for its owner."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

from lbd.config.access import AdmissionConfig
from lbd.config.schema import Config
from lbd.lbm.owner.rules import InForce
from lbd.lbm.owner.watch import Owner


async def test_it_looks_as_soon_as_its_rules_say_so(tmp_path):
    """`lbctl owners` said "not watched" of rules that were in force."""
    config = Config()
    config = replace(config, host=replace(config.host, state_dir=str(tmp_path)))
    rules = InForce(config, lambda: config)
    owner = Owner(SimpleNamespace(config=config, rules=rules, executions=()), lambda: None)
    watching = asyncio.create_task(owner.watch())
    await asyncio.sleep(0)
    assert owner.book.is_here is None
    rules.config = replace(config, admission=AdmissionConfig(owner_load=60_000.0))
    owner.look_again()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert owner.book.is_here is False
    record = tmp_path / "owner.json"
    record.unlink(missing_ok=True)
    rules.config = config
    owner.look()
    assert owner.book.is_here is None
    assert record.exists(), "what was learnt until then was lost at the next restart"
    watching.cancel()
    await asyncio.wait([watching])
