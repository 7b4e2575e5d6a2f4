"""`lbctl backup` and `restore`: everything is put back, or nothing is changed.

One file because the damaged copies are made from the intact one of the same host.
"""

import contextlib
import fcntl
import io
import json
import os
import resource
import shutil
import signal
import sqlite3
import tarfile
import tempfile
import threading
import time

import pytest

from lbd.cli.ctl import backup
from lbd.cli.lbctl import main
from lbd.config.load import load
from lbd.config.schema import StatsConfig
from lbd.dispatch.ledger.sqlite import migrate
from lbd.lbm.paths import IDS_RESERVED, JobNumbers
from lbd.lbm.usage.record import Usage
from lbd.lbm.usage.store import UsageStore
from lbd.net.tls import names_in
from lbd.trust.authority import Authority
from lbd.trust.enrol import enrol
from lbd.trust.files import HostFiles
from lbd.trust.ledger import ISSUES_SKIPPED, NUMBERS_SKIPPED
from lbd.trust.names import identity_of

SETTINGS = '{"counter": 3, "drains": {}, "saved": {"lim.min_gain": "0.5"}}'


class Host:
    """A host with the authority and the settings."""

    def __init__(self, root, monkeypatch):
        self.root, self.state = root, root / "state"
        self.authority = Authority(root / "state-authority", 86400.0)
        self.files = HostFiles(self.state / "tls")
        self.config = root / "lbd.toml"
        self.monkeypatch = monkeypatch

    def install(self):
        self.state.mkdir(parents=True)
        self.config.write_text(
            f'[cluster]\nname = "c"\n[host]\nname = "h1"\nruntime_dir = "{self.root}/run"\n'
            f'state_dir = "{self.state}"\n[daemons]\nuser = "root"\n[metrics]\nlisten = ":9"\n'
        )
        self.authority.create("c", "h1", time.time())
        enrol(self.authority, self.files, "h1", "127.0.0.1:7901", time.time())
        (self.state / "settings.json").write_text(SETTINGS)

    def lose(self):
        shutil.rmtree(self.state)
        shutil.rmtree(self.authority.root)

    def files_there(self):
        found = sorted(path for path in self.root.rglob("*") if path.is_file())
        return {path: path.read_bytes() for path in found}


@pytest.fixture
def host(tmp_path, monkeypatch):
    host = Host(tmp_path / "h1", monkeypatch)
    host.install()
    monkeypatch.setenv("LBD_CONFIG", str(host.config))
    return host


@pytest.fixture
def lbctl(capsys):
    def run(*words, status=0):
        assert main([*map(str, words)]) == status
        return capsys.readouterr()

    return run


@pytest.fixture
def file(tmp_path, host, lbctl):
    lbctl("backup", tmp_path / "b.tar")
    return tmp_path / "b.tar"


def test_a_backup_is_complete_and_readable_by_its_owner_only(lbctl, host, tmp_path):
    said = lbctl("backup", tmp_path / "b.tar").out
    assert said == f"{tmp_path}/b.tar: the authority, the cluster's settings, lbd.toml\n"
    assert (tmp_path / "b.tar").stat().st_mode & 0o777 == 0o600
    again = lbctl("backup", tmp_path / "b.tar").out  # it was replaced without a word
    assert again.startswith(f"{said}it replaces the file of that name of 20")
    assert json.loads(lbctl("backup", tmp_path / "b.tar", "--json").out)["parts"] == [
        "authority/ledger.json", "authority/authority.pem", "settings.json", "lbd.toml",
    ]  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "h1"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write where others own")
def test_a_backup_of_root_in_the_directory_of_a_user_does_not_belong_to_that_user(
    lbctl, host, tmp_path, monkeypatch
):
    home, made = tmp_path / "home", []
    home.mkdir()
    os.chown(home, 12345, 12345)
    make = tempfile.TemporaryDirectory

    def scratch(**options):
        made.append(options["dir"])
        return make(**options)

    monkeypatch.setattr(tempfile, "TemporaryDirectory", scratch)
    lbctl("backup", home / "b.tar")
    assert (home / "b.tar").stat().st_uid == 0
    assert made == [None]  # nor are the parts ever where the user could exchange them


