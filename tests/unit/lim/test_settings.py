import pytest

from lbd.config import LimConfig, LoadConfig
from lbd.errors import ConfigError
from lbd.lim import settings
from lbd.lim.messages import Settings
from lbd.lim.settings import InForce

BASE = InForce(LimConfig(), LoadConfig())


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("min_gain", "lim.min_gain"),
        ("lim.min_gain", "lim.min_gain"),
        ("smoothing_s", "load.smoothing_s"),
        ("load.io_weight", "load.io_weight"),
    ],
)
def test_names_with_and_without_their_section(given, full):
    assert settings.full_name(given) == full


@pytest.mark.parametrize(
    ("name", "near"),
    [("min_gian", "min_gain"), ("lim.probelimit", "probe_limit"), ("smoothing", "smoothing_s")],
)
def test_a_wrong_name_is_met_with_the_nearest_right_one(name, near):
    with pytest.raises(ConfigError, match=f'did you mean "{near}"'):
        settings.full_name(name)


@pytest.mark.parametrize("name", ["port", "max_hosts", "lbm.slot", ""])
def test_what_is_not_shared_cannot_be_changed(name):
    with pytest.raises(ConfigError, match="no parameter"):
        settings.full_name(name)


@pytest.mark.parametrize("name", ["load.scope", "lbm.slots", "tags.cutoffs_s", "lim.max_hosts"])
def test_who_asks_for_another_setting_is_told_where_it_is_made(name):
    with pytest.raises(ConfigError, match=f"{name} cannot be changed .* set in lbd.toml"):
        settings.full_name(name)


def test_the_algorithm_has_a_command_of_its_own():
    with pytest.raises(ConfigError, match="`lbctl algorithm NAME` changes it"):
        settings.full_name("lim.algorithm")


def test_algorithms_in_any_case_and_the_nearest_name():
    assert settings.check_algorithm("lowest") == "LOWEST"
    with pytest.raises(ConfigError, match='did you mean "GLOBAL"'):
        settings.check_algorithm("GLOBLA")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("min_gain", "0.5", 0.5), ("min_gain", 1, 1.0), ("probe_limit", "4", 4.0)],
)
def test_values(name, value, expected):
    assert settings.parsed(name, value) == expected


def test_the_load_index_is_a_word_for_all_hosts():
    assert settings.parsed("index", "queue-4") == "queue-4"
    found = settings.changed(Settings(), "h2", None, {"load.index": "queue-4", "lim.min_gain": 1.0})
    assert (found.words, found.params) == ({"load.index": "queue-4"}, {"lim.min_gain": 1.0})
    assert settings.value_of(settings.in_force(BASE, found), "index") == "queue-4"
    with pytest.raises(ConfigError, match=r'load\.index: .*"queue-4".*, site:NAME$'):
        settings.parsed("index", "queue-5")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min_gain", "much"),
        ("index", 4.0),
        ("min_gain", -1),
        ("probe_limit", "2.5"),
        ("probe_limit", 0),
        ("keepalive_s", "nan"),
        ("keepalive_s", "inf"),
        ("min_gain", [1]),
    ],
)
def test_values_that_cannot_be(name, value):
    with pytest.raises(ConfigError, match=name):
        settings.parsed(name, value)


def test_changes_are_laid_over_the_configuration():
    first = settings.changed(Settings(), "h2", "CENTRAL", {"lim.min_gain": 0.4})
    second = settings.changed(first, "h1", None, {"lim.probe_limit": 5.0, "load.smoothing_s": 9.0})
    assert first.version < second.version == (2, "h1")
    found = settings.in_force(BASE, second)
    assert (found.lim.algorithm, found.lim.min_gain, found.lim.probe_limit) == ("CENTRAL", 0.4, 5)
    assert isinstance(found.lim.probe_limit, int)
    assert found.load.smoothing_s == 9.0
    shown = settings.value_of(found, "probe_limit"), settings.value_of(found, "smoothing_s")
    assert [str(value) for value in shown] == ["5", "9.0"]


@pytest.mark.parametrize(
    "strange", [Settings(1, "h9", "FUTURE"), Settings(1, "h9", "GLOBAL", {"lim.new_one": 1.0})]
)
def test_settings_of_a_newer_version_are_refused_whole(strange):
    with pytest.raises(ConfigError):
        settings.in_force(BASE, strange)
