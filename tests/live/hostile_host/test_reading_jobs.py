"""A host that may not send commands here may not read the jobs of other hosts either."""

from functools import partial

import grpc
import pytest
from cluster import FAST, Lab
from trust import Stranger, authority_on, files_of

from lbd.net.gen import dispatch_pb2 as pb

LBM_PORT = 7902
ASKED = {"Logs": pb.LogsRequest, "Files": pb.FilesRequest}


SETTINGS = (*FAST, 'admission.origins=["h1"]')
LAB = partial(Lab.up, 2, "none", "--tls", "--mode", "fcfs", settings=SETTINGS)


def ask(lab, reader, method, **asked):
    """h1's answer to the LBM of `reader`."""
    host = Stranger(authority_on(lab).certificate, files_of(lab, reader).read_credentials(), reader)
    with host.channel(lab, "h1", LBM_PORT) as channel:
        call = channel.unary_stream(f"/lbd.v1.Lbm/{method}")
        return list(call(ASKED[method](**asked).SerializeToString(), timeout=120))


@pytest.mark.parametrize("method", ASKED)
def test_no_host_that_is_not_let_in_reads_what_a_job_printed(lab, method):
    done = lab.run("h1", "lbrun", "-q", "-H", "h1", "echo", "a secret")
    assert done.stdout == "a secret\n", done
    with pytest.raises(grpc.RpcError) as refused:
        ask(lab, "h2", method, job="1", attempt=1)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert refused.value.details() == "h2 may not read jobs here (admission.origins)"
    assert ask(lab, "h1", method, job="1", attempt=1)
    assert ask(
        lab, "h2", "Files", name="0" * 32, job="1"
    )  # it may run a job that takes files along
