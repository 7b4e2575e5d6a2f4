"""What `lbctl doctor` says of other hosts."""

import time

import pytest

from lbd.config.access import AdminConfig
from lbd.config.schema import ClusterConfig, Config, HostConfig
from lbd.console.daemons import Daemons
from lbd.doctor.checks import FAULT, OK, SEE_CERTIFICATE, WARN
from lbd.doctor.findings import check_lbm, no_peers
from lbd.doctor.peers import (
    administrators_hosts,
    fix_of,
    join_address,
    network,
    ports,
    sharing,
)
from lbd.keeper.local_account import CLOSED, ROOT_REFUSED
from lbd.lbm.core.admission import not_allowed
from lbd.model import Closed
from lbd.text.closed_words import NOT_HEARD_YET, WORDS
from lbd.trust.authority import Authority
from lbd.trust.enrol import enrol
from lbd.trust.files import host_files


def test_root_is_told_to_ask_as_another_user() -> None:
    assert "ordinary user" in fix_of(ROOT_REFUSED, "h2")
    assert "account with the same name" in fix_of(
        "no user 'ann' here (users.map, users.unknown)", "h2"
    )


def test_the_way_to_a_host_from_a_directory_that_is_not_shared_leads_there() -> None:
    """`-C /` alone is refused, too: `/` is as little shared."""
    assert "`lbrun -H h2 -C /`" in fix_of("the directory / is not shared", "h2")


@pytest.mark.parametrize(
    ("why", "rule"),
    [
        ("commands of bob are not allowed here (admission.deny_users)", "admission.deny_users"),
        ("commands from h1 are not allowed here (admission.origins)", "admission.origins"),
        (WORDS[Closed.HOURS], "admission.when"),
        (WORDS[Closed.LOAD], "admission.load_ceiling"),
        ("gcc is not allowed here (admission.commands)", "admission.commands"),
    ],
)
def test_a_decision_of_an_owner_is_not_ours_to_change(why: str, rule: str) -> None:
    assert fix_of(why, "h2") == f"the owner of h2 decides: {rule} in its lbd.toml"


def test_a_host_of_a_lim_that_has_just_started_is_asked_again_later():
    assert fix_of(NOT_HEARD_YET, "h2").startswith("wait some seconds and try again")


@pytest.mark.parametrize("rule", ["admission.programs", "admission.deny_programs"])
def test_a_host_that_runs_only_some_programs_is_well(rule, monkeypatch):
    why = not_allowed("true", rule, "only /usr/bin/python3 may run")
    rows = [{"name": "h2", "why": why}, {"name": "h1", "why": ""}]
    daemons = Daemons(Config(host=HostConfig(name="h1")))
    monkeypatch.setattr(Daemons, "lbm", lambda *_: {"candidates": rows})
    (found,) = sharing(daemons)
    assert (found.state, found.fix) == (OK, "")
    assert found.says == f"accepts only some programs from here ({rule}); `true` is none of them"


def test_a_busy_cluster_has_nothing_to_fix(monkeypatch):
    """That all slots were taken was a warning for each host."""
    rows = [{"name": "h2", "why": "no free slot"}, {"name": "h1", "why": ""}]
    daemons = Daemons(Config(host=HostConfig(name="h1")))
    monkeypatch.setattr(Daemons, "lbm", lambda *_: {"candidates": rows})
    (found,) = sharing(daemons)
    assert (found.state, found.says, found.fix) == (OK, "all its slots are taken now", "")


@pytest.mark.parametrize("why", ["late", "down", "revoked"])
def test_a_host_that_is_not_reached_is_no_second_fault(why, monkeypatch):
    """Beside the fault: `accepts none from here: late; fix: see lbctl explain COMMAND`."""
    rows = [{"name": "h2", "why": why}, {"name": "h1", "why": ""}]
    daemons = Daemons(Config(host=HostConfig(name="h1")))
    monkeypatch.setattr(Daemons, "lbm", lambda *_: {"candidates": rows})
    assert not [*sharing(daemons)]


def test_a_keeper_with_old_settings_is_to_be_restarted():
    why = "its keeper does not become ann: it may run with other [users] settings than lbd.toml"
    assert "`systemctl restart lbd-keeper`" in fix_of(why, "h2")


