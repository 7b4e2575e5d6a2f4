"""Commands that only look need no more of lbd.toml than where the daemons are."""

import pytest

from lbd.cli.damaged_config import load_despite_faults
from lbd.errors import ConfigError

SOUND = '[host]\nname = "h7"\nruntime_dir = "/run/h7"\n[dispatch]\nhost = "h9"\n'
FAULTS = {
    "a key that is none": "[lim]\nalgoritm = 1\n",
    "a section that is none": "[lin]\nport = 1\n",
    "a value out of bounds": "[lim]\nport = 99999\n",
    "no TOML": "[lim]\nport 17\n",
    "a bracket that is not closed": "[lim\nport = 17\n",
    "a section twice": '[host]\nname = "h8"\n',
    "a contradiction": "[lim]\nstale_after_s = 5.0\ndown_after_s = 1.0\n",
}


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "lbd.toml"
        path.write_text(text)
        return load_despite_faults(str(path))

    return read


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("is_first", [False, True])
def test_the_valid_settings_count(read, fault, is_first):
    config, said = read(fault + SOUND if is_first and "[host]" not in fault else SOUND + fault)
    assert all("lbd.toml" in line for line in said)
    assert len(said) == 1
    assert (config.host.name, config.host.runtime_dir) == ("h7", "/run/h7")
    assert config.dispatch.host == "h9"


def test_nothing_is_said_of_a_valid_file(read):
    assert read(SOUND)[1] == []


def test_every_fault_is_reported(read):
    config, said = read(f"{SOUND}[lim]\nport = 0\nsample = 1\n[loam]\n[load]\nscope = 1\n")
    assert [line.split("lbd.toml:")[1].split(":")[0] for line in said] == ["7", "8", "9", "11"]
    assert config.lim.port == 7901


def test_every_line_that_is_not_toml_is_reported(read):
    _, said = read(f"[lim\n{SOUND}port 17\nname = h\n")
    assert [line.split("lbd.toml:")[1].split(":")[0] for line in said] == ["1", "7", "8"]


def test_settings_that_only_fit_together_are_valid(read):
    config, said = read("[lim]\nport = 0\nstale_after_s = 100.0\ndown_after_s = 200.0\n")
    assert (config.lim.stale_after_s, config.lim.down_after_s) == (100.0, 200.0)
    assert len(said) == 1


def test_unreadable_settings_keep_their_defaults(tmp_path):
    path = tmp_path / "lbd.toml"
    path.write_bytes(b"\xff\xfe")
    assert "UTF-8" in load_despite_faults(str(path))[1][0]


def test_a_named_file_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        load_despite_faults(str(tmp_path / "none.toml"))
