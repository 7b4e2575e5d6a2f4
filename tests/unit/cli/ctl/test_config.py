"""`lbctl config`: checks a file, shows the settings in force, changes one setting."""

import json

import pytest

from lbd.cli.ctl.config import sign_again
from lbd.cli.ctl.own_config import need_writable, way_without
from lbd.cli.lbctl import main
from lbd.config.load import SYSTEM_FILE, load
from lbd.console.daemons import Daemons
from lbd.errors import ConfigError
from lbd.local.own_lab import MADE_BY


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "lbd.toml"
    path.write_text(f'# ours\n[host]\nname = "h1"  # the first\nruntime_dir = "{tmp_path}"\n')
    monkeypatch.setenv("LBD_CONFIG", str(path))
    return path


@pytest.fixture
def lbctl(capsys):
    def run(*words, status=0):
        assert main(["config", *words]) == status
        return capsys.readouterr()

    return run


def test_a_valid_file_is_valid(lbctl, file):
    assert lbctl("check").out == f"{file} is valid\n"
    assert json.loads(lbctl("check", "--json").out) == {
        "schema": 1, "file": str(file), "valid": True, "faults": [],
    }  # fmt: skip


def test_every_fault_of_a_named_file_has_a_line(lbctl, file, tmp_path):
    other = tmp_path / "new.toml"
    other.write_text("[lim]\nport = 0\nprt = 1\n")
    lines = lbctl("check", str(other), status=1).out.splitlines()
    assert [line.startswith(f"{other}:{at}: lim.") for line, at in zip(lines, (2, 3), strict=True)]
    assert "did you mean" in lines[1]
    found = json.loads(lbctl("check", str(other), "--json", status=1).out)
    assert found["faults"] == lines
    assert "no such file" in lbctl("check", str(tmp_path / "none"), status=2).err


def test_the_settings_in_force_are_shown_with_their_source(lbctl, file):
    rows = json.loads(lbctl("show", "--json").out)
    named = {row["name"]: row for row in rows}
    assert named["host.name"]["from"] == f"{file}:3"
    assert named["lim.port"] == {
        "schema": 1, "name": "lim.port", "from": "built-in", "value": 7901, "default": 7901,
    }  # fmt: skip
    changed = lbctl("show", "--changed").out.splitlines()
    assert [line.split()[0] for line in changed[1:]] == ["host.name", "host.runtime_dir"]
    assert len(lbctl("show", "lim.port").out.splitlines()) == 2
    assert 'did you mean "lim.port"?' in lbctl("show", "lim.prot", status=2).err


def test_names_of_resources_belong_to_the_cluster(lbctl, file, daemon):
    names = {"ok": True, "saved": {"cluster.resources": '["gpu", "licence"]'}, "signed_by": "h2"}
    taken = {"ok": True, "hosts": 2, "changed": 2, "missing": []}
    lim = daemon("lim", settings=names, share=taken, status={"ok": True})
    said = lbctl("set", "cluster.resources", '["gpu", "licence"]', "--cluster").out
    assert said == 'cluster.resources = ["gpu", "licence"]: on 2 of 2 hosts; in force within 2 s\n'
    shared = [one["values"] for one in lim.asked if one["op"] == "share"]
    assert shared == [{"cluster.resources": ["gpu", "licence"]}]
    assert "signed by h2" in lbctl("show", "cluster.resources").out
    refused = lbctl("set", "resources.license", "2", status=2).err
    assert 'has no resource "license" (cluster.resources); did you mean "licence"?' in refused
    assert load().resources.amounts == ()
    lbctl("set", "resources.licence", "2")
    assert lbctl("check").out.endswith("is valid\n")
    file.write_text(file.read_text() + "gqu = 1\n")
    assert 'no resource "gqu"' in lbctl("check", status=1).out
    assert "back to the default" in lbctl("set", "resources.gqu", "--unset").out


LONGER = "running jobs have the new lease within {}"
SHORTER = "jobs that run now keep the old lease for up to {}"