def test_a_host_that_has_lost_its_certificate_is_told_that_it_needs_one(lbctl, host, tmp_path):
    """If the copy contains the authority, the host gets one at once."""
    shutil.move(host.authority.root, tmp_path / "elsewhere")
    lbctl("backup", tmp_path / "b.tar")
    shutil.rmtree(host.state)
    said = lbctl("restore", tmp_path / "b.tar").err
    assert "h1 has no certificate: first run `lbctl token create h1` on the authority's" in said


def test_where_the_authority_survived_init_gives_its_host_a_certificate(lbctl, host, file):
    shutil.rmtree(host.state)
    assert "h1 has no certificate: first run `lbctl init` here" in lbctl("restore", file).err
    lbctl("init")
    assert identity_of(names_in(host.files.read_credentials().certificate)).issue == 1


def test_the_known_hosts_come_back_where_lbd_toml_survived(lbctl, host, tmp_path):
    (host.state / "hosts.json").write_text("{}")
    lbctl("backup", tmp_path / "b.tar")
    host.lose()
    assert "the known hosts" in lbctl("restore", tmp_path / "b.tar").out
    assert (host.state / "hosts.json").read_text() == "{}"


def test_drains_that_come_back_are_named(lbctl, host, tmp_path):
    """One that had been ended since was back without a word."""
    for drains, says in (({"h3": True, "h2": False}, True), ({"h2": False}, False)):
        settings = {"counter": 3, "drains": drains, "saved": {}}
        (host.state / "settings.json").write_text(json.dumps(settings))
        lbctl("backup", tmp_path / "b.tar")
        assert (
            "drained in the copy: h3; where" in lbctl("restore", tmp_path / "b.tar").err
        ) is says


def test_hosts_that_were_up_when_they_were_drained_are_named_too(lbctl, host, tmp_path):
    notes = {"h1": {"reason": "disk", "by": "ann@h2", "since": 1e9}}
    settings = {"counter": 3, "drains": {"h3": True}, "notes": notes, "saved": {}}
    (host.state / "settings.json").write_text(json.dumps(settings))
    lbctl("backup", tmp_path / "b.tar")
    assert "drained in the copy: h1, h3; where" in lbctl("restore", tmp_path / "b.tar").err


def test_a_machine_with_another_address_finds_the_others_and_is_told_to_set_its_own(
    lbctl, host, tmp_path
):
    (host.state / "hosts.json").write_text("{}")
    host.config.write_text(
        host.config.read_text().replace("[host]", '[host]\naddress = "192.0.2.9"')
    )
    monkeypatch = host.monkeypatch
    lbctl("backup", tmp_path / "b.tar")
    (host.state / "hosts.json").write_text("of this host")
    said = lbctl("restore", tmp_path / "b.tar").err
    assert (
        "192.0.2.9 is not this machine's address: first `lbctl config set host.address ADDRESS`"
        in said
    )
    assert "no certificate" not in said
    assert (host.state / "hosts.json").read_text() == "of this host", "it knows better"
    host.lose()
    monkeypatch.delenv("LBD_CONFIG")
    monkeypatch.setattr(backup, "absent_file", lambda _: host.config)
    host.config.unlink()
    assert "the known hosts" in lbctl("restore", tmp_path / "b.tar").out
    assert (host.state / "hosts.json").read_text() == "{}"


