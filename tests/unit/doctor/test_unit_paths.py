"""Paths of lbd.toml that systemd's units keep the daemons from writing to."""

import pytest

from lbd.cli.ctl import startable
from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import Config, HostConfig, StageConfig
from lbd.doctor import unit_paths
from lbd.doctor.this_host import host_checks
from lbd.doctor.unit_paths import STORE, barred

UNIT = """Id=lbd-{}.service
ProtectSystem=strict
ReadWritePaths=/run/lbd /var/lib/lbd -/var/tmp{}
ProtectHome=yes
PrivateTmp=yes"""


@pytest.fixture
def opened(monkeypatch):
    """Has systemd answer, which lets the units write where the test says, too."""
    places = []

    def said_by(*words):
        assert words[:2] == ("systemctl", "show")
        named = [word.removeprefix("lbd-").removesuffix(".service") for word in words[4:]]
        return "\n\n".join(UNIT.format(one, "".join(f" {p}" for p in places)) for one in named)

    monkeypatch.setattr(unit_paths, "said_by", said_by)
    monkeypatch.setattr(unit_paths, "has_units", lambda: True)
    return places


def configured(store="", state_dir="/var/lib/lbd", stage="", runtime_dir="/run/lbd"):
    host = HostConfig(name="h1", runtime_dir=runtime_dir, state_dir=state_dir)
    return Config(host=host, dispatch=DispatchConfig(store=store), stage=StageConfig(root=stage))


def test_a_ledger_elsewhere_is_said_to_be_closed_and_how_to_open_it(opened):
    """The dispatcher ended with `Read-only file system`, and the cluster had no queue."""
    config = configured("sqlite:////srv/ledger/ledger.sqlite")
    ((says, fix),) = barred(config)
    expected = "lbd-dispatcher may not write in /srv/ledger (ProtectSystem=strict in the unit)"
    assert says == f"dispatch.store: {expected}"
    assert fix == (
        "`systemctl edit lbd-dispatcher`, [Service] ReadWritePaths=/srv/ledger (an existing "
        "directory of lbd's own)"
    )
    assert f"{says}; {fix}" in [*startable.obstacles(config)]
    assert f"{says}; {fix}" not in [*startable.obstacles(config, ["lim"])]
    opened.append("/srv")
    assert not [*barred(config)]


def test_a_state_directory_is_to_be_opened_to_all_who_write_there(opened):
    config = configured(state_dir="/srv/lbd")
    ((_, fix),) = barred(config)
    units = "lbd-lim lbd-lbm lbd-dispatcher lbd-metrics lbd-authority"
    assert fix.startswith(f"`systemctl edit {units}`")
    assert [one.fix for one in host_checks(config) if one.name == "units"] == [fix]


def test_directories_that_units_do_not_see_cannot_be_opened(opened):
    for store in ("sqlite:///home/ann/ledger.sqlite", "sqlite:///tmp/ledger.sqlite"):
        ((says, fix),) = barred(configured(store))
        assert "lbd-dispatcher cannot see /" in says
        assert "ReadWritePaths" not in fix


@pytest.mark.parametrize(
    "config",
    [
        configured(),
        configured("postgresql://db/lbd"),
        configured("sqlite:///var/lib/lbd/other.sqlite"),
        configured(stage="/var/tmp/lbd-stage"),
        configured("sqlite:///srv/x", runtime_dir="/tmp/lab/h1"),  # no unit runs it
    ],
)
@pytest.mark.usefixtures("opened")
def test_other_places_need_nothing(config):
    assert not [*barred(config)]


def test_where_systemd_does_not_answer_nothing_is_said(monkeypatch):
    monkeypatch.setattr(unit_paths, "has_units", lambda: True)
    monkeypatch.setattr(unit_paths, "said_by", lambda *words: "")
    assert not [*barred(configured("sqlite:///srv/x"), [STORE])]
