"""Which parts of an environment are sent along."""

import pytest

from lbd.config.schema import KEPT_BACK
from lbd.lbm.core.environment import DenyList, outgoing, without_jobserver

KEPT = [
    "DISPLAY", "WAYLAND_DISPLAY", "SSH_AUTH_SOCK", "SSH_CONNECTION", "XDG_RUNTIME_DIR", "TMUX",
    "XDG_SESSION_ID", "DBUS_SESSION_BUS_ADDRESS", "GITHUB_TOKEN", "NPM_TOKEN", "PGPASSWORD",
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "VAULT_PASSWORD_FILE", "OPENAI_API_KEY",
    "CLIENT_SECRET", "GPG_PASSPHRASE", "DEPLOY_PRIVATE_KEY",
]  # fmt: skip
LEAVES = [
    "PATH", "HOME", "USER", "TERM", "LANG", "LC_ALL", "TZ", "CFLAGS", "XDG_CONFIG_HOME", "EDITOR",
    "XDG_DATA_DIRS", "PWD", "OLDPWD", "SHELL", "DISPLAYS", "MY_DISPLAY", "TOKEN_COUNT", "SSH",
    "SECRETARY", "LD_LIBRARY_PATH", "BASH_FUNC_f%%", "KEY", "AWS_REGION", "MONKEY", "LBD_CONFIG",
]  # fmt: skip


def names(environment):
    return [item.partition(b"=")[0].decode() for item in environment]


def test_the_usual_names():
    given = [f"{name}=x=y".encode() for name in KEPT + LEAVES]
    leaving, kept = outgoing(given, DenyList(KEPT_BACK, ()), set())
    assert (kept, names(leaving)) == (KEPT, LEAVES)
    assert set(leaving) <= set(given)


def test_exceptions_set_by_the_owner_and_by_the_user():
    given = [b"A_TOKEN=1", b"B_TOKEN=2", b"C_TOKEN=3"]
    denied = DenyList(["*_TOKEN"], ["B_*"])
    leaving, kept = outgoing(given, denied, {b"C_TOKEN"})
    assert (names(leaving), kept) == (["B_TOKEN", "C_TOKEN"], ["A_TOKEN"])


def test_shims_are_removed_and_path_is_as_before_them():
    given = [b"PATH=rel:/s/1:/usr/bin::/s/10", b"A=/s/1", b"LBD_SHIMS=/s/1"]
    leaving, kept = outgoing(given, DenyList([], []), set())
    assert (leaving, kept) == ([b"PATH=rel:/usr/bin::/s/10", b"A=/s/1"], [])
    assert outgoing(given[:2], DenyList([], []), set()) == (given[:2], [])


def test_patterns_are_those_of_file_names_and_case_sensitive():
    denied = DenyList(["A?", "[xy]*", "Z*Z"], [])
    names = (b"A", b"AB", b"ABC", b"x1", b"z1", b"ZZ", b"ZaZ", b"a1")
    assert [name for name in names if denied.holds(name)] == [b"AB", b"x1", b"ZZ", b"ZaZ"]
    assert not DenyList([], []).holds(b"")
    assert DenyList(["*"], []).holds(b"\xff\n")


def test_only_the_environment_of_the_previous_command_is_remembered():
    denied, first = DenyList(["*_TOKEN"], []), [b"A=1", b"A_TOKEN=2"]
    assert denied.outgoing(first, set()) == ([b"A=1"], ["A_TOKEN"])
    assert denied.outgoing(list(first), set()) is denied.outgoing(list(first), set())
    assert denied.outgoing(first, {b"A_TOKEN"}) == (first, [])
    assert denied.outgoing([b"B_TOKEN=2"], set()) == ([], ["B_TOKEN"])
    long = [b"A=" + bytes(1 << 20)]
    assert denied.outgoing(long, set()) == (long, [])
    assert denied._last[0] == [b"B_TOKEN=2"]


def test_the_memory_of_names_is_bounded():
    denied = DenyList(["N1*"], [])
    assert sum(denied.holds(b"N%d" % number) for number in range(10_000)) == 1111
    assert len(denied._verdicts) <= 4096


FLAGS = {
    "": "",
    "k": "k",
    " -j8": " -j8",  # the user's own choice, without a jobserver behind it
    "-j8 -l4": "-j8 -l4",
    " -j8 --jobserver-auth=3,4": "",
    "ks -j8 --jobserver-auth=3,4": "ks",
    "w -j --jobserver-fds=3,4 -j": "w",
    " -j8 --jobserver-auth=fifo:/tmp/GMfifo12 --jobserver-style=fifo": "",
    " -j8 -l2.5 -Otarget --jobserver-auth=3,4 --no-print-directory":
        " -l2.5 -Otarget --no-print-directory",
    " -j8 --jobserver-auth=3,4 -- CC=gcc\\ -j3 X=--jobserver-auth=1":
        " -- CC=gcc\\ -j3 X=--jobserver-auth=1",
    "-- X=--jobserver-auth=3,4": "-- X=--jobserver-auth=3,4",
    "-j --jobserver-fds=7,8 --jobserver-auth=7,8": "",
    " --jobs=4 --jobserver-auth=3,4 -jump": " -jump",
}  # fmt: skip


@pytest.mark.parametrize("given", FLAGS)
def test_flags_of_a_make_without_its_jobserver(given):
    assert without_jobserver(given.encode()).decode() == FLAGS[given]


def test_every_mention_of_a_jobserver_is_recognised():
    given = [
        b"MAKEFLAGS= -j2 --jobserver-auth=3,4", b"MFLAGS=-j2 --jobserver-auth=3,4",
        b"CARGO_MAKEFLAGS=-j --jobserver-auth=3,4", b"OTHER=--jobserver-auth=3,4", b"MAKELEVEL=1",
    ]  # fmt: skip
    leaving, _ = outgoing(given, DenyList([], []), set())
    assert leaving == [b"MAKEFLAGS=", b"MFLAGS=", b"CARGO_MAKEFLAGS=", given[3], given[4]]
    assert outgoing(given[:1], DenyList([], []), {b"MAKEFLAGS"})[0] == given[:1]


def test_of_variables_of_one_name_the_first_one_counts():
    """Each of make's is gone through word by word: 8 MB of them took seconds."""
    given = [b"MAKEFLAGS=k --jobserver-auth=3,4", b"MAKEFLAGS=s", b"MFLAGS=s"]
    assert outgoing(given, DenyList([], []), set())[0] == [b"MAKEFLAGS=k", b"MFLAGS=s"]
    given = [b"LBD_SHIMS=/s", b"PATH=/s:/bin", b"PATH=/s"]
    assert outgoing(given, DenyList([], []), set())[0] == [b"PATH=/bin", b"PATH=/s"]


def test_names_as_long_as_a_request_may_be_are_not_remembered():
    """Each of them is different, and thousands of megabytes would be all the memory of an LBM."""
    denied = DenyList(["*_TOKEN"], [])
    long = b"x" * (1 << 16) + b"_TOKEN"
    given = [b"%d" % n + long + b"=1" for n in range(100)]
    assert outgoing([*given, b"A=1"], denied, set())[0] == [b"A=1"]
    assert sum(map(len, denied._verdicts)) == 1
