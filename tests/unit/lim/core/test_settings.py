from dataclasses import replace

import pytest

from lbd.config.schema import LimConfig, LoadConfig
from lbd.errors import ConfigError
from lbd.lim.core import messages as m
from lbd.lim.core import settings
from lbd.lim.core.messages import Settings
from lbd.lim.core.settings import InForce
from lbd.model import HostId

BASE = InForce(LimConfig(), LoadConfig())


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("min_gain", "lim.min_gain"),
        ("lim.min_gain", "lim.min_gain"),
        ("smoothing_s", "load.smoothing_s"),
        ("load.io_weight", "load.io_weight"),
        ("level", "log.level"),
    ],
)
def test_names_with_and_without_their_section(given, full):
    assert settings.full_name(given) == full


OWN = "{} is set per host: use `lbctl config set {} VALUE` there, without --cluster"
OF_QUEUE = "{} is not a LIM parameter; use `lbctl config set {} VALUE --cluster`"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("min_gian", 'did you mean "min_gain"'),
        ("lim.probelimit", 'did you mean "probe_limit"'),
        ("smoothing", 'did you mean "smoothing_s"'),
        *((name, "no parameter") for name in ("port", "max_hosts", "lbm.slot", "")),
        ("load.scope", OWN),
        ("lbm.slots", OWN),
        ("resources.gpu", OWN),
        ("tags.cutoffs_s", OF_QUEUE),
        ("lim.max_hosts", OWN),
        ("lim.max_message_bytes", OWN),
        ("lim.algorithm", "use `lbctl algorithm NAME`"),
    ],
)
def test_for_an_unchangeable_setting_the_changeable_ones_are_named(name, message):
    with pytest.raises(ConfigError, match=message.format(name, name)):
        settings.full_name(name)


def test_algorithms_in_any_case_and_the_nearest_name():
    assert settings.check_algorithm("lowest") == "LOWEST"
    with pytest.raises(ConfigError, match='did you mean "GLOBAL"'):
        settings.check_algorithm("GLOBLA")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("min_gain", "0.5", 0.5),
        ("min_gain", 1, 1.0),
        ("probe_limit", "4", 4.0),
        *(("adaptive", word, 1.0) for word in ("1", "true", "on")),
        *(("adaptive", word, 0.0) for word in ("0", "false", "off")),
    ],
)
def test_values(name, value, expected):
    assert settings.parsed(name, value) == expected


def test_the_load_index_is_a_name_for_all_hosts():
    assert settings.parsed("index", "queue-4") == "queue-4"
    found = settings.changed(Settings(), "h2", None, {"load.index": "queue-4", "lim.min_gain": 1.0})
    assert (found.words, found.params) == ({"load.index": "queue-4"}, {"lim.min_gain": 1.0})
    assert settings.value_of(settings.in_force(BASE, found), "index") == "queue-4"
    with pytest.raises(
        ConfigError, match=r'load\.index: "queue-5" is not known; did you mean "queue-4"\?'
    ):
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
def test_invalid_values(name, value):
    with pytest.raises(ConfigError, match=name):
        settings.parsed(name, value)


def test_changes_override_the_configuration():
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
def test_settings_of_a_newer_version_are_refused_as_a_whole(strange):
    with pytest.raises(ConfigError):
        settings.in_force(BASE, strange)


def test_notes_of_drains_are_merged_and_bounded():
    first = m.Settings(1, "h1", drain_notes={"h2": m.DrainNote("a", "ann", 1.0)})
    other = {"h3": m.DrainNote("b", "bob", 2.0)}
    both = settings.changed(first, "h1", None, {}, notes=other)
    assert both.drain_notes == {**first.drain_notes, **other}
    assert settings.changed(both, "h1", None, {}, notes={"h2": None}).drain_notes == other
    many = {f"x{n}": m.DrainNote("", "", float(n)) for n in range(3, 200)}
    kept = settings.changed(both, "h1", None, {}, notes=many).drain_notes
    assert len(kept) == m.DRAIN_NOTES_MAX
    assert ("h2" in kept, "x199" in kept) == (False, True)


NEW, OLD = m.DrainNote("fan", "bob", 8.0), m.DrainNote("disk", "ann", 2.0)
LATE = m.DrainNote("", "", 9.5)  # it was up by then
FULL = {f"x{n}": NEW for n in range(m.DRAIN_NOTES_MAX)}