@pytest.mark.parametrize(
    ("own", "saved", "follows", "taken_back"),
    [
        ("lease_s = 60", {}, LONGER.format("12s"), ""),  # the dispatcher is on this host
        ("lease_s = 60", {"dispatch.lease_s": "900.0"}, SHORTER.format("15m"), ""),
        ("lease_s = 10", {"dispatch.lease_s": "4.0"}, LONGER.format("3s"), ""),
        ('host = "h2"', {}, LONGER.format("10s, if the old one was 30s"), ""),
        ('host = "h2"', {"dispatch.lease_s": "900.0"}, SHORTER.format("15m"), ""),
        ("lease_s = 500", {}, SHORTER.format("8m20s"), LONGER.format("12s")),
    ],
)
def test_a_changed_lease_says_when_running_jobs_have_it(
    lbctl, file, daemon, own, saved, follows, taken_back
):
    file.write_text(f"{file.read_text()}[dispatch]\n{own}\n")
    taken = {"ok": True, "hosts": 2, "changed": 2, "missing": []}
    daemon("lim", settings={"ok": True, "saved": saved}, share=taken, status={"ok": True})
    said = lbctl("set", "dispatch.lease_s", "120", "--cluster").out
    assert said.endswith(f"on 2 of 2 hosts; the dispatcher picks it up within 2 s; {follows}\n")
    said = lbctl("set", "dispatch.lease_s", "--unset", "--cluster").out
    follows = taken_back or follows
    assert said.endswith(f"on 2 of 2 hosts; each host's lbd.toml applies again; {follows}\n")


def test_the_list_of_hosts_is_shown_as_it_was_written(lbctl, file):
    hosts = '[{name = "h1", address = "10.0.0.1", lim_port = 7901, lbm_port = 7902}]'
    file.write_text(f"{file.read_text()}[cluster]\nhosts = {hosts}\n")
    assert '[{name = "h1", address = "10.0.0.1"' in lbctl("show", "cluster.hosts").out


def test_settings_changed_for_the_cluster_are_in_force(lbctl, file, daemon):
    params = {"lim.min_gain": 0.5, "lim.adaptive": 1.0, "load.index": "instant"}
    status = {"ok": True, "cluster": {"algorithm": "LOWEST"}, "params": params}
    daemon("lim", status=status)
    file.write_text(file.read_text() + "[lim]\nmin_gain = 0.2\n")
    changed = {one["name"]: one for one in json.loads(lbctl("show", "--changed", "--json").out)}
    found = {name: (changed[name]["value"], changed[name]["from"]) for name in
             ("lim.algorithm", *params)}  # fmt: skip
    assert found == {
        "lim.algorithm": ("LOWEST", "set for all hosts (lbctl algorithm)"),
        "lim.min_gain": (0.5, "set for all hosts (lbctl param)"),
        "lim.adaptive": (True, "set for all hosts (lbctl param)"),
        "load.index": ("instant", "set for all hosts (lbctl param)"),
    }


def test_a_trial_value_is_distinguished_from_a_saved_one(lbctl, file, daemon):
    params = {"lim.min_gain": 0.5, "lim.probe_limit": 4.0}
    status = {"cluster": {"algorithm": "THRHLD"}, "params": params}
    saved = {"lim.algorithm": "LOWEST", "lim.min_gain": "0.5"}
    trial = {"lim.algorithm": "THRHLD", "lim.probe_limit": "4.0"}
    daemon("lim", status=status, settings={"saved": saved, "trial": trial, "signed_by": "h2"})
    found = {one["name"]: one["from"] for one in json.loads(lbctl("show", "lim", "--json").out)}
    assert found["lim.algorithm"] == "set for all hosts for a trial (lbctl algorithm)"
    assert found["lim.probe_limit"] == "set for all hosts for a trial (lbctl param)"
    assert found["lim.min_gain"] == "set for all hosts (lbctl param), signed by h2"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("lim.algorithm", "THRHLD"), "LOWEST is set for all hosts; `lbctl config set "
         "lim.algorithm --unset --cluster` takes that back"),
        (("lim.algorithm", "--unset"), "LOWEST is set for all hosts; `lbctl config set "
         "lim.algorithm --unset --cluster` takes that back"),
        (("dispatch.mode", "random"), "tags is set for all hosts; `lbctl config set "
         "dispatch.mode --unset --cluster` takes that back"),
        (("dispatch.lease_s", "9"), "55 is set for all hosts; `lbctl config set "
         "dispatch.lease_s --unset --cluster` takes that back"),
        (("dispatch.host", "h1"), "h2 is set for all hosts; `lbctl queue` changes that"),
        (("lim.min_gain", "0.3"), "0.5 is set for all hosts for a trial; `lbctl param "
         "lim.min_gain --reset` ends that"),
    ],
)  # fmt: skip
def test_a_setting_for_all_hosts_is_said_to_apply_instead(lbctl, file, daemon, words, says):
    saved = {"lim.algorithm": "LOWEST", "lim.min_gain": "0.2", "dispatch.mode": '"tags"',
             "dispatch.lease_s": "55", "dispatch.host": '"h2"'}  # fmt: skip
    daemon("lim", settings={"saved": saved, "trial": {"lim.min_gain": "0.5"}})
    assert lbctl("set", *words).out.endswith(f"({file}): not in force: {says}\n")