def test_an_lbd_toml_that_differs_from_the_copys_is_left_and_said_to_be(lbctl, host, tmp_path):
    """As after `lbctl join`, which writes one: the owner's rules were missing without a word."""
    file, joined = tmp_path / "of h1.tar", host.config.read_text()
    host.config.write_text(joined + "[lbm]\nslots = 3\n")
    lbctl("backup", file)
    says = f"{host.config} is left as it is; the copy's differs: `tar -xOf '{file}' lbd.toml`"
    assert says not in lbctl("restore", file).err
    host.config.write_text(joined)
    assert f"lbctl: {says}\n" in lbctl("restore", file).err
    assert host.config.read_text() == joined
    host.config.write_text(joined.replace('name = "h1"', 'name = "h2"'))
    shutil.rmtree(host.files.root)
    assert says not in lbctl("restore", file).err, "it is another host's"


def test_a_lost_host_is_the_host_of_the_authority_again(lbctl, host, file):
    certificate = host.authority.certificate
    number = host.authority.ledger().number
    host.lose()
    said = lbctl("restore", file)
    assert f"restored from {file} (h1, " in said.out
    assert "hosts that joined since then must join again" in said.err
    assert host.authority.certificate == certificate
    assert host.authority.key_file.stat().st_mode & 0o777 == 0o600
    assert host.authority.ledger().number == number + NUMBERS_SKIPPED
    own = host.files.read_credentials()
    issue = identity_of(names_in(own.certificate)).issue
    assert issue == ISSUES_SKIPPED  # the lost one is revoked, whichever was its latest
    assert host.authority.ledger().revocations().lowest_issue("h1") == issue
    assert (host.state / "settings.json").read_text() == SETTINGS


def test_on_a_new_machine_lbd_toml_comes_back(lbctl, host, file, monkeypatch):
    text = host.config.read_text()
    host.lose()
    host.config.unlink()
    monkeypatch.setattr("lbd.cli.ctl.backup.SYSTEM_FILE", host.config)
    monkeypatch.setattr("lbd.cli.ctl.backup.make_account", lambda config: "user lbd made")
    assert "lbctl: user lbd made\n" in (said := lbctl("restore", file)).err
    assert said.out.endswith("enable --now lbd-metrics`\n")
    assert host.config.read_text() == text
    assert load().cluster.name == "c"
    assert host.authority.exists()


def test_the_units_that_were_enabled_are_named(lbctl, host, tmp_path, monkeypatch):
    units = tmp_path / "systemd"
    monkeypatch.setattr("lbd.console.starting.ENABLED", units)
    for unit in ("lbd.target", "lbd-web.socket", "other.service"):
        (units / "multi-user.target.wants").mkdir(parents=True, exist_ok=True)
        (units / "multi-user.target.wants" / unit).symlink_to(f"/usr/lib/{unit}")
    lbctl("backup", tmp_path / "b.tar")
    host.lose()
    said = lbctl("restore", tmp_path / "b.tar").out.splitlines()
    assert said[-2:] == [
        "later, start what was enabled on h1: `systemctl enable --now lbd.target lbd-web.socket`",
        "metrics.listen is set; with the package: `systemctl enable --now lbd-metrics`",
    ]


def test_a_host_that_has_its_certificate_keeps_it(lbctl, host, file):
    before = host.files.credentials.read_bytes()
    shutil.rmtree(host.authority.root)
    said = lbctl("restore", file)
    assert ": the authority, the cluster's settings\n" in said.out, "its lbd.toml is there"
    assert host.authority.exists()
    assert host.files.credentials.read_bytes() == before


@pytest.mark.parametrize("damage", ["", "{"])
def test_an_authority_that_is_at_least_as_new_is_kept(lbctl, host, file, damage):
    enrol(host.authority, HostFiles(host.root / "other"), "h2", "127.0.0.1:7901", time.time())
    if damage:
        host.authority.ledger_file.write_text(damage)
    said = lbctl("restore", file)
    assert ("the authority on h1 is kept" in said.err) is not bool(damage)
    assert sorted(host.authority.ledger().hosts) == (["h1"] if damage else ["h1", "h2"])
    assert ("join again" in said.err) is bool(damage)


