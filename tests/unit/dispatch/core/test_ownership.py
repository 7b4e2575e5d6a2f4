"""Who may act on whose jobs."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import AdminConfig, Config
from lbd.dispatch.core.ownership import Asker, Owners, fault_of_admins
from tests.unit.dispatch.core.test_cutoffs import row


async def nobody_asks(number):
    raise AssertionError(number)


@pytest.mark.parametrize(
    ("host", "counts"), [("h1", True), ("desk-3", True), ("h2", False), ("desk", False)]
)
def test_the_host_of_an_administrator_is_that_of_the_dispatcher_or_one_that_it_names(host, counts):
    config = Config(dispatch=DispatchConfig(host="h1"), admin=AdminConfig(hosts=("desk-*",)))
    assert (fault_of_admins(host, config) == "") == counts
    nobody = replace(config, admin=AdminConfig())
    assert (fault_of_admins(host, nobody) == "") == (host == "h1")


@pytest.mark.parametrize(("by_uid", "uid"), [(True, 1000), (False, None)])
def test_user_numbers_are_required_where_they_count(by_uid, uid):
    assert Owners(by_uid, nobody_asks).asker("ann", 1000) == Asker("ann", uid)


@pytest.mark.parametrize(
    ("by_uid", "asker", "owns"),
    [
        (True, Asker("bob", 1000), True), (True, Asker("ann", 7), False),
        (True, Asker("ann"), False), (False, Asker("ann"), True), (False, Asker("bob"), False),
    ],
)  # fmt: skip
def test_a_job_belongs_to_its_user_by_name_or_by_number(by_uid, asker, owns):
    assert Owners(by_uid, nobody_asks).owns(asker, SimpleNamespace(user="ann", uid=1000)) is owns


@pytest.mark.parametrize("by_uid", [True, False])
async def test_user_numbers_missing_in_an_older_ledger_are_looked_up_where_they_count(by_uid):
    asked = []

    async def uid_of(submission):
        asked.append(submission)
        return 1000 + submission

    uids = ((7, 5), (None, 6), (None, 6), (None, 8))
    rows = [row(uid=uid, submission=submission) for uid, submission in uids]
    found = await Owners(by_uid, uid_of).known(rows)
    assert sorted(asked) == ([6, 8] if by_uid else [])
    assert [one.uid for one in found] == ([7, 1006, 1006, 1008] if by_uid else [7, *[None] * 3])
