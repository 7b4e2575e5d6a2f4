"""Every fault that `lbctl doctor` reports, from canned answers."""

import json

import pytest

from lbd import __version__
from lbd.cli import lbctl
from lbd.console.daemons import Daemons
from tests.unit.cli.canned import STATUS

LIM_DOCTOR = {
    "scope": "jobs", "scope_reason": "set", "sampling_hz": 10.0, "sampling_cost_core": 0.002,
    "cores": 2.0, "speed": 1.0, "version": "0.1.0", "fds_open": 20, "fds_limit": 4096, "peers": [],
    "algorithm": "GLOBAL",
}  # fmt: skip
LBM_DOCTOR = {"keeper": 12, "containment": "cgroup2", "version": "0.1.0",
              "keeper_version": __version__}  # fmt: skip


def peer(**changes):
    return {
        "name": "h2", "reachable": True, "rtt_s": 0.001, "version": "0.1.0", "clock_skew_s": 0.0,
        "algorithm": "GLOBAL", "error": "", **changes,
    }  # fmt: skip


DOCTOR_FINDS = [
    ({}, {}, 0, "0 faults, "),
    ({"peers": [peer()]}, {}, 0, "reached in 1.0 ms"),
    ({"peers": [peer(reachable=False, error="timeout")]}, {}, 1, "cannot be reached: timeout"),
    (
        {"peers": [peer(reachable=False, error="h2: the certificate of h5 has expired")]},
        {},
        1,
        "token create h5`",
    ),
    ({"peers": [peer(reachable=False, error="h2 is revoked")]}, {}, 1, "token create h2`"),
    ({"peers": [peer(version="0.0.9")]}, {}, 0, "runs lbd 0.0.9, this host 0.1.0"),
    (
        {"peers": [peer(reachable=False, skewed=True, error="h2 is too old for h1: upgrade h2")]},
        {},
        1,
        "fix: upgrade h2",
    ),
    ({"peers": [peer(clock_skew_s=-7.0)]}, {}, 1, "its clock is 7s behind ours"),
    ({"peers": [peer(algorithm="LOWEST")]}, {}, 1, "uses LOWEST, this host GLOBAL"),
    (
        {"peers": [peer(algorithm="NOLB"), peer(name="h3", algorithm="NOLB")]},
        {},
        1,
        # not what most hosts have: that would end all balancing
        "fix: run `lbctl algorithm GLOBAL`",
    ),
    (
        {"peers": [peer(algorithm="NOLB", same_settings=False)]},
        {},
        0,
        "uses NOLB, this host GLOBAL: one has not taken the newest settings yet",
    ),
    (
        {"algorithm": "NOLB", "peers": [peer(algorithm="NOLB")]},
        {},
        0,
        "the algorithm NOLB never moves commands",
    ),
    ({"version": "0.0.9"}, {}, 1, "restart the daemons"),
    ({"fds_open": 4000}, {}, 1, "4000 of 4096 in use"),
    ({"sampling_cost_core": 0.05}, {}, 0, "costs too much"),
    ({}, {"keeper": None}, 1, "no job can start here"),
    ({}, {"keeper_is_killed": True}, 1, "its processes are killed as they begin"),
    ({}, {"containment": "session"}, 0, "tracked only by session and subreaper"),
]


@pytest.mark.parametrize(("lim", "lbm", "code", "says"), DOCTOR_FINDS)
def test_doctor_reports_each_fault(daemon, capsys, lim, lbm, code, says):
    daemon("lim", doctor={**LIM_DOCTOR, **lim}, peers={"peers": []}, status=STATUS)
    daemon("lbm", status={**LBM_DOCTOR, **lbm}, explain={"candidates": []}, shims={})
    assert lbctl.main(["doctor"]) == code
    out = capsys.readouterr().out
    assert says in out
    assert code == 0 or "fix: " in out