def test_restore_is_refused_on_a_host_that_joined_after_the_copy(lbctl, host, file):
    """`authority take` would refuse there, after the queue is already in place."""
    shutil.rmtree(host.files.root)
    enrol(host.authority, host.files, "h9", "127.0.0.1:7901", time.time())
    host.files.home.write_text("h1 127.0.0.1:7901\n")
    host.config.write_text(host.config.read_text().replace('"h1"', '"h9"', 1))
    before = host.files_there()
    assert (
        "h9 is revoked, or joined after this copy was made" in lbctl("restore", file, status=1).err
    )
    assert host.files_there() == before


@pytest.mark.parametrize("daemon", ["up", "lim", "lbm", "dispatcher"])
def test_restore_is_refused_while_a_daemon_runs(lbctl, host, file, daemon, monkeypatch):
    monkeypatch.setattr(backup, "ENDING_S", 0.2)
    run = host.root / "run"
    run.mkdir()
    before = host.files_there()
    with (run / f"{daemon}.pid").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("17\n")
        lock.flush()
        said = lbctl("restore", file, status=1).err
    assert "(pid 17) is running here: stop the daemons first" in said
    (run / f"{daemon}.pid").unlink()
    assert host.files_there() == before


def test_restore_waits_for_a_daemon_that_is_ending(lbctl, host, file):
    """As after `systemctl stop lbd.target`, which returns before its units have ended."""
    (host.root / "run").mkdir()
    held = (host.root / "run/lim.pid").open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    ends = threading.Timer(0.3, held.close)
    ends.start()
    lbctl("restore", file)
    ends.join()


def test_restore_refuses_a_backup_of_another_cluster(lbctl, host, file, tmp_path):
    shutil.rmtree(host.root)
    host.install()
    before = host.files_there()
    assert "whose authority is not this host's" in lbctl("restore", file, status=1).err
    assert host.files_there() == before
    host.lose()
    host.config.write_text(host.config.read_text().replace('"c"', '"other"'))
    assert "is of cluster c, but" in lbctl("restore", file, status=1).err


def has_run(host, command):
    store = UsageStore(host.state / "usage.sqlite", StatsConfig())
    store.add([Usage(
        finished=time.time(), submitted=time.time() - 2.0, waiting_s=0.0, response_s=2.0, cpu_s=1.0,
        user="ann", command=command, origin="h1", host="h1", failed=False, moved=False,
        wrong=False, pinned=False, state="done", uid=0, id="h1-34567",
    )])  # fmt: skip
    store.close()


def commands_on_record(host):
    with contextlib.closing(sqlite3.connect(host.state / "usage.sqlite")) as database:
        return [command for (command,) in database.execute("SELECT command FROM jobs")]


def test_a_new_machine_gets_its_accounting_back(lbctl, host, tmp_path):
    has_run(host, "cc")
    before_s = time.time()
    assert "its accounting" in lbctl("backup", tmp_path / "b.tar").out
    host.lose()
    host.state.mkdir()
    UsageStore(host.state / "usage.sqlite", StatsConfig()).close()  # as freshly installed
    JobNumbers(host.state, time.time)  # an LBM ran before the accounting came
    assert "its accounting" in lbctl("restore", tmp_path / "b.tar").out
    assert commands_on_record(host) == ["cc"]
    numbers = JobNumbers(host.state, time.time)
    assert next(numbers) == 34567 + IDS_RESERVED, "no id is given twice"
    store = UsageStore(host.state / "usage.sqlite", StatsConfig())
    (gap,) = store.gaps()
    store.close()
    assert gap.commands == 0, "how many have ended since the backup is not known"
    assert before_s <= gap.since <= gap.until <= time.time()


