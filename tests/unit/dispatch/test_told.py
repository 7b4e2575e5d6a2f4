"""Many jobs, told in several messages."""

from lbd.dispatch.told import in_pieces
from lbd.rpc.gen import dispatch_pb2 as pb


def test_no_piece_is_larger_than_may_be_but_for_one_that_has_a_single_job():
    jobs = [pb.JobTold(id=n, command=[bytes(size)]) for n, size in enumerate((400, 300, 900, 10))]
    pieces = in_pieces(jobs, 800)
    assert [[job.id for job in piece] for piece in pieces] == [[0, 1], [2], [3]]
    assert all(pb.JobsTold(jobs=piece).ByteSize() <= 800 for piece in (pieces[0], pieces[2]))
    assert in_pieces([], 800) == [[]]