@pytest.mark.parametrize(
    ("how", "fix"),
    [
        ("locked", "unlock it (usermod -U carl), or list it in users.allow"),
        ("expired", "(chage -E -1 carl)"),
        ("shell", "(usermod -s /bin/bash carl)"),
        ("nologin", "wait until"),
    ],
)
def test_an_account_that_may_not_log_in_exists_already(how: str, fix: str) -> None:
    why = f"the account that carl has {CLOSED[how]} (users.allow)"
    assert fix_of(why, "h2").startswith("on h2, ")
    assert fix in fix_of(why, "h2")


def test_a_keeper_that_is_not_running_is_started_where_it_is_missing() -> None:
    assert fix_of(WORDS[Closed.NO_KEEPER], "h2").startswith(
        "on h2, as root: `systemctl start lbd-keeper`"
    )


def test_the_fix_of_a_drain_can_be_typed() -> None:
    assert fix_of(WORDS[Closed.DRAINED], "h2").startswith("run `lbctl undrain h2` once ")


def test_words_from_a_host_put_nothing_into_a_command() -> None:
    why = f"the account that x; rm -r / has {CLOSED['locked']} (users.allow)"
    assert "usermod -U 'x; rm -r /'" in fix_of(why, "h2")


@pytest.mark.parametrize(
    ("join", "address", "warns"),
    [
        ("10.0.0.1:7901", "10.0.0.4:7901", True),
        ("10.0.0.1:7901", "10.0.0.4", True),
        ("10.0.0.4:7901", "10.0.0.4:7901", False),
        ("10.0.0.4:7901", "10.0.0.4", False),
        ("10.0.0.2:7901", "10.0.0.4", False),  # its own address
        ("h1.example:7901", "10.0.0.4", False),
        ("10.0.0.1:7901", "h1.example", False),
        ("[fd00::1]:7901", "fd00::1", False),
        ("", "10.0.0.4", False),
    ],
)
def test_a_join_address_that_no_host_has_any_more_is_reported(join, address, warns) -> None:
    config = Config(
        host=HostConfig(name="h2", address="10.0.0.2"), cluster=ClusterConfig(join=join)
    )
    rows = {"name": "h2", "address": "10.0.0.2"}, {"name": "h1", "address": address}
    assert [check.name for check in join_address(rows, config)] == ["cluster.join"] * warns
    assert list(join_address([], config)) == []


def test_on_the_host_of_the_authority_a_join_address_is_unset(tmp_path, monkeypatch) -> None:
    """It was so where others are known; alone, another host's address was to be set."""
    monkeypatch.setattr(Daemons, "lim", lambda *_: {"signs": True})
    host = HostConfig(name="h2", address="10.0.0.2", state_dir=str(tmp_path))
    config = Config(host=host, cluster=ClusterConfig(join="10.0.0.1:7901"))
    files = host_files(config)
    files.root.mkdir()
    rows = {"name": "h2", "address": "10.0.0.2"}, {"name": "h3", "address": "10.0.0.3"}
    for home, unset in (("h1", False), ("h2", True)):
        files.home.write_text(f"{home} 10.0.0.9:7901\n")
        (check,) = join_address(rows, config)
        for one in (check, no_peers(Daemons(config))):
            assert ("cluster.join --unset`" in one.fix) == unset
    assert no_peers(Daemons(config), SEE_CERTIFICATE).fix == SEE_CERTIFICATE


def test_a_lost_host_that_settings_still_name_is_reported() -> None:
    """After a restore on h2 it saw only jobs submitted there, as the others still named h1."""
    admin = AdminConfig(hosts=("h1", "h2", "login*"), settings_hosts=("h2",))
    config = Config(host=HostConfig(name="h3"), admin=admin)
    rows = [{"name": "h3"}, {"name": "h2"}]
    (found,) = administrators_hosts(rows, config)
    assert (found.name, found.says) == ("admin.hosts", "names h1, not in this cluster now")
    assert """admin.hosts '["h2", "login*"]'`""" in found.fix
    assert not [*administrators_hosts([*rows, {"name": "h1"}], config)]
    assert not [*administrators_hosts([], config)]


def silent(name: str, error: str = "no answer within 2 s") -> dict[str, object]:
    return {"name": name, "reachable": False, "error": error}


