"""`lbctl leave` and `lbctl forget`: what is removed, and when they are refused."""

import os

import pytest

from lbd.cli.lbctl import main
from lbd.config.load import load
from lbd.process.pid_lock import take_pid_lock


@pytest.fixture
def member(tmp_path, monkeypatch):
    """A host of a cluster whose daemons are stopped."""
    config = tmp_path / "lbd.toml"
    config.write_text(
        f'# ours\n[cluster]\nname = "c"\njoin = "10.0.0.1:7901"\n[host]\nname = "h4"\n'
        f'runtime_dir = "{tmp_path}/run"\nstate_dir = "{tmp_path}/state"\n'
    )
    monkeypatch.setenv("LBD_CONFIG", str(config))
    tls = tmp_path / "state/tls"
    tls.mkdir(parents=True)
    for name in ("host.pem", "authority.pem", "revoked", "authority-host"):
        (tls / name).write_text("x")
    for name in ("settings.json", "drained", "ledger.sqlite"):
        (tmp_path / "state" / name).write_text("x")
    return tmp_path


def test_what_makes_it_a_host_of_the_cluster_is_removed(member, capsys):
    assert main(["leave"]) == 0
    said = capsys.readouterr()
    assert said.out == "h4 has left cluster c\n"
    assert "`lbctl revoke h4`" in said.err
    assert sorted(path.name for path in (member / "state").rglob("*")) == ["ledger.sqlite", "tls"]
    text = (member / "lbd.toml").read_text()
    assert text.startswith("# ours\n")
    assert load().cluster.join == ""
    assert main(["leave"]) == 0  # once more


def test_not_with_the_authority_on_it(member, capsys):
    authority = member / "state-authority"
    authority.mkdir(mode=0o700)
    (authority / "authority.pem").write_text("x")
    (authority / "ledger.json").write_text("{}")
    assert main(["leave"]) == 1
    assert "authority is on this host" in capsys.readouterr().err
    assert (member / "state/tls/host.pem").exists()


@pytest.mark.parametrize(
    ("standby", "how"),
    [("", "`lbctl queue enable` another"), ('"h5"', "`lbctl queue disable h4` leaves it to")],
)
def test_not_with_the_queue_on_it(member, capsys, standby, how):
    with (member / "lbd.toml").open("a") as file:
        file.write(f'[dispatch]\nhost = "h4"\nstandby = [{standby}]\n')
    assert main(["leave"]) == 1
    assert f"the queue is on this host: {how}" in capsys.readouterr().err


def test_forgotten_everywhere_but_where_nobody_answers(daemon, capsys):
    lim = daemon("lim", forget={"host": "h4", "missing": ["h3"], "listed": True})
    assert main(["forget", "h4"]) == 0
    said = capsys.readouterr()
    assert said.out == "h4 is forgotten\n"
    assert "not by h3, which had heard of it just now, or did not answer: run `lbctl" in said.err
    assert "`lbctl revoke h4` sees to it" in said.err
    assert "[[cluster.hosts]]" in said.err
    assert lim.asked == [{"op": "forget", "host": "h4", "id": lim.asked[0]["id"]}]


@pytest.fixture
def runs(tmp_path):
    """LIM and LBM seem to run there."""
    locks = [take_pid_lock(tmp_path / f"{name}.pid") for name in ("lim", "lbm")]
    yield
    for lock in locks:
        os.close(lock)


def test_not_while_commands_are_left_here_or_away(daemon, runs, capsys):
    lim = daemon("lim", drain={})
    daemon("lbm", status={"jobs": 1})
    assert main(["leave", "--timeout", "0"]) == 1
    assert "1 command has not ended; h1 stays drained" in capsys.readouterr().err
    assert [asked["op"] for asked in lim.asked].count("drain") == 1


def test_an_lbm_of_an_older_release_does_not_say_what_it_has(daemon, runs, capsys):
    daemon("lim", drain={})
    daemon("lbm", status={})
    assert main(["leave"]) == 1
    assert "older release: `lbctl restart`" in capsys.readouterr().err
