"""An LBM restarts while a command reads and writes its user's files: nothing is lost."""

import random
from functools import partial

import pytest

from tests.live.cluster import Lab
from tests.live.restarting import SETTINGS, restart

PIECES, PIECE_BYTES = 160, 1 << 16
SLOWLY = (
    f"i=0; while [ $i -lt {PIECES} ]; do head -c {PIECE_BYTES}; i=$((i+1)); sleep 0.01; done; cat"
)


LAB = partial(Lab.up, 2, settings=SETTINGS)


@pytest.mark.parametrize("hosts", [("h1",), ("h1", "h2")], ids=["near", "both"])
def test_files_go_on(lab, tmp_path, hosts):
    data = random.Random("-".join(hosts)).randbytes(PIECES * PIECE_BYTES)
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_bytes(data)
    with source.open("rb") as stdin, output.open("wb") as stdout:
        process = lab.popen("h1", "lbrun", "-H", "h2", "sh", "-c", SLOWLY, stdin=stdin,
                            stdout=stdout)  # fmt: skip
        lab.wait_until(lambda: output.stat().st_size > PIECE_BYTES, "it writes")
        restart(lab, *hosts)
        assert process.wait(60) == 0
    assert output.read_bytes() == data


def test_input_that_is_not_read_is_left_for_the_next_command(lab, tmp_path):
    source = tmp_path / "in"
    source.write_bytes(bytes(range(256)) * 4096)
    script = "lbrun -H h2 head -c 1000 >/dev/null; lbrun -H h2 true; exec head -c 24 <&0"
    done = lab.run("h1", "sh", "-c", f"({script}) <{source} | od -An -tu1 | tr -s ' \\n' ' '")
    first = [str((1000 + number) % 256) for number in range(24)]
    assert done.stdout.split() == first