@pytest.mark.parametrize(
    ("peers", "rows", "says"),
    [
        ([silent("h2"), silent("h3")], {}, "no other host answers (h2, h3), so this host itself"),
        ([silent("h2"), silent("h3")], {"h3": {"why_down": "was stopped"}}, "answers (h2), so"),
        ([silent("h2"), {"name": "h3", "reachable": True}], {}, ""),
        ([silent("h2", "Connection refused (111)")], {}, ""),
        ([silent("h2", "h2: h1 is revoked")], {}, ""),
        ([silent("h2")], {"h2": {"revoked": True}}, ""),
        ([], {}, ""),
    ],
)
def test_a_host_that_hears_nobody_suspects_its_own_link(peers, rows, says) -> None:
    found = [*network(peers, rows)]
    assert [says in check.says for check in found] == [True] * bool(says)
    assert all(check.fix.startswith("check its own link first: `ip link`") for check in found)


@pytest.mark.parametrize(("signs", "state"), [(False, FAULT), (True, WARN), (None, WARN)])
def test_a_host_that_has_joined_but_was_not_restarted(tmp_path, monkeypatch, signs, state) -> None:
    host = HostConfig(name="h2", state_dir=str(tmp_path))
    daemons = Daemons(Config(host=host, cluster=ClusterConfig(join="10.0.0.1:7901")))
    authority = Authority(tmp_path / "authority", 60.0)
    authority.create("c", "h1", time.time())
    enrol(authority, host_files(daemons.config), "h2", "10.0.0.1:7901", time.time())
    monkeypatch.setattr(Daemons, "lim", lambda *_: {"signs": signs})
    found = no_peers(daemons)
    assert (found.state, found.fix.startswith("`lbctl restart`")) == (state, state == FAULT)


@pytest.mark.parametrize(("closed", "state"), [(Closed.ALONE, FAULT), (Closed.LOAD, OK)])
def test_an_lbm_that_was_started_before_its_certificate_came(
    tmp_path, monkeypatch, closed, state
) -> None:
    """After `lbctl join` on a busy machine the LIM was slow to restart, and the LBM was left: the
    doctor sent one to the dispatcher's host, and there to `systemctl start`."""
    host = HostConfig(name="h2", state_dir=str(tmp_path), runtime_dir=str(tmp_path))
    daemons = Daemons(Config(host=host))
    authority = Authority(tmp_path / "authority", 60.0)
    authority.create("c", "h1", time.time())
    enrol(authority, host_files(daemons.config), "h2", "10.0.0.1:7901", time.time())
    row = {"name": "h2", "why_closed": WORDS[closed]}
    monkeypatch.setattr(Daemons, "lim", lambda *_: {"hosts": [row]})
    monkeypatch.setattr(Daemons, "lbm", lambda *_: {"keeper": 0})
    monkeypatch.setattr("lbd.doctor.findings.sharing", lambda _: iter(()))
    first = next(check_lbm(daemons))
    assert (first.state, first.fix.startswith("`lbctl restart`")) == (state, state == FAULT)


@pytest.mark.parametrize("closed", [Closed.ALONE, Closed.LOAD])
def test_the_port_of_an_lbm_without_a_certificate_is_closed_although_it_runs(
    monkeypatch, closed
) -> None:
    known = [{"name": "h2", "lbm": "127.0.0.1:1", "state": "up"}]
    monkeypatch.setattr(Daemons, "lim", lambda *_: {"peers": known})
    monkeypatch.setattr("lbd.doctor.peers.closed", lambda _: "refused")
    (found,) = ports(Daemons(Config()), {"h2": {"why_closed": WORDS[closed]}}, ())
    assert ("lbctl restart" in found.fix) == (closed is Closed.ALONE)
    assert ("no LBM is listening" in found.says) == (closed is not Closed.ALONE)


def test_every_host_names_a_keeper_that_does_not_run(monkeypatch) -> None:
    """Only `lbctl status` did, and to users the fix was to see `lbctl explain`."""
    known = [{"name": name, "lbm": "127.0.0.1:1", "state": "up"} for name in ("h2", "h3")]
    monkeypatch.setattr(Daemons, "lim", lambda *_: {"peers": known})
    monkeypatch.setattr("lbd.doctor.peers.closed", lambda _: "")
    rows = {"h2": {"why_closed": WORDS[Closed.NO_KEEPER]}, "h3": {}}
    (found,) = ports(Daemons(Config()), rows, ())
    assert (found.name, found.state) == ("peer h2 keeper", FAULT)
    assert found.fix.startswith("on h2, as root: `systemctl start lbd-keeper`")
    assert fix_of("the keeper is not connected", "h2") == found.fix
