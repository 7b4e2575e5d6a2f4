"""Hosts: lists of their names, sinfo, and what scontrol shows of them."""

import pytest

from lbd.slurm import nodes, scontrol, sinfo
from lbd.slurm.hostlist import hosts_in
from lbd.slurm.options import SlurmError
from lbd.slurm.sbatch import hosts_of

MEMORY = {"total": 8 << 30, "available": 3 << 30}
DRAINED = {"reason": "bad disk", "by": "ann", "since": 0.0}


def row(name, used, state="up", **more):
    return {
        "name": name, "state": state, "slots": {"used": used, "total": 4}, "memory": MEMORY,
        "index": 0.5, "features": ["avx"], "resources": {"gpu": {"total": 2, "used": 0}},
        "address": "10.0.0.1", "drained": None, **more,
    }  # fmt: skip


ROWS = [row("h1", 0), row("h2", 4), row("h3", 1), row("h4", 0), row("h5", 0, "down"),
        row("h6", 2, "drained", drained=DRAINED)]  # fmt: skip


@pytest.fixture(autouse=True)
def rows(monkeypatch):
    for module in (sinfo, nodes):
        monkeypatch.setattr(module, "hosts", lambda: ROWS)


@pytest.fixture
def shown(capsys):
    def run(program, *words):
        assert program.run(list(words)) == 0
        return capsys.readouterr().out.splitlines()

    return run


@pytest.mark.parametrize(
    ("text", "names"),
    [("h1,h2", "h1 h2"), ("h[1-3,7],x", "h1 h2 h3 h7 x"), ("n[08-10]b", "n08b n09b n10b"),
     ("r[1-2]n[a,b]", "r1na r1nb r2na r2nb"), ("", "")],
)  # fmt: skip
def test_a_list_of_hosts(text, names):
    assert hosts_in(text) == names.split()


@pytest.mark.parametrize(
    "text", ["h[1", "h1]", "h[3-1]", "h[]", "h[1-]", "h[1-99999999]", "h[1-5000],k[1-6000]",
             "a[1-200]b[1-200]"],
)  # fmt: skip
def test_a_bad_list_of_hosts_is_refused(text):
    with pytest.raises(SlurmError, match=r"not a list of hosts|more than 10000 hosts"):
        hosts_in(text)


def test_ranges_of_hosts_are_excluded_each():
    assert hosts_of({"exclude": "h[1-2],h9"}) == ["-x", "h1", "-x", "h2", "-x", "h9"]
    assert hosts_of({"nodelist": "h[7]"}) == ["-H", "h7"]


def test_sinfo_selects(shown):
    for words, expected in (
        ([], ["idle h1,h4", "alloc h2", "mix h3", "down h5", "drain h6"]),
        (["-t", "idle,drained"], ["idle h1,h4", "drain h6"]),
        (["-n", "h[1-2]"], ["idle h1", "alloc h2"]),
        (["-p", "gpu"], []), (["-R"], ["drain h6"]), (["-t", "maint"], []),
    ):  # fmt: skip
        assert shown(sinfo, "-h", "-o", "%t %N", *words) == expected
    for words, fault in ((["-t", "foo"], "Bad state string: 'foo'"), (["-M", "x"], "'x' can't be"),
                         (["-S", "n"], "--sort n is not"),
                         (["-d"], "--dead is .*use -t down")):  # fmt: skip
        with pytest.raises(SlurmError, match=fault):
            sinfo.run(words)