@pytest.mark.parametrize("there", ["70000\n", "", "none\n"])
def test_no_id_is_given_twice_after_an_accounting_that_was_damaged(lbctl, host, tmp_path, there):
    """Those of the jobs that ran since the backup were."""
    has_run(host, "cc")
    lbctl("backup", tmp_path / "b.tar")
    (host.state / "usage.sqlite").write_bytes(b"damaged" * 1000)
    (host.state / "next_job").write_text(there)
    assert "its accounting" in lbctl("restore", tmp_path / "b.tar").out
    numbers = JobNumbers(host.state, time.time)
    assert next(numbers) == (70000 if there[:1] == "7" else 34567 + IDS_RESERVED)


def test_a_host_with_recorded_jobs_keeps_them(lbctl, host, tmp_path):
    has_run(host, "cc")
    lbctl("backup", tmp_path / "b.tar")
    has_run(host, "make")
    assert "h1 has ended jobs on record" in lbctl("restore", tmp_path / "b.tar").err
    assert commands_on_record(host) == ["cc", "make"]


def with_ledger(host, next_job, submitted_s):
    """Puts a ledger with one pending job there."""
    path = host.state / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as ledger:
        if ledger.execute("PRAGMA user_version").fetchone() == (0,):
            migrate(ledger, path)
        columns = ledger.execute("PRAGMA table_info(jobs)").fetchall()
        row = {name: "" for _, name, _, needed, default, _ in columns if needed and not default}
        row |= {"id": next_job - 1, "state": "pending", "submitted": submitted_s, "attempt": 0}
        marks = ", ".join("?" * len(row))
        ledger.execute(f"INSERT INTO jobs ({', '.join(row)}) VALUES ({marks})", (*row.values(),))
        ledger.execute("UPDATE counters SET value = ?", (next_job,))
    return path


def jobs_in(path):
    with contextlib.closing(sqlite3.connect(path)) as ledger:
        (number,) = ledger.execute("SELECT value FROM counters").fetchone()
        return number, sorted(ledger.execute("SELECT id, reason <> '' FROM jobs").fetchall())


def test_a_newer_ledger_is_replaced_only_if_told_and_is_kept(lbctl, host, tmp_path):
    """Jobs that had been killed since were held again, and a number was given a second time."""
    path, file = with_ledger(host, 5, 1000.0), tmp_path / "b.tar"
    lbctl("backup", file)
    with_ledger(host, 10_041, 1000.0 + 7200.0)
    before = host.files_there()
    said = lbctl("restore", file, status=1)
    assert "is newer than that in" in said.err
    assert "by 2h and about 10036 job numbers: nothing is restored; --older" in said.err
    assert host.files_there() == before

    said = lbctl("restore", "--older", file)
    (beside,) = host.state.glob("ledger.sqlite.*")
    assert f"the ledger that was here is now {beside}" in said.err
    assert jobs_in(beside) == (10_041, [(4, 0), (10_040, 0)])
    assert jobs_in(path) == (10_041, [(4, 1)]), "no number is given twice"
    assert beside.stat().st_mode & 0o777 == 0o600


def test_a_ledger_no_newer_than_the_copy_is_replaced(lbctl, host, tmp_path):
    path, file = with_ledger(host, 5, 1000.0), tmp_path / "b.tar"
    lbctl("backup", file)
    assert "restored from" in lbctl("restore", file).out
    assert jobs_in(path) == (10_005, [(4, 1)])
    path.write_bytes(b"x" * 5000)
    assert "restored from" in lbctl("restore", file).out, "damage is the reason to restore"


def test_what_is_unpacked_by_hand_is_private(host, file):
    with tarfile.open(file) as tar:
        assert {member.mode for member in tar} == {0o600}


def test_other_hosts_hear_that_a_lost_machine_is_revoked(lbctl, host, file):
    """Also if the new one has its address: nothing else made the LIM send the list."""
    host.lose()
    said = lbctl("restore", file)
    assert host.files.read_revocations().lowest_issue("h1") == ISSUES_SKIPPED
    assert "if another machine was h1 before, it must never start again" in said.err