def test_the_same_value_as_for_all_hosts_does_not_count_as_overruled(lbctl, file, daemon):
    daemon("lim", settings={"saved": {"lim.algorithm": "LOWEST", "lim.min_gain": "0.2"}})
    assert "takes effect after" in lbctl("set", "lim.algorithm", "LOWEST").out
    assert "takes effect after" in lbctl("set", "lim.min_gain", "0.2").out


def test_a_setting_is_changed_and_removed(lbctl, file):
    before = file.read_text()
    assert "takes effect when lbd starts here" in lbctl("set", "lim.port", "7905").out
    assert load().lim.port == 7905
    assert file.read_text() == before + "\n[lim]\nport = 7905\n"
    lbctl("set", "lim.algorithm", "LOWEST")
    lbctl("set", "resources.gpu", "2")
    assert (load().lim.algorithm, load().resources.amounts) == ("LOWEST", (("gpu", 2),))
    assert "back to the default" in lbctl("set", "lim.port", "--unset").out
    assert load().lim.port == 7901


def test_rules_for_owners_apply_at_once(lbctl, file, daemon):
    lbm = daemon("lbm", reload={"ok": True})
    assert lbctl("set", "admission.slots", "2").out.endswith(": in force\n")
    assert [one["op"] for one in lbm.asked] == ["reload", "status"]
    assert "takes effect after `lbctl restart`" in lbctl("set", "lim.port", "7905").out
    said = lbctl("set", "eligibility.always", '["gcc -c"]').out
    assert "takes effect for your own commands at once (in lbsh: from its next start on)" in said
    said = lbctl("set", "users.allow", '["builder"]').out
    assert "after `lbctl restart` and `systemctl restart lbd-keeper`, which ends" in said
    lbm.answers["status"] = {"ok": True, "slots": {"total": 2}}
    said = lbctl("set", "admission.slots", "5").out
    assert ": 2 are in force, as lbm.slots has it; admission.slots is 5; raise lbm.slots" in said


def test_in_a_lab_a_list_is_everybodys_on_that_host_at_once(lbctl, file, daemon):
    daemon("lbm", reload={"ok": True})
    run = file.parent / "run"
    run.symlink_to(".")
    given = file.read_text().replace(f'"{file.parent}"', f'"{run}"')
    file.write_text(f"{MADE_BY}\n{given}")
    said = lbctl("set", "eligibility.never", '["make"]').out
    assert said.endswith(": takes effect for everybody who acts from this host at once (in lbsh: "
                         "from its next start on)\n")  # fmt: skip


def test_a_copy_of_a_labs_file_is_its_owners_alone(lbctl, file, daemon, monkeypatch):
    """It was said to be everybody's, and rules of the owner to be in force."""
    lbm = daemon("lbm", reload={"ok": True})
    copy = file.parent / "home" / "lab.toml"
    copy.parent.mkdir()
    copy.write_text(f"{MADE_BY}\n{file.read_text()}")
    monkeypatch.setenv("LBD_CONFIG", str(copy))
    theirs = file.parent.parent / "lbd.toml"
    said = lbctl("set", "eligibility.never", '["cc link"]').out
    when = "at once for whoever has LBD_CONFIG set to this file"
    assert said.endswith(f"({copy}): takes effect {when}; the daemons read {theirs}\n")
    for name in ("admission.slots", "lim.port"):
        said = lbctl("set", name, "7905").out
        assert said.endswith(f": takes effect nowhere; the daemons read {theirs}\n")
    assert not lbm.asked


