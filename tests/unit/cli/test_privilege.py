"""What `lbd up`, as root, finds out before it starts daemons that are not."""

import sys

import pytest

from lbd.cli.privilege import check_program
from lbd.errors import ConfigError
from lbd.lbm.users import LocalUser

NOBODY = LocalUser("nobody", 65534, 65534)


@pytest.mark.root
def test_a_python_that_the_daemons_user_may_not_run_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("lbd.cli.privilege.PACKAGE_PARENT", "/usr")
    monkeypatch.setattr(sys, "executable", "/bin/sh")
    check_program(NOBODY)
    tmp_path.chmod(0o700)
    closed = tmp_path / "python"
    closed.symlink_to("/bin/sh")
    monkeypatch.setattr(sys, "executable", str(closed))
    with pytest.raises(ConfigError, match=r"nobody may not run .*daemons\.user"):
        check_program(NOBODY)
