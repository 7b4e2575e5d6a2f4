"""An experiment's directory: one command at a time, and no error is taken for another command."""

import pytest

from lbd.errors import ConfigError, LbdError
from lbd.experiment.store import Store


def test_a_second_command_is_refused_and_the_next_one_may_run(tmp_path):
    with Store(tmp_path).held(), pytest.raises(LbdError, match="already running"):
        Store(tmp_path).held().__enter__()
    with Store(tmp_path).held():
        pass


def test_a_blocking_error_inside_is_passed_on_as_it_is(tmp_path):
    with pytest.raises(BlockingIOError), Store(tmp_path).held():
        raise BlockingIOError


def test_an_unwritable_directory(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="--out"), Store(tmp_path / "file" / "out").held():
        pass