def test_who_may_not_write_a_list_there_is_told_where_to_write_it(tmp_path, monkeypatch):
    labs, other = tmp_path / "lab.toml", tmp_path / "other.toml"
    labs.write_text(f"{MADE_BY}\n")
    other.write_text("")
    monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/home/ann/.config")

    def refusal(name, file):
        with pytest.raises(ConfigError) as refused:
            need_writable(file.parent, way_without(name, file))
        return str(refused.value).partition(" can write there")[2]

    own = "; for your own commands write it into /home/ann/.config/lbd/lbd.toml"
    assert refusal("eligibility.never", SYSTEM_FILE) == own
    asked = refusal("eligibility.never", labs)
    assert asked.startswith("; ask who started the lab, or set LBD_CONFIG to a copy of lbd.toml")
    assert not refusal("eligibility.never", other)
    assert not refusal("admission.slots", SYSTEM_FILE)


def test_an_owner_rule_that_cannot_work_as_meant_is_set_with_a_warning(lbctl, file):
    assert "groups: this host has no group no:" in lbctl("set", "admission.groups", '["no"]').err
    assert not lbctl("set", "admission.groups", "--unset").err
    assert "owner_idle_s: 5 s is too short" in lbctl("set", "admission.owner_idle_s", "5").err
    assert (load().admission.groups, load().admission.owner_idle_s) == ((), 5.0)


def test_settings_that_lbctl_restart_does_not_apply_are_not_said_to_be(lbctl, daemon):
    daemon("lbm", reload={"ok": True})
    listener = lbctl("set", "metrics.listen", "127.0.0.1:9470").out
    assert "takes effect once `lbd metrics` runs: lbd up, or systemctl enable" in listener
    again = "takes effect after `lbctl restart` on the dispatcher's host"
    assert lbctl("set", "dispatch.user_slots", "3").out.endswith(
        f"{again}; with --cluster at once, for all hosts\n"
    )
    assert lbctl("set", "dispatch.port", "7913").out.endswith(f"{again}\n")
    daemon("metrics", status={})
    later = lbctl("set", "metrics.listen", "127.0.0.1:9471").out
    assert later.endswith("takes effect after `lbctl restart`\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("lim.port", "0"), "0 is out of range; allowed: 1 to 65535"),
        (("lim.prot", "1"), 'did you mean "port"?'),
        (("lime.port", "1"), "unknown section"),
        (("port", "1"), "port: must be section.key"),
        (("lim.port",), "give a value, or --unset"),
        (("lim.port", "1", "--unset"), "--unset takes no value"),
        (("lim.stale_after_s", "500"), "must not exceed"),
        (("users.map", "single:"), "is not known"),
    ],
)
def test_an_invalid_setting_is_not_written(lbctl, file, words, said):
    before = file.read_text()
    fault = lbctl("set", *words, status=2).err
    assert said in fault
    assert f"{file}:" not in fault  # the file has no such line
    assert file.read_text() == before


def test_a_refused_value_is_reported_as_not_set(lbctl, file):
    assert f"{file} is not changed: " in lbctl("set", "lim.port", "0", status=2).err


def test_a_wrong_value_can_be_corrected(lbctl, file):
    file.write_text(file.read_text() + "[lim]\nport = 0\n")
    lbctl("set", "lim.port", "7905")
    assert load().lim.port == 7905


def test_for_the_whole_cluster_it_is_saved_by_the_lim(lbctl, file, daemon):
    answer = {"ok": True, "name": "lim.min_gain", "value": 0.5, "was": 0.1, "hosts": 2,
              "changed": 2, "saved": 0.5}  # fmt: skip
    lim = daemon("lim", param=answer, algorithm={"ok": True, "algorithm": "LOWEST"})
    before = file.read_text()
    said = lbctl("set", "lim.min_gain", "0.5", "--cluster")
    assert "on 2 of 2 hosts; saved, so it survives restarts" in said.err
    lbctl("set", "lim.algorithm", "LOWEST", "--cluster")
    assert [(one["name"], one["save"]) for one in lim.asked] == [
        ("lim.min_gain", True), ("LOWEST", True),
    ]  # fmt: skip
    assert file.read_text() == before