def test_a_host_that_is_told_it_is_revoked_does_not_doubt_the_dispatcher(
    daemon, capsys, monkeypatch
):
    """Its own certificate looks well, as it is not told any more of revocations."""
    monkeypatch.setattr(Daemons, "queue", lambda _: (("h2",), "lbctl queue"))
    peers = [peer(reachable=False, error="h2: h1 is revoked")]
    daemon("lim", doctor={**LIM_DOCTOR, "peers": peers}, peers={"peers": []}, status=STATUS)
    daemon("lbm", status=LBM_DOCTOR, explain={"candidates": []}, shims={})
    assert lbctl.main(["doctor", "--json"]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    (fix,) = [one["fix"] for one in checks if one["name"] == "dispatcher"]
    assert fix == "see the line above that says that this host is revoked"


@pytest.mark.parametrize(
    ("peers", "h2", "found"),
    [
        (
            [peer(reachable=False)],
            {"why_down": "was stopped"},
            ("peer h2", "warn", 'had the authority or the queue, follow "The first'),
        ),
        ([peer(reachable=False)], {"why_down": "silent"}, ("peer h2", "fault", "if h2 is up")),
        ([peer()], {"age_s": 40.0}, ("incoming", "fault", "7901 and 7902 of this host")),
        ([peer()], {"age_s": None}, ("peer h2", "warn", "lbctl doctor")),  # this host is new
        ([peer()], {"age_s": 1.0, "state": "up"}, None),
        # h3 is heard
        ([peer(), peer(name="h3")], {"age_s": 40.0}, ("peer h2", "fault", "lbctl doctor")),
    ],
)
def test_doctor_uses_what_is_known_of_each_host(daemon, capsys, peers, h2, found):
    hosts = [*STATUS["hosts"][:1], {**STATUS["hosts"][1], **h2}]
    hosts.append({**STATUS["hosts"][0], "name": "h3"})
    daemon("lim", doctor={**LIM_DOCTOR, "peers": peers}, peers={"peers": []},
           status={**STATUS, "hosts": hosts})  # fmt: skip
    lbctl.main(["doctor", "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    said = [c for c in checks if c["name"] in ("peer h2", "incoming") and c["state"] != "ok"]
    if found is None:
        assert said == []
    else:
        name, state, fix = found
        (of_name,) = [check for check in said if check["name"] == name]
        assert (of_name["state"], fix in of_name["fix"]) == (state, True)


SAVED = {"dispatch.host": '"h1"', "dispatch.mode": '"tags"'}
AGAIN = "lbctl config set dispatch.mode '\"tags\"' --cluster"


@pytest.mark.parametrize(
    ("settings", "only", "state", "says", "fix"),
    [
        ({"saved": SAVED, "signs": True}, "", "warn", "2 settings for all hosts, not", AGAIN),
        ({"saved": SAVED, "signs": True}, "h9", "fault", "do not accept them", "on h9, which"),
        ({"saved": {"dispatch.host": '"h1"'}, "signs": True}, "", "warn", "1 setting for", "h1"),
        ({"saved": SAVED, "signs": True, "signed_by": "h2"}, "h9", "ok", "signed by h2", ""),
        (
            {"saved": SAVED, "signs": True, "signed_by": "h2", "doubt": "h2 is revoked"},
            "",
            "warn",
            "2 settings for all hosts, but hosts that join reject them: h2 is",
            f"set one of them again here, which signs all of them: {AGAIN}",
        ),
        (
            {"saved": {}, "signs": True, "signed_by": "", "doubt": "h2 is revoked"},
            "",
            "warn",
            "this host rejects the settings for all hosts, so it may not change them: h2 is",
            "on another host, set one of them again",
        ),
        ({"saved": {}, "signs": True, "signed_by": "h2", "doubt": "h2 is out"}, "", None, "", ""),
        ({"saved": SAVED, "signs": False}, "", None, "", ""),
        ({"saved": {}, "signs": True}, "h9", None, "", ""),
    ],
)
def test_unsigned_settings_for_all_hosts_are_reported(
    daemon, capsys, tmp_path, settings, only, state, says, fix
):
    if only:
        with open(tmp_path / "lbd.toml", "a") as file:
            file.write(f'[admin]\nsettings_hosts = ["{only}"]\n')
    daemon("lim", doctor=LIM_DOCTOR, peers={"peers": []}, status=STATUS, settings=settings)
    lbctl.main(["doctor", "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    found = [one for one in checks if one["name"] == "settings"]
    assert [one["state"] for one in found] == ([state] if state else [])
    assert all(says in one["says"] and fix in one["fix"] for one in found)


def test_a_resource_that_the_cluster_does_not_have_is_reported(daemon, capsys, tmp_path):
    with open(tmp_path / "lbd.toml", "a") as file:
        file.write("[resources]\ngpu = 1\nlicense = 2\n")
    saved = {"saved": {"cluster.resources": '["gpu", "licence"]'}}
    daemon("lim", doctor=LIM_DOCTOR, peers={"peers": []}, status=STATUS, settings=saved)
    lbctl.main(["doctor", "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    (found,) = [one for one in checks if one["name"] == "resources"]
    assert found["state"] == "warn"
    assert found["says"].startswith('this cluster has no resource "license"')


@pytest.mark.parametrize(("runs", "states"), [(False, ["fault"]), (True, [])])
def test_a_standby_dispatcher_that_does_not_run_is_reported(daemon, capsys, runs, states):
    leads = {"leader": "h2", "queued": 0}
    status = {**STATUS, "cluster": {**STATUS["cluster"], "dispatcher": leads}}
    saved = {"saved": {"dispatch.host": '"h2"', "dispatch.standby": '["h1"]'}}
    daemon("lim", doctor=LIM_DOCTOR, peers={"peers": []}, status=status, settings=saved)
    if runs:
        daemon("dispatcher", status={"ok": True})
    lbctl.main(["doctor", "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert [one["state"] for one in checks if one["name"] == "standby"] == states


@pytest.mark.parametrize("reachable", [False, True])
def test_a_host_that_cannot_be_reached_at_all_is_one_fault(daemon, capsys, reachable):
    nowhere = {"name": "h2", "lbm": "127.0.0.1:1", "state": "late"}
    found = peer(reachable=reachable, error="" if reachable else "timeout")
    daemon(
        "lim", doctor={**LIM_DOCTOR, "peers": [found]}, peers={"peers": [nowhere]}, status=STATUS
    )
    lbctl.main(["doctor", "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    faults = [one["name"] for one in checks if one["state"] == "fault" and "h2" in one["name"]]
    assert faults == ["peer h2 LBM" if reachable else "peer h2"]


def test_doctor_without_daemons_still_reports(daemon, capsys):
    assert lbctl.main(["doctor", "--json"]) == 1
    reply = json.loads(capsys.readouterr().out)
    assert (reply["schema"], reply["faults"]) == (1, 2)
    faults = [check for check in reply["checks"] if check["state"] == "fault"]
    assert all("not running" in f["says"] and "lbd up" in f["mend"] for f in faults)


def test_doctor_names_a_configuration_fault(tmp_path, capsys):
    path = tmp_path / "lbd.toml"
    path.write_text("[lim]\nprt = 1\n")
    assert lbctl.main(["doctor", "--config", str(path)]) == 1
    assert f'{path}:2: lim.prt: unknown key; did you mean "port"?' in capsys.readouterr().out


def test_every_fault_of_the_configuration_is_reported(tmp_path, capsys):
    file = tmp_path / "lbd.toml"
    file.write_text('[lim]\nalgorithm = "NONE"\nport = 0\n')
    assert lbctl.main(["--config", str(file), "doctor", "--json"]) == 1
    reply = json.loads(capsys.readouterr().out)
    found = [check["says"].partition(": ")[2].partition(":")[0] for check in reply["checks"]]
    assert (reply["faults"], found) == (2, ["lim.algorithm", "lim.port"])