@pytest.mark.parametrize(
    ("known", "newer", "wanted"),
    [
        (Settings(), Settings(7, "h1", drain_notes={"h2": NEW}), True),
        (Settings(3), Settings(7, "h1", drain_notes={"h2": NEW}), True),
        (Settings(3, drain_notes={"h2": OLD}), Settings(7, drain_notes={"h2": NEW}), True),
        (Settings(3, drain_notes={"h2": OLD}), Settings(7, "h1", drain_notes={"h2": OLD}), None),
        (Settings(3, drain_notes={"h2": OLD}), Settings(7, "h1"), False),
        (Settings(3, drain_notes={"h2": OLD}), Settings(7, "h1", drain_notes=FULL), None),
        (Settings(3), Settings(7, "h1"), None),  # a drain of a release that wrote no notes
        (Settings(3), Settings(7, drain_notes={"h2": LATE}), None),
        (Settings(3, "h1"), Settings(7, "h1", drain_notes={"h2": NEW}), None),
        (Settings(3, "h1", drain_notes={"h2": OLD}), Settings(7, "h1"), None),
        (Settings(3, "h1"), Settings(7, "h1", drains={"h2": True}), True),
        (Settings(3), Settings(7, drains={"h2": False}, drain_notes={"h2": NEW}), False),
    ],
)
def test_a_host_takes_over_the_drain_that_was_made_or_ended_before_its_start(known, newer, wanted):
    me = m.Member(HostId("h2"), "127.0.0.2", 1, 2, 0, incarnation=9_000)
    assert settings.wanted_drain(known, newer, me) is wanted


def test_only_a_host_that_leaves_the_list_makes_a_new_version():
    """Another one at that time could lose, with what it changes."""
    listed = Settings(7, "h1", drains={"h2": True})
    assert settings.obeyed(listed, HostId("h2")) == Settings(8, "h2")
    assert settings.obeyed(listed, HostId("h3")) == listed


def test_only_what_was_given_with_save_is_saved():
    first = settings.changed(m.Settings(), "h1", "LOWEST", {}, save=True)
    assert (first.algorithm, first.saved) == ("LOWEST", {"lim.algorithm": "LOWEST"})
    params = {"lim.min_gain": 0.1 + 0.2, "load.index": "utilisation"}
    second = settings.changed(first, "h1", None, params, save=True)
    assert second.saved == {
        "lim.algorithm": "LOWEST", "lim.min_gain": "0.30000000000000004",
        "load.index": "utilisation",
    }  # fmt: skip
    third = settings.changed(second, "h1", "GLOBAL", {"lim.min_gain": 1.0})
    assert (third.algorithm, third.saved) == ("GLOBAL", second.saved)
    found, faults = settings.resumed(BASE, third.lasting)
    assert (found.algorithm, found.params, found.words, faults) == (
        "LOWEST", {"lim.min_gain": 0.1 + 0.2}, {"load.index": "utilisation"}, [],
    )  # fmt: skip


def test_an_unsaved_setting_is_on_trial():
    saved = {"lim.algorithm": "LOWEST", "lim.min_gain": "0.5"}
    kept = settings.resumed(BASE, Settings(3, saved=saved))[0]
    assert settings.on_trial(kept) == {}
    tried = replace(kept, algorithm="THRHLD", words={"load.index": "instant"})
    assert settings.on_trial(tried) == {"lim.algorithm": "THRHLD", "load.index": "instant"}


def test_a_reset_setting_is_neither_set_nor_saved():
    params = {"lim.min_gain": 0.5, "load.index": "utilisation", "lim.probe_limit": 4.0}
    saved = settings.changed(m.Settings(), "h1", "LOWEST", params, save=True)
    names = frozenset(["lim.min_gain", "load.index", "lim.algorithm"])
    found = settings.changed(saved, "h1", None, {}, reset=names)
    assert (found.algorithm, found.params, found.words) == ("", {"lim.probe_limit": 4.0}, {})
    assert found.saved == {"lim.probe_limit": "4.0"}
    assert settings.in_force(BASE, found).lim.algorithm == BASE.lim.algorithm


def test_invalid_saved_settings_are_ignored_but_stay_saved():
    saved = {"lim.min_gain": "0.5", "lim.algorithm": "FASTEST", "lim.probe_limit": "-1",
             "lim.later_one": "7", "load.index": "\u2020"}  # fmt: skip
    found, faults = settings.resumed(BASE, m.Settings(3, saved=saved))
    assert (found.algorithm, found.params, found.words) == ("", {"lim.min_gain": 0.5}, {})
    assert (found.saved, found.version) == (saved, (3, ""))
    assert [fault.partition(" =")[0].removeprefix("the saved ") for fault in faults] == [
        "lim.algorithm", "lim.later_one", "lim.probe_limit", "load.index",
    ]  # fmt: skip


def test_past_drains_are_bounded():
    note = m.DrainNote("", "ann", 1.0)
    found = m.Settings()
    for number in range(m.PAST_DRAINS_MAX + 1):
        past = m.PastDrain("h2", note, "bob", float(number))
        found = settings.changed(found, "h1", None, {}, ended=past)
    assert len(found.past_drains) == m.PAST_DRAINS_MAX
    assert (found.past_drains[0].until, found.past_drains[-1].until) == (1.0, m.PAST_DRAINS_MAX)


def test_only_a_limited_number_of_down_hosts_can_be_drained():
    full = Settings(drains={HostId(f"h{n}"): True for n in range(m.DRAINS_MAX)})
    with pytest.raises(ConfigError, match="are already drained"):
        settings.changed(full, "h1", None, {}, {HostId("one-more"): True})
    changed = settings.changed(full, "h1", None, {}, {HostId("h0"): False})
    assert changed.drains[HostId("h0")] is False
