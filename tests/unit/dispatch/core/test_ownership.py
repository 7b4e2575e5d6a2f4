"""Who may act on whose jobs."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import AdminConfig, Config
from lbd.dispatch.core.ownership import Asker, Owners, fault_of_admins


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
    assert Owners(by_uid).asker("ann", 1000) == Asker("ann", uid)


@pytest.mark.parametrize(
    ("by_uid", "asker", "owns"),
    [
        (True, Asker("bob", 1000), True), (True, Asker("ann", 7), False),
        (True, Asker("ann"), False), (False, Asker("ann"), True), (False, Asker("bob"), False),
    ],
)  # fmt: skip
def test_a_job_belongs_to_its_user_by_name_or_by_number(by_uid, asker, owns):
    assert Owners(by_uid).owns(asker, SimpleNamespace(user="ann", uid=1000)) is owns
