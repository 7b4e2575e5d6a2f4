import pytest

from lbd.load import speed


def test_speed_is_measured_once_and_stored(tmp_path):
    first = speed.known_speed(tmp_path)
    assert first >= speed.STEP
    assert first % speed.STEP == 0
    (tmp_path / "speed").write_text(f"7.5 {speed.processor()}\n")
    assert speed.known_speed(tmp_path) == 7.5


@pytest.mark.parametrize("kept", ["", "nonsense", "3.0 some other processor", "-1", "nan x"])
def test_an_impossible_value_is_measured_again(tmp_path, kept):
    (tmp_path / "speed").write_text(kept)
    found = speed.known_speed(tmp_path)
    assert (tmp_path / "speed").read_text() == f"{found} {speed.processor()}\n"
