"""For which users another host may speak here, and what it is not shown."""

import pytest

from lbd.config.access import AdminConfig, AdmissionConfig, UsersConfig
from lbd.config.schema import Config, HostConfig
from lbd.lbm.core.vouching import fault_of_speaker, why_withheld

ANYBODY, NOT_H2 = AdmissionConfig(), AdmissionConfig(deny_origins=("h2",))


def config(map_by="name"):
    host, admin = HostConfig(name="h1"), AdminConfig(hosts=("adm*",))
    return Config(host=host, admin=admin, users=UsersConfig(map=map_by))


@pytest.mark.parametrize(
    ("admission", "host", "fault"),
    [
        (ANYBODY, "h2", ""),
        (NOT_H2, "h2", "admission.deny_origins"),
        (NOT_H2, "h3", ""),
        (AdmissionConfig(origins=("h3",)), "h2", "admission.origins"),
        (AdmissionConfig(origins=("h3",)), "h1", ""),  # about its own users
        (AdmissionConfig(origins=("h3",)), "adm1", ""),
    ],
)
def test_a_host_speaks_for_its_users_where_their_commands_are_admitted(admission, host, fault):
    assert fault_of_speaker(config(), admission, host) == fault


@pytest.mark.parametrize(
    ("map_by", "admission", "host", "user", "uid", "why"),
    [
        ("name", ANYBODY, "h2", "ann", None, ""),
        ("name", NOT_H2, "h2", "ann", 1001, "admission.deny_origins"),
        ("name", ANYBODY, "h2", "", 1001, "admin.hosts"),  # of all users
        ("uid", ANYBODY, "h2", "ann", None, "admin.hosts"),  # whose they are is unknown
        ("uid", ANYBODY, "h2", "ann", 1001, ""),
        ("uid", ANYBODY, "h1", "", None, ""),
        ("uid", NOT_H2, "adm1", "", None, ""),
    ],
)
def test_what_a_host_is_not_shown(map_by, admission, host, user, uid, why):
    assert why_withheld(config(map_by), admission, host, user, uid) == why
