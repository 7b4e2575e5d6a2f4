"""A host of a lab, and commands run there as a shell's shims run them."""

import json
import os
import sys
from pathlib import Path

from cluster import clients_path

SURE_RUNS = 3
# Burns that many seconds of CPU time, prints its host, and ends as it is told.
BURN = """
import os, sys, time
while time.process_time() < float(sys.argv[1]):
    pass
print(os.environ.get("LBD_HOST"))
sys.stdout.flush()
end = int(sys.argv[2]) if sys.argv[2:] else 0
if end < 0:
    os.kill(os.getpid(), -end)
sys.exit(end)
"""
LONG_S, SHORT_S = "0.4", "0"
THRESHOLD_S = 0.15  # far from both, whatever starting an interpreter costs


class Host:
    """h1 of a lab, and commands run there as by shims."""

    def __init__(self, lab, programs, front=""):
        self.lab = lab
        self.front = front  # "python": not the compiled client
        self.programs = programs
        self.shims = programs / "shims"
        self.shims.mkdir(exist_ok=True)
        (programs / "burn.py").write_text(BURN)

    def program(self, name):
        path = self.programs / name
        if not path.exists():
            path.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {self.programs}/burn.py "$@"\n')
            path.chmod(0o755)
        self.link(name)

    def link(self, name):
        """The shim itself, made as lbsh makes it if there is a compiled client to link to."""
        shim, client = self.shims / name, Path(clients_path(), "lbrun")
        if shim.is_symlink() or shim.exists():
            return
        if client.read_bytes()[:4] == b"\x7fELF":
            shim.symlink_to(client)
        else:
            shim.write_text(f'#!/bin/sh\nexec lbrun --shim {name} "$@"\n')
            shim.chmod(0o755)

    def environment(self):
        path = f"{self.shims}:{self.programs}:{clients_path()}:{os.environ['PATH']}"
        return {"PATH": path, "LBD_SHIMS": str(self.shims), "LBD_FRONT": self.front}

    def shim(self, name, *words, **more):
        self.program(name)
        return self.lab.run("h1", name, *words, env=self.environment(), **more)

    def where(self, name, *words):
        """The host on which it ran."""
        result = self.shim(name, *words)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout.strip()

    def eligible(self, *command):
        result = self.lab.run("h1", "lbctl", "eligible", "--json", *command, check=True)
        return json.loads(result.stdout)

    def learnt(self):
        return {row["key"]: row for row in self.eligible()["commands"]}

    def stop(self, *hosts):
        for host in hosts:
            self.lab.lab("kill", host, "lbm", "-s", "TERM")
