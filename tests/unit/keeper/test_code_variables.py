"""Environment variables that are withheld if the owner restricts which programs may run."""

import pytest

from lbd.keeper.program_rules import without_code


@pytest.mark.parametrize(
    "name",
    [
        b"LD_PRELOAD", b"LD_AUDIT", b"LD_LIBRARY_PATH", b"GCONV_PATH", b"LOCPATH", b"PYTHONPATH",
        b"PYTHONSTARTUP", b"PERL5LIB", b"PERL5OPT", b"RUBYLIB", b"RUBYOPT", b"NODE_OPTIONS",
        b"BASH_ENV", b"ENV", b"BASH_FUNC_ls%%", b"GLIBC_TUNABLES", b"JAVA_TOOL_OPTIONS",
        b"_JAVA_OPTIONS", b"GCC_EXEC_PREFIX", b"GIT_SSH_COMMAND", b"OPENSSL_CONF", b"LUA_INIT",
    ],
)  # fmt: skip
def test_variables_that_make_a_program_run_other_code_are_left_out(name):
    assert without_code({name: b"x", b"HOME": b"/home/ann"}) == {b"HOME": b"/home/ann"}


def test_all_others_are_unchanged():
    kept = {b"PATH": b"/bin", b"HOME": b"/", b"LANG": b"C", b"LBD_JOB_ID": b"1", b"\xff": b"\xfe",
            b"OLD_ENV": b"1", b"MY_LD_PRELOAD": b"x", b"OMP_NUM_THREADS": b"4"}  # fmt: skip
    assert without_code(kept) == kept
