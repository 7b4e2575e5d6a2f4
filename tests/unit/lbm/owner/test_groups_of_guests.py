"""`[admission] groups`: the user database may be slow (LDAP), but it delays nobody else."""

import asyncio
import threading
from dataclasses import replace

from lbd.config.access import AdmissionConfig
from lbd.config.schema import Config
from lbd.keeper.local_account import Asker, LocalUser
from lbd.lbm.owner import rules as owners_rules
from lbd.lbm.owner.rules import InForce

STAFF, WHEEL = 50, 10
ANN = Asker("ann", 1000)
ACCOUNT = LocalUser("ann", 1000, STAFF, (STAFF, WHEEL), "/home/ann")


async def test_others_continue_while_the_user_database_is_slow(monkeypatch):
    answers = threading.Event()

    def slow(gid):
        assert answers.wait(20), "the event loop waits for the user database"
        return {STAFF: "staff", WHEEL: "wheel"}[gid]

    monkeypatch.setattr(owners_rules, "group_name", slow)
    admission = AdmissionConfig(groups=("staff",), deny_groups=("adm",))
    rules = InForce(replace(Config(), admission=admission), Config)
    asking = asyncio.create_task(rules.refusal(ANN, ACCOUNT, "h1"))
    await asyncio.sleep(0)
    answers.set()
    assert await asking is None
    rules = InForce(replace(Config(), admission=AdmissionConfig(deny_groups=("wheel",))), Config)
    refused = await rules.refusal(ANN, ACCOUNT, "h1")
    assert "deny_groups" in refused.reason
    assert await rules.refusal(ANN, None, "h1") is None, "as the keeper's own user"


def test_nobody_is_allowed_at_once_whose_groups_may_decide():
    def allows(**admission):
        rules = InForce(replace(Config(), admission=AdmissionConfig(**admission)), Config)
        return rules.allow(ANN, ACCOUNT, "h1")

    assert allows()
    assert allows(users=("ann",))
    assert not allows(deny_users=("ann",))
    assert not allows(users=("bob",))
    assert not allows(deny_origins=("h1",))
    assert not allows(groups=("staff",))
    assert not allows(deny_groups=("adm",))
