"""Writes the first inputs of the corpus, well-formed ones of every kind: `python seeds.py`."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from lbd.keeper.spawn_order import Order
from lbd.keeper.user_and_start_steps import Surroundings, compile_order
from lbd.launch.directory_stamp import Stamp
from lbd.lbm.link import wire as job_stream
from lbd.lim.core import messages as m
from lbd.local import client_tags as c
from lbd.local import frames
from lbd.model import HostId, JobId, Queues
from lbd.net import convert
from lbd.net import release as wire
from lbd.net.gen import lbm_pb2
from lbd.testing.builders import member, sample, vector
from lbd.trust import certificates, evidence, names, token
from tests.fuzz import metrics_targets, python_targets, queue_targets, web_targets

CORPUS = Path(__file__).parent / "corpus"


def fields(*pairs):
    return b"".join(frames.field(key, value) for key, value in pairs)


def told(body, sender="h2"):
    return convert.encode(m.Message("test", HostId(sender), 2, body))


MODES = b" ".join(b"%d" % n for n in [0x500, 5, 0xBF, 0x8A3B, 15, 15, *range(32)])
COMMAND = fields(
    (c.ARGUMENT, b"cc"), (c.ARGUMENT, b"-c"), (c.ENVIRONMENT, b"PATH=/bin"), (c.DIRECTORY, b"/tmp"),
    (c.UMASK, b"18"), (c.MODE, b"host"), (c.HOST, b"h2"), (c.FLAGS, b"nv"), (c.TIMEOUT, b"1.5"),
    (c.MEMORY, b"1024"), (c.NAME, b"build"), (c.CLOSED_FDS, b"0"), (c.DEPTH, b"0"),
    (c.IGNORED, b"4096"), (c.EXCLUDED, b"h3"), (c.TERMINAL, b"24 80 0 0"), (c.MODES, MODES),
)  # fmt: skip
RUN = lbm_pb2.RunRequest(
    job_id="h2-1", origin="h2", user="ann", uid=1000, argv=[b"cc"], environment=[b"PATH=/bin"],
    directory=b"/tmp", umask=18, limits=[lbm_pb2.ResourceLimit(resource=7, soft=1024, hard=4096)],
    directory_stamp=lbm_pb2.DirectoryStamp(kernel="k", device=1, inode=2, file_system="nfs"),
    terminal=lbm_pb2.Terminal(size=b"24 80 0 0", modes=MODES), timeout_s=1.0,
    workdir=lbm_pb2.WorkdirStep(id="s", step="run", send=[b"src"], fetch=[b"out"]),
)  # fmt: skip
LOAD = m.HostLoad(3, 7, 0.5, 1.5, Queues(3.0), 1.0, 1, 0, 1, 1 << 30)
BODIES = (
    m.Hello(member("h2", 1, 3), wants_members=True),
    m.Members((member("h3", 2, 4),), m.Settings(3, "h2", "LOWEST", {"lim.min_gain": 0.5})),
    m.Report(sample("h2", 5, vector(0.5)), (JobId("h1-1"),)),
    m.Delta(0, 2, 7, (4, "h2"), ((3, sample("h2", 6)),), gone=(1,)),
    m.Delta(2, 3, 7, (4, "h2"), (), (LOAD,), silent=(3,), fresh_age_s=1.0),
    m.Probe(), m.Leave(), m.Forget(HostId("h2")), m.Ping(), m.Drain(True), m.Unreserve(),
    m.ProbeReply(sample("h2", 1)),
    m.AskCentre(JobId("h2-1"), frozenset({HostId("h3")}), True, True, False, sample("h2", 7), 1.0),
    m.CentreReply(None, HostId("h2"), "nobody"),
    m.Settings(9, "h2", "CENTRAL", words={"load.index": "site:gpu"}),
    m.Settings(9, "h2", "LOWEST", seal=m.Seal(7, "h3", bytes(32), b"certificate", b"signature")),
    m.Ack(error="no"), m.Ack(unknown_sender=True, known_incarnation=9), m.Reserve(sample("h2", 8)),
    m.Ack(policy_version=(7, "h3")), m.ReserveReply(True, sample("h2", 9)),
)  # fmt: skip
KEY, AUTHORITY, TOKEN = (
    certificates.new_key(), certificates.new_authority("fuzz", 0.0),
    token.Token(bytes(16), bytes(32)),
)  # fmt: skip
REQUEST = certificates.new_request(KEY, "h2")
NEWCOMER = certificates.certificate_of_newcomer(TOKEN, KEY, "h2", 0.0) + b"\0" + REQUEST
RENEWING = b"\0".join((
    certificates.signed(AUTHORITY, certificates.private_key(KEY).public_key(), "h2",
                        tuple(names.names_of("h2", 0)), 0.0, 3600.0),
    REQUEST, evidence.proof_of_renewal(KEY, REQUEST),
))  # fmt: skip
CONFIG = (
    b'[cluster]\nname = "x"\n[[cluster.hosts]]\nname = "h1"\naddress = "127.0.0.1"\n'
    b'[lim]\nalgorithm = "LOWEST"\nmin_gain = 0.2\n[lbm]\nslots = 4\n'
    b'[eligibility]\nalways = ["cc", "gcc -c"]\n[users]\nmap = "single:ann"\n'
)
LEARNT = {
    "format": 1,
    "users": {"0": {"always": ["cc"], "never": [], "commands": [["gcc -c", 1.5, 3, 2.0, 1.0]]}},
}
ARCHIVE = b"".join(
    frames.pack(tag, body)
    for tag, body in (
        (b"d", fields((b"p", b"0"), (b"m", b"493"), (b"t", b"1000000000"))),
        (b"f", fields((b"p", b"0/a"), (b"m", b"420"), (b"t", b"1000000000"), (b"s", b"3"))),
        (b"c", b"abc"),
        (b"l", fields((b"p", b"0/b"), (b"m", b"511"), (b"t", b"0"), (b"l", b"a"))),
        (b"m", fields((b"p", b"1"))),
        (b"e", b""),
    )
)
SWF = b"; a comment\n1 0 5 10 1 -1 -1 1 20 -1 1 1 1 1 1 -1 -1 -1\n"
PLACE = {"op": "place", "job": "h1-1", "wanted": "h2", "excluded": ["h2"], "must_leave": True}


def steps_of(order: Order) -> bytes:
    """The body of the frame that a spare gets."""
    here = Surroundings((0, 0), "kernel", b"LBD_KEPT=x:", 0)
    frame = compile_order(
        order, here, tuple((number, (soft, hard)) for number, soft, hard in order.limits)
    )
    return frame[frames.HEADER_BYTES :]


SEEDS: dict[str, tuple[bytes, ...]] = {
    "frames_and_fields": (frames.pack(c.RUN, COMMAND) + frames.pack(c.SIGNAL, b"\x02"),),
    "client_request": (COMMAND, fields((c.CPU, b"0.5"), (c.STATUS, b"0"))),
    "stream_messages": (
        job_stream.pack_batch(
            [
                job_stream.pack(1, b"R", b"x"),
                job_stream.pack(2, b"D", job_stream.delivered(1, 9, 1 << 16)),
            ]
        ),
    ),
    "run_requests": (RUN.SerializeToString(),),
    "orders": (
        fields(
            (b"j", b"h2-1"), (b"a", b"cc"), (b"e", b"A=b"), (b"d", b"/"), (b"u", b"18"),
            (b"l", b"7 1 2"), (b"w", b"1000 1000 4 5"), (b"s", b"k 1 2 3 4 nfs"), (b"c", b"7"),
        ),
    ),
    "stamps": (b"k 1 2 3 4 nfs", b"- 0 0 0 0 -"),
    "terminal_modes": (MODES, b"24 80 0 0"),
    "lim_message": tuple(map(told, BODIES)),
    "lim_conversation": (b"\xff\xfe".join(map(told, BODIES)),),
    "socket_questions": (
        json.dumps(PLACE).encode(),
        b'{"op": "param", "name": "min_gain", "value": "0.5"}',
        b'{"op": "param", "name": "probe_limit", "value": 3}',
        b'{"op": "lbm", "name": "min_gain", "returns_s": 1%s}' % (b"0" * 400),
    ),
    "configuration": (CONFIG, b'cluster.hosts = [{name = "a"}]\n'),
    "override": (b"lim.port=7901", b'eligibility.never=["a"]'),
    "workload_trace": (SWF,),
    "balance_jobs": (b"arrival_s,cpu_s,ios,host\n0,1,2,a\n3,4,5,b\n", SWF),
    "learnt_file": (json.dumps(LEARNT).encode(),),
    "staged_archive": (ARCHIVE,),
    "shell_words": (b"gcc -c 'a b.c' -o \"x\"", b"a\\ b c"),
    "invocations": (b"gcc\0-c\0x.c", b"python3\0-m\0pip\0install", b"sh\0-c\0echo"),
    "environments": (b"A=b\0SSH_AUTH_SOCK=/x\0X_TOKEN=1\0MAKEFLAGS= -j4 --jobserver-auth=3,4",),
    "queue_selectors": (b"3 2-5 last @me", b"9" * 30),
    "time_windows": (b"mon-fri 18:00-08:00", b"sat,sun", b"* 0-7 * * 1-5", b"*/5 1,2-4/2 * * *"),
    "releases": (wire.OWN.announcement().encode(),),
    "quantities": (b"1h30m", b"512K", b"1.5", b"20s"),
    "names_in_certificates": (b"h2\x000.h2.lbd\0any.lbd", b"h2\x000.h2.lbd\x001.h2.lbd\0any.lbd",
                              b"0.h1.lbd.\x000.0.h1.lbd..lbd\0any.lbd"),
    "certificate_wanted": (NEWCOMER, RENEWING),
    "join_tokens": (token.Token(bytes(16), bytes(32)).text().encode(), b'{"h2": 1}'),
    "spare_steps": tuple(
        steps_of(Order(job="h2-1", argv=[b"/bin/true"], **more))
        for more in (
            {"environment": {b"PATH": b"/usr/bin:/bin"}, "limits": ((7, 64, 64),), "nice": 1},
            {"ignored_signals": 4096, "closed_fds": 5, "no_new_privileges": True},
            {"stamp": Stamp("kernel", 1, 2, 3, 4, "nfs")},
            {"stamp": Stamp("other", 1, 2, 3, 4, "ext4")},
            {"user": (65534, 65534, 4, 65534)},
        )
    ),
    "front_frames": (
        frames.pack(c.HERE, fields((c.JOB, b"h1-1"), (c.HOST, b"h1"), (c.REASON, b"never"))),
        frames.pack(c.TAKEN) + frames.pack(c.WARN, b"a\nb\x1b[2J")
        + frames.pack(c.DONE, fields((c.STATUS, b"3"), (c.SIGNAL_NUMBER, b"0"), (c.REASON, b"x"))),
        frames.pack(c.GIVE) + frames.pack(c.PLACED, fields((c.HOST, b"h2"), (c.REASON, b"lowest")))
        + frames.pack(c.STOPPED)[:3],
        frames.pack(c.DONE, b"s\xff\xff\xff\xff1") + frames.pack(c.UNFIT, b"no"),
        (1 << 30).to_bytes(4, "little") + b"D",
    ),
    "front_config": (CONFIG, b'[host]\nruntime_dir = "/nowhere"\n', b'runtime_dir = "a\\"', b"\0"),
    "lbsh_line": (b"true", b"echo 'a b' \"c\" d\\ e", b"X=1 true", b"a" * 5000, b"'"),
    **queue_targets.SEEDS,
    **python_targets.SEEDS,
    **metrics_targets.SEEDS,
    **web_targets.SEEDS,
    "shown_text": ("a\n\x1b[2Jé…\u202e".encode(),),
}  # fmt: skip

if __name__ == "__main__":
    for name, seeds in SEEDS.items():
        (CORPUS / name).mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds):
            (CORPUS / name / f"seed-{number}").write_bytes(seed)
