"""What a heartbeat says of a host whose slots one user's commands hold."""

from lbd.dispatch.intake import heartbeat_fault, slots_of
from lbd.model import HostId
from lbd.net.gen import dispatch_pb2 as pb


def offered(heartbeat):
    host = slots_of(HostId("h1"), heartbeat, 8.0, (1,))
    return host.usable, host.hog, host.beside_hog


def test_the_user_and_the_room_for_others_are_believed_within_bounds():
    assert heartbeat_fault(pb.Heartbeat(number=1, slots=4, hog="ann", beside_hog=1)) == ""
    assert heartbeat_fault(pb.Heartbeat(number=1, beside_hog=1 << 31)) == "slots"
    assert heartbeat_fault(pb.Heartbeat(number=1, hog="a" * 256)) == "hog"


def test_a_host_whose_load_is_too_high_gives_nobody_any_room():
    assert offered(pb.Heartbeat(slots=4, hog="ann", beside_hog=1, load=8.0)) == (0, "ann", 1)
    assert offered(pb.Heartbeat(slots=4, hog="ann", beside_hog=1, load=9.0)) == (0, "ann", 0)


def test_a_host_that_is_full_may_name_nobody():
    assert offered(pb.Heartbeat(slots=4, open_slots=0)) == (0, "", 0)
