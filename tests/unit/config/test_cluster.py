"""Settings for all hosts: which ones exist, and how values that another host set are applied."""

import pytest

from lbd.config.cluster import overlaid, placed, queue_hosts, shared_text
from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import Config
from lbd.errors import ConfigError


def texts(**values):
    return {
        f"dispatch.{key}": shared_text(f"dispatch.{key}", value) for key, value in values.items()
    }


def test_a_setting_for_all_hosts_overrules_the_file():
    config = Config(dispatch=DispatchConfig(host="h1", lease_s=30.0, mode="tags"))
    saved = texts(lease_s=20, name_jobs=["x:1"], host="h2") | {"lim.min_gain": "0.5"}
    found, faults = overlaid(config, saved)
    assert faults == []
    assert found.dispatch == DispatchConfig(
        host="h2", lease_s=20.0, mode="tags", name_jobs=("x:1",)
    )
    assert type(found.dispatch.lease_s) is float


def test_the_names_of_resources_are_for_all_hosts():
    found, faults = overlaid(Config(), {"cluster.resources": '["gpu", "licence"]'})
    assert (found.cluster.resources, faults) == (("gpu", "licence"), [])


@pytest.mark.parametrize(
    ("name", "text"),
    [("dispatch.lease_s", "-1"), ("dispatch.mode", '"newest"'), ("dispatch.closed", "{"),
     ("dispatch.host", "[[["), ("tags.cutoffs_s", '"x"'), ("cluster.resources", '["a b"]')],
)  # fmt: skip
def test_what_means_nothing_here_is_left_out_with_a_line(name, text):
    found, faults = overlaid(Config(), {name: text, "dispatch.user_slots": "3"})
    assert found == Config(dispatch=DispatchConfig(user_slots=3))
    (fault,) = faults
    assert fault.startswith(f"{name} = {text}, set for all hosts, is ignored: ")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("dispatch.store", "sqlite:///x", "is set per host: set it in lbd.toml"),
        ("dispatch.port", 1, "is set per host"),
        ("admission.slots", 1, "cannot be set for the whole cluster"),
        ("dispatch.lease_s", 0, "out of range"),
        ("cluster.hosts", [], "cannot be set for the whole cluster"),
        ("cluster.resources", ["memory"], "memory is requested with --mem"),
        ("cluster.resources", ["a b"], "starts with a letter"),
        ("cluster.resources", [f"n{at}" for at in range(17)], "more than 16"),
        ("dispatch.lease_s", "x", "dispatch.lease_s: "),
        ("dispatch.name_jobs", ["x" * 200], "200 printable characters"),
        ("dispatch.host", "h\x1b2", "printable"),
    ],
)
def test_settings_that_cannot_be_set_for_all_hosts(name, value, says):
    with pytest.raises(ConfigError, match=says):
        shared_text(name, value)


@pytest.mark.parametrize("hosts", [(), ("h1",), ("h2", "h1", "h3")])
def test_the_hosts_of_the_queue(hosts):
    saved = {name: shared_text(name, value) for name, value in placed(hosts).items()}
    assert queue_hosts(saved) == hosts
    assert overlaid(Config(dispatch=DispatchConfig(host="h9")), saved)[0].dispatch.hosts == hosts


def test_without_saved_hosts_of_the_queue_each_file_decides():
    assert queue_hosts({"dispatch.lease_s": "3"}) is None
    assert queue_hosts({"dispatch.host": "{"}) == ()
