"""Hosts with files of their own, the first of which has the authority."""

import time

from lbd.cli.lbctl import main
from lbd.net.tls import Tls
from lbd.trust.authority import Authority
from lbd.trust.enrol import enrol
from lbd.trust.files import HostFiles

DAY_S = 86400.0


class Host:
    def __init__(self, root, name, cluster="c"):
        self.root, self.name, self.cluster = root / name, name, cluster
        self.files = HostFiles(self.root / "state/tls")
        self.authority = Authority(self.root / "state-authority", DAY_S)
        (self.root / "state").mkdir(parents=True)
        self.config = self.root / "lbd.toml"
        self.config.write_text(
            f'[cluster]\nname = "{cluster}"\n[host]\nname = "{name}"\naddress = "10.0.0.9"\n'
            f'runtime_dir = "{self.root}/run"\nstate_dir = "{self.root}/state"\n'
            '[daemons]\nuser = "root"\n'
        )

    def found(self, *others):
        self.authority.create(self.cluster, self.name, time.time())
        for host in (self, *others):
            enrol(self.authority, host.files, host.name, "10.0.0.1:7901", time.time())

    def tls(self):
        return Tls(
            self.name, self.files, lambda: self.authority if self.authority.exists() else None
        )

    def everything(self):
        found = sorted(path for path in self.root.rglob("*") if path.is_file())
        return {path: path.read_bytes() for path in found}


def two_hosts(root):
    first, second = Host(root, "h1"), Host(root, "h2")
    first.found(second)
    return first, second


def lbctl_on(capsys, monkeypatch):
    def run(host, *words, status=0):
        monkeypatch.setenv("LBD_CONFIG", str(host.config))
        assert main([*map(str, words)]) == status
        return capsys.readouterr()

    return run


def refused(said):
    (line,) = said.err.splitlines()
    assert said.out == ""
    return line