def test_sinfo_in_its_other_formats(shown, monkeypatch):
    assert shown(sinfo, "-s")[1] == "lbd*         up   infinite          3/2/1/6 h1,h2,h3,h4,h5,h6"
    assert shown(sinfo, "-hN", "-n", "h3") == ["h3              1      lbd* mix"]
    assert shown(sinfo, "-l", "-n", "h2")[2].split() == [
        "lbd*", "up", "infinite", "1", "allocated", "h2"]  # fmt: skip
    assert "drained" in shown(sinfo, "-Nl", "-n", "h6")[2]
    assert shown(sinfo, "-Rh")[0].split("1970")[0] == "bad disk             ann       "
    assert shown(sinfo, "-h", "-n", "h[1-2]", "-o", "%N %c %m %e %O %G %f %C") == [
        "h1,h2 4 8192 3072 0.50 gpu:2 avx 4/4/0/8"
    ]
    assert shown(sinfo, "-h", "-o", "%P %D") == ["lbd* 6"]  # hosts differ only in what is asked for
    monkeypatch.setenv("SINFO_FORMAT", "%T")
    assert shown(sinfo, "-n", "h6") == ["STATE", "drained"]


def test_scontrol_shows_hosts_and_the_partition(shown, monkeypatch):
    assert shown(scontrol, "-o", "show", "node", "h6")[0].startswith(
        "NodeName=h6 CPUAlloc=2 CPUTot=4 CPULoad=0.50 AvailableFeatures=avx Gres=gpu:2 "
        "NodeAddr=10.0.0.1 RealMemory=8192 FreeMem=3072 State=IDLE+DRAIN Partitions=lbd "
        "Reason=bad disk [ann@"
    )
    assert shown(scontrol, "-o", "show", "partition") == [
        "PartitionName=lbd Default=YES MaxTime=UNLIMITED Nodes=h1,h2,h3,h4,h5,h6 State=UP "
        "TotalCPUs=24 TotalNodes=6"
    ]
    with pytest.raises(SlurmError, match="Node h9 not found"):
        scontrol.run(["show", "node", "h[6,9]"])
    assert shown(scontrol, "show", "hostnames", "h[1-2],x") == ["h1", "h2", "x"]
    assert shown(scontrol, "show", "hostlist", "h1,h2") == ["h1,h2"]
    monkeypatch.setenv("SLURM_JOB_NODELIST", "h3")
    assert shown(scontrol, "show", "hostnames") == ["h3"]


def test_scontrol_updates(monkeypatch):
    acted = []
    monkeypatch.setattr(scontrol, "act", lambda *given, **more: acted.append((*given, more)) or [])
    job = {"id": "12", "name": "fit", "user": "ann", "state": "pending", "timeout_s": 600.0}
    monkeypatch.setattr(scontrol, "jobs", lambda ids: [scontrol.Job(job)])
    monkeypatch.setattr(scontrol, "recent", lambda users, **_: ([scontrol.Job(job)], 0))
    monkeypatch.setattr(scontrol, "with_details", lambda job: job)
    monkeypatch.setattr(scontrol.getpass, "getuser", lambda: "ann")
    for words in (
        ["update", "job", "12", "TimeLimit=2:00:00"], ["update", "JobId=12", "TimeLimit=+10"],
        ["update", "JobId=12", "TimeLimit=-5", "Name=x"], ["update", "JobId=12", "Priority=0"],
        ["hold", "name=fit"], ["release", "JobId=12,13_[1,2%2]"],
    ):  # fmt: skip
        assert scontrol.run(words) == 0
    assert acted == [
        ("update", ["12"], {"update": {"timeout_s": 7200.0}}),
        ("update", ["12"], {"update": {"timeout_s": 1200.0}}),
        ("update", ["12"], {"update": {"timeout_s": 300.0, "name": "x"}}),
        ("hold", ["12"], {}), ("hold", ["12"], {}), ("release", ["12", "13_[1,2]"], {}),
    ]  # fmt: skip
    for words, fault in (
        (["hold", "name=other"], "no job of yours"),
        (["hold", "foo=12"], "foo=12 is not supported"),
        (["update", "nodename=h1", "state=drain"], "use `lbctl drain HOST`"),
    ):  # fmt: skip
        with pytest.raises(SlurmError, match=fault):
            scontrol.run(words)
