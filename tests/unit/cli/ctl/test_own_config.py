"""The lbd.toml of a host that joins: existing settings stay, missing ones are added."""

import pytest

from lbd.cli.ctl.own_config import complete, own_config, with_settings
from lbd.config.load import load
from lbd.errors import ConfigError

NAME, ADDRESS, JOIN = ("host", "name"), ("host", "address"), ("cluster", "join")
PACKAGED = """# a comment

[host]
runtime_dir = "/run/lbd"  # theirs
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "etc/lbd.toml"


def write(file, text):
    file.parent.mkdir()
    file.write_text(text)
    file.chmod(0o640)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[admission]\nslots = 2\n", ""),
        ("[host]\nname = 'h1'\n\n[admission]\nslots = 2\n", "[host]\nname = 'h1'\n\n"),
        ("[admission]\n# mine\nslots = 2\n", "[admission]\n# mine\n"),
        ("[host]\nname = 'h1'\n", "[host]\nname = 'h1'\n"),
        ("", ""),
    ],
)
def test_a_section_that_becomes_empty_is_removed(text, left):
    assert with_settings(text, {("admission", "slots"): None}, "lbd.toml") == left


def test_a_missing_file_is_written(file):
    own = own_config(str(file), {ADDRESS: "10.0.0.2"}, {NAME: "h2"})
    assert (own.config.host.name, own.config.host.address) == ("h2", "10.0.0.2")
    assert not file.exists()
    assert complete(own, {JOIN: "10.0.0.1:7901"})
    config = load(str(file))
    assert (config.host.name, config.host.address) == ("h2", "10.0.0.2")
    assert config.cluster.join == "10.0.0.1:7901"


def test_comments_stay(file):
    write(file, "# all of it\n")
    own = own_config(str(file), {ADDRESS: "10.0.0.2"}, {NAME: "h2"})
    assert own.is_fresh
    complete(own, {})
    assert file.read_text() == '# all of it\n\n[host]\nname = "h2"\naddress = "10.0.0.2"\n'


def test_an_existing_file_is_completed(file):
    write(file, PACKAGED)
    own = own_config(str(file), {}, {ADDRESS: "10.0.0.2"})
    assert complete(own, {JOIN: "10.0.0.1:7901"})
    assert file.read_text().startswith(f'{PACKAGED}address = "10.0.0.2"\n')
    assert load(str(file)).cluster.join == "10.0.0.1:7901"
    assert file.stat().st_mode & 0o777 == 0o640
    before = file.read_text()
    assert not complete(own_config(str(file), {ADDRESS: "10.0.0.2"}, {}), {JOIN: "10.0.0.1:7901"})
    assert file.read_text() == before


def test_a_later_join_names_the_host_that_exists_now(file):
    write(file, '# mine\n[cluster]\njoin = "10.0.0.1:7901"\n')
    own = own_config(str(file), {ADDRESS: "10.0.0.2"}, {})
    assert complete(own, {JOIN: "10.9.9.9:7901", ("cluster", "name"): "lbd"})
    assert load(str(file)).cluster.join == "10.9.9.9:7901"
    assert file.read_text().startswith("# mine\n")


def test_a_host_that_is_listed_needs_no_more(file):
    write(file, 'cluster.hosts = [{name = "h2", address = "10.0.0.2"}]\nhost.name = "h2"\n')
    own = own_config(str(file), {}, {ADDRESS: "10.7.7.7"})
    assert own.config.host.address == "10.0.0.2"
    assert not complete(own, {JOIN: "10.0.0.1:7901"})


def test_existing_settings_are_not_overruled(file):
    write(file, '[host]\naddress = "10.0.0.2"\n')
    with pytest.raises(
        ConfigError, match=r"not '10.0.0.3'; `lbctl config set host.address 10.0.0.3`"
    ):
        own_config(str(file), {ADDRESS: "10.0.0.3"}, {})


def test_a_file_in_another_style_is_completed_in_that_style(file):
    write(file, 'host.name = "h2"\n')
    assert complete(own_config(str(file), {ADDRESS: "10.0.0.2"}, {}), {})
    assert file.read_text() == 'host.name = "h2"\nhost.address = "10.0.0.2"\n'


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", "[host]\na = 1\n"),
        ("[host]\nb = 2 # two\n", "[host]\nb = 2 # two\na = 1\n"),
        ("[host]\na = 2 # two\n\n# next\n[lim]\n", "[host]\na = 1 # two\n\n# next\n[lim]\n"),
        ("[[cluster.hosts]]\n", "[[cluster.hosts]]\n\n[host]\na = 1\n"),
        ("[host] # here\n[lim]", "[host] # here\na = 1\n[lim]"),
    ],
)
def test_everything_else_stays_as_it_was(text, after):
    assert with_settings(text, {("host", "a"): 1}, "lbd.toml") == after


def test_a_setting_is_removed():
    text = with_settings("# c\n[host]\na = 1\nb = 2\n", {("host", "a"): None}, "lbd.toml")
    assert text == "# c\n[host]\nb = 2\n"


@pytest.mark.parametrize("text", ["host = 1\n", "host =\n"])
def test_what_is_not_a_section_is_reported(text):
    with pytest.raises(ConfigError, match=r"^lbd.toml"):
        with_settings(text, {("host", "a"): 1}, "lbd.toml")
