"""A backup of a running cluster is restored on a host that has lost everything."""

import shutil
import tarfile
from functools import partial

import pytest

from tests.live.cluster import Lab
from tests.live.trust import authority_on, files_of

pytestmark = pytest.mark.live


LAB = partial(Lab.up, 2, "none", "--tls", "--mode", "fcfs")


def test_a_bundle_holds_no_secrets(lab, tmp_path):
    """Neither those in files, nor those in the environment of daemons and of the caller."""
    config, log = lab.paths("h1").config, lab.paths("h1").log("lim")
    token = lab.run("h1", "lbctl", "token", "create").stdout.split()[-1]
    assert token.startswith("lbd1-")
    before = config.read_text()
    assert "[load]\n" in before
    secret = f'[load]\nsite_command = ["probe", "--token", "{token}"]\n'
    config.write_text(before.replace("[load]\n", secret))
    with log.open("a") as file:
        file.write(f"lbd lim: cannot reach postgresql://lbd:hunter2hunter2@db {token}\n")
        file.write("lbd lim: it was tr0ub4dor-of-mine\n")
    try:
        made = tmp_path / "b.tar.gz"
        told = lab.run(
            "h1", "lbctl", "bundle", made, "--json", env={"DB_PASS": "tr0ub4dor-of-mine"}
        )
    finally:
        config.write_text(before)
    assert told.returncode == 0, told.stderr
    assert made.stat().st_mode & 0o777 == 0o600
    with tarfile.open(made) as tar:
        texts = {one.name: tar.extractfile(one).read().decode() for one in tar.getmembers()}
    names = {name.partition("/")[2] for name in texts}
    assert {"versions.json", "config.json", "lbd.toml", "doctor.json", "status.json",
            "logs/lim.log", "logs/lbm.log", "left-out.txt"} <= names  # fmt: skip
    assert texts["lbd-bundle/left-out.txt"] == ""
    assert "ready host=h1" in texts["lbd-bundle/logs/lim.log"]
    keys = [files_of(lab, "h1").credentials, authority_on(lab).key_file]
    lines = [line for key in keys for line in key.read_text().split() if len(line) > 40]
    assert len(lines) > 4
    everything = "\n".join(texts.values())
    for secret in (*lines, token, "hunter2hunter2", "tr0ub4dor-of-mine"):
        assert secret not in everything, secret


def test_a_lost_first_host_is_restored(lab, tmp_path):
    def states():
        return {job["id"]: job["state"] for job in lab.lbctl_json("h1", "jobs", "--all")}

    file, mark = tmp_path / "b.tar", tmp_path / "ran"
    done = lab.run("h1", "lbrun", "-d", "true", check=True).stdout.strip()
    lab.run("h1", "lbctl", "wait", done, check=True)
    running = lab.run("h1", "lbrun", "-d", "--no-restart", "sleep", "60").stdout.strip()
    lab.wait_until(lambda: states()[running] == "running", "it runs")
    waiting = lab.run("h1", "lbrun", "-d", "--begin", "+1h", "touch", mark).stdout.strip()
    said = lab.run("h1", "lbctl", "backup", file, check=True).stdout
    assert "the authority, the queue's ledger" in said
    assert "stop the daemons first" in lab.run("h1", "lbctl", "restore", file).stderr

    lab.kill("h1", "host")
    authority = authority_on(lab)
    shutil.rmtree(files_of(lab, "h1").root)
    shutil.rmtree(authority.root)
    for path in files_of(lab, "h1").root.parent.glob("ledger.sqlite*"):
        path.unlink()
    lab.run("h1", "lbctl", "restore", file, check=True)
    lab.start("h1")
    lab.wait_until(lambda: states().get(running) == "lost", "the dispatcher has the ledger")
    assert states() == {done: "done", running: "lost", waiting: "pending"}
    job = lab.lbctl_json("h1", "job", waiting)
    assert job["reason"].startswith("held: restored from a backup of ")
    lab.wait_until(lambda: lab.states("h1") == {"h1": "up", "h2": "up"}, "h2 believes the new h1")
    lab.run("h1", "lbctl", "update", waiting, "--begin", "+0s", check=True)
    lab.run("h1", "lbctl", "release", waiting, check=True)
    lab.run("h1", "lbctl", "wait", waiting, check=True)
    assert mark.exists()


def test_a_drained_host_is_replaced_from_its_backup(lab, tmp_path):
    """It was not drained any more, and jobs began on it at once."""
    file, state = tmp_path / "b.tar", files_of(lab, "h2").root.parent

    def replace_it():
        lab.kill("h2", "host")
        for path in state.iterdir():
            if path != files_of(lab, "h2").root:  # as if it had joined again
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        lab.run("h2", "lbctl", "restore", file, check=True)
        lab.start("h2")

    def notes():
        return {host["name"]: host["drained"] for host in lab.lbctl_json("h1", "status")["hosts"]}

    lab.run("h1", "lbctl", "drain", "h2", "--reason", "disk sdb", check=True)
    lab.wait_until(lambda: '"disk sdb"' in (state / "settings.json").read_text(), "h2 knows why")
    lab.run("h2", "lbctl", "backup", file, check=True)
    replace_it()
    lab.wait_until(lambda: lab.states("h1") == {"h1": "up", "h2": "drained"}, "it is drained")
    assert notes()["h2"]["reason"] == "disk sdb"
    lab.run("h1", "lbctl", "undrain", "h2", check=True)
    replace_it()
    lab.wait_until(lambda: lab.states("h1") == {"h1": "up", "h2": "up"}, "undrained since the copy")
    lab.run("h1", "lbctl", "drain", "h2", "--reason", "fan", check=True)
    replace_it()
    lab.wait_until(lambda: lab.states("h1") == {"h1": "up", "h2": "drained"}, "since the copy")
    assert notes()["h2"]["reason"] == "fan"
    lab.run("h1", "lbctl", "undrain", "h2", check=True)
