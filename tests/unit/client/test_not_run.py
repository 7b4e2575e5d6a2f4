"""That a command could not begin is told to the LBM, if that is still there."""

import socket
import subprocess
import sys

from lbd.client.session import report_not_run
from lbd.local import client_tags as tags
from lbd.local.frames import Splitter, fields


def test_the_status_and_the_reason_are_sent():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        report_not_run(ours, 127, "x: not found")
        ((tag, body),) = Splitter(4096).feed(theirs.recv(4096))
    assert tag == tags.NOT_RUN
    assert dict(fields(body)) == {tags.STATUS: b"127", tags.REASON: b"x: not found"}


def test_an_lbm_that_has_gone_does_not_change_how_lbrun_ends():
    """A signal ended it instead, as SIGPIPE was the command's again."""
    program = (
        "import socket\n"
        "from lbd.client.session import report_not_run\n"
        "from lbd.launch.exec import let_pipes_break\n"
        "ours, theirs = socket.socketpair()\n"
        "theirs.close()\n"
        "let_pipes_break()\n"
        "report_not_run(ours, 127, 'x: not found')\n"
        "raise SystemExit(127)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=False).returncode
    assert ended == 127