FALLING = "needs increasing cutoffs above 0: 3600, 60"


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        ({}, ("tags.cutoffs_s", "[3600, 60]")),  # also under fcfs: the cutoffs wait there for tags
        ({"dispatch.mode": '"tags"'}, ("tags.cutoffs_s", "[3600, 60]")),
        ({"tags.cutoffs_s": "[3600, 60]"}, ("dispatch.mode", "tags")),
        ({"tags.cutoffs_s": "[3600, 60]", "dispatch.mode": '"tags"'}, ("dispatch.lease_s", "55")),
    ],
)
@pytest.mark.parametrize("where", [(), ("--cluster",)])
def test_settings_that_no_dispatcher_could_use_are_refused(
    lbctl, file, daemon, saved, words, where
):
    queue = {"dispatch.host": '"h1"'}
    lim = daemon("lim", settings={"saved": {**queue, **saved}}, share={})
    before = file.read_text()
    assert FALLING in lbctl("set", *words, *where, status=2).err
    assert file.read_text() == before
    assert not [one for one in lim.asked if one["op"] == "share"]


def test_settings_that_no_dispatcher_can_use_can_be_unset(lbctl, file, daemon):
    saved = {"tags.cutoffs_s": "[3600, 60]", "dispatch.mode": '"tags"'}
    daemon("lim", settings={"saved": saved}, share={"hosts": 1, "changed": 1, "missing": []})
    said = lbctl("set", "tags.cutoffs_s", "--unset", "--cluster").out
    assert "each host's lbd.toml applies again" in said


def test_a_host_without_the_dispatcher_checks_against_the_settings_for_all_hosts(
    lbctl, file, daemon
):
    saved = {"dispatch.host": '"h2"', "dispatch.mode": '"tags"'}
    file.write_text(file.read_text() + "[tags]\ncutoffs_s = [3600.0, 60.0]\n")
    daemon("lim", settings={"saved": saved}, share={"hosts": 2, "changed": 2, "missing": []})
    lbctl("set", "dispatch.lease_s", "55", "--cluster")


REVOKED = {"signed_by": "h2", "doubt": "h2, which signed them, is revoked"}


@pytest.mark.parametrize(
    ("settings", "replaced", "says"),
    [
        ({"signed_by": "h2"}, "h2", "by h2, to which this token gives a new certificate: now"),
        ({"signed_by": "h1"}, "h1", "by h1, to which this token gives a new certificate: now"),
        (REVOKED, "h4", "signed by h2, which is revoked: now signed by h1;"),
        (
            {**REVOKED, "signed_by": "h1"},
            "",
            "signed with an old certificate of h1: now signed by h1;",
        ),
        (
            {"signed_by": "h2", "doubt": "they are signed with an old certificate of h2"},
            "",
            "signed with an old certificate of h2: now signed by h1;",
        ),
        ({"signed_by": "h2"}, "h4", ""),
        ({"signed_by": ""}, "", ""),
        (REVOKED | {"refuses": True}, "h4", "hosts that join will not accept them: h1 may not"),
    ],
)
def test_settings_that_a_new_host_rejects_are_signed_again(
    daemon, capsys, settings, replaced, says
):
    def answer(question):
        if question.get("sign") and settings.get("refuses"):
            return {"ok": False, "error": "h1 may not", "code": "usage"}
        return {"ok": True, **settings}

    lim = daemon("lim", settings=answer)
    sign_again(Daemons(load()), replaced)
    assert capsys.readouterr().err.count(says or "signed") == bool(says)
    assert [bool(one.get("sign")) for one in lim.asked] == [False, True] if says else [False]


def test_an_address_of_another_machine_is_remarked_on_before_a_restart(tmp_path, capsys):
    file = tmp_path / "lbd.toml"
    file.write_text("")
    given = ["--config", str(file)]
    assert main([*given, "config", "set", "host.address", "192.0.2.1"]) == 0
    said = "warning: the daemons could not start with this: 192.0.2.1 is not an address of this"
    assert said in capsys.readouterr().err
    assert main([*given, "config", "check"]) == 0
    assert said in capsys.readouterr().err