def test_damaged_accounting_is_left_out(lbctl, host, tmp_path):
    (host.state / "usage.sqlite").write_bytes(b"x" * 5000)
    assert "the accounting is left out" in lbctl("backup", tmp_path / "b.tar").err


def packed(file, members):
    with tarfile.open(file, "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def members_of(file):
    with tarfile.open(file) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar}


def link(file):
    with tarfile.open(file, "a") as tar:
        info = tarfile.TarInfo("settings.json")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info)


def header(name, kind, size, rest=b""):
    """Returns a tar header. `rest` is what GNU tar's sparse files have from byte 386 on."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[386 : 386 + len(rest)] = rest
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def sparse(size):
    """Returns a sparse member of this many bytes, none of which are in the archive."""
    return b"%011o\0%011o\0" % (0, 0) + bytes(73) + b"\x80" + size.to_bytes(11, "big")


def prepended(file, block):
    file.write_bytes(block + file.read_bytes())


def dated(members, when):
    data = json.loads(members["manifest.json"])
    return {**members, "manifest.json": json.dumps({**data, "unix_s": when}).encode()}


DAMAGES = {
    "a ledger that says it has a terabyte, in 512 bytes": lambda file, _: prepended(
        file, header("ledger.sqlite", tarfile.GNUTYPE_SPARSE, 0, sparse(1 << 40))
    ),
    "a name that says it has a terabyte": lambda file, _: prepended(
        file, header("x", tarfile.GNUTYPE_LONGNAME, 1 << 40)
    ),
    "of no time": lambda file, m: packed(file, dated(m, float("nan"))),
    "of a time without end": lambda file, m: packed(file, dated(m, 10**400)),
    "of a time that cannot be": lambda file, m: packed(file, dated(m, 1e300)),
    "no archive": lambda file, _: file.write_bytes(b"x" * 2000),
    "cut off": lambda file, _: file.write_bytes(file.read_bytes()[:3000]),
    "a path that leads out": lambda file, m: packed(file, {**m, "../x": b""}),
    "an absolute path": lambda file, m: packed(file, {**m, "/tmp/x": b""}),
    "a link": lambda file, _: link(file),
    "no manifest": lambda file, m: packed(file, {k: m[k] for k in m if k != "manifest.json"}),
    "half an authority": lambda file, m: packed(
        file, {k: m[k] for k in m if k != "authority/ledger.json"}
    ),
    "of a later form": lambda file, m: packed(
        file, {**m, "manifest.json": m["manifest.json"].replace(b'"schema": 1', b'"schema": 2')}
    ),
    "a manifest that is none": lambda file, m: packed(file, {**m, "manifest.json": b"[" * 9999}),
    "an authority that is none": lambda file, m: packed(
        file, {**m, "authority/authority.pem": b"x"}
    ),
    "accounting that is none": lambda file, m: packed(file, {**m, "usage.sqlite": b"x" * 5000}),
    "a ledger that is none": lambda file, m: packed(file, {**m, "ledger.sqlite": b"x" * 5000}),
}


@pytest.fixture
def few_bytes():
    """Limits the size of files for the duration of the test."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_no_backup_changes_nothing(lbctl, host, file, damage, few_bytes):
    damage(file, members_of(file))
    before = host.files_there()
    said = lbctl("restore", file, status=pytest.approx(1, abs=1)).err
    assert said.count("\n") == 1
    assert said.startswith("lbctl: ")
    assert "File too large" not in said
    assert host.files_there() == before


def test_a_host_with_nothing_to_keep_says_so(lbctl, host, tmp_path):
    host.lose()
    host.state.mkdir()
    assert "nothing to save on h1" in lbctl("backup", tmp_path / "b.tar", status=1).err
    assert "No such file" in lbctl("restore", tmp_path / "none.tar", status=1).err
