"""What is asked of `lbd lab` that cannot be, and of a lab that is not there."""

import signal

import pytest

from lbd.cli import main


@pytest.fixture(autouse=True)
def own_signals():
    """`lbd lab` ends by exceptions where it is told to end: not so this process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["up", "--hosts", "0"], 2, "from 1 to 254"),
        (["up", "--hosts", "many"], 2, "invalid int"),
        (["up", "--cpus", "-1"], 2, "0.01 to 4096"),
        (["up", "--isolate", "jail"], 2, "namespaces"),
        (["up", "--algorithm", "GLOBUL"], 2, 'did you mean "GLOBAL"'),
        (["up", "--set", "lim.prot=1"], 2, 'did you mean "port"'),
        (["up", "--set", "lim"], 2, "section.key=value"),
        (["up", "--set", "host.name=x"], 2, "its own"),
        (["up", "--mode", "fsfc"], 2, "fcfs"),
        (["up", "--store", "mysql://x"], 2, "sqlite:///a/file"),
        (["upp"], 2, "invalid choice"),
        ([], 2, "COMMAND"),
        (["status"], 1, "no lab"),
        (["env", "h1"], 1, "no lab"),
        (["kill", "h1", "lim"], 1, "no lab"),
        (["start", "h1"], 1, "no lab"),
        (["cut", "h1", "h2"], 1, "no lab"),
        (["heal"], 1, "no lab"),
    ],
)
def test_bad_input_is_one_line(tmp_path, capsys, words, code, says):
    root = tmp_path / "lab"
    try:
        found = main.main(["lab", *words, *(["--dir", str(root)] if len(words) else [])])
    except SystemExit as ended:
        found = ended.code
    out, err = capsys.readouterr()
    assert (found, out) == (code, "")
    assert says in err
    assert err.startswith("lbd lab")
    assert err.count("\n") == 1
    assert not root.exists()
