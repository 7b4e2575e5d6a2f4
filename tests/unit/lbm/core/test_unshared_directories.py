"""What is remembered of hosts that do not have a directory."""

import random

from lbd.lbm.core.next_host_after_refusal import Unshared

ME, DISK, MOUNT = 1000, 2049, 45


def test_a_refusal_covers_the_tree_below_on_the_same_file_system():
    known = Unshared(60.0)
    known.note(ME, DISK, b"/home/me", "h2", 0.0)
    assert known.hosts(ME, DISK, b"/home/me", 1.0) == {"h2"}
    assert known.hosts(ME, DISK, b"/home/me/a/b", 1.0) == {"h2"}
    assert known.hosts(ME, MOUNT, b"/home/me/a/b", 1.0) == set()
    assert known.hosts(ME, DISK, b"/home", 1.0) == set()
    assert known.hosts(ME, DISK, b"/home/men", 1.0) == set()
    assert known.hosts(ME + 1, DISK, b"/home/me", 1.0) == set()


def test_the_root_of_a_disk_covers_all_of_it():
    known = Unshared(60.0)
    known.note(ME, DISK, b"/", "h2", 0.0)
    known.note(ME, DISK, b"/usr", "h3", 0.0)
    assert known.hosts(ME, DISK, b"/", 1.0) == {"h2"}
    assert known.hosts(ME, DISK, b"/usr/lib/", 1.0) == {"h2", "h3"}


def test_a_limited_number_is_remembered():
    known = Unshared(60.0)
    for number in range(known.limit):
        known.note(ME, DISK, b"/%d" % number, "h2", 0.0)
    assert known.hosts(ME, DISK, b"/0", 1.0) == {"h2"}
    known.note(ME, DISK, b"/more", "h2", 0.0)
    assert known.hosts(ME, DISK, b"/0", 1.0) == set()
    assert known.hosts(ME, DISK, b"/1", 1.0) == {"h2"}


def test_a_refusal_is_forgotten_after_a_while():
    known = Unshared(60.0)
    known.note(ME, DISK, b"/a", "h2", 0.0)
    known.note(ME, DISK, b"/b", "h2", 30.0)
    known.note(ME, DISK, b"/a", "h3", 40.0)
    assert known.hosts(ME, DISK, b"/a", 59.0) == {"h2", "h3"}
    assert known.hosts(ME, DISK, b"/a", 60.0) == {"h3"}
    assert known.hosts(ME, DISK, b"/a", 100.0) == set()
    assert not known


def test_a_host_where_a_command_has_run_is_asked_again():
    known = Unshared(60.0)
    known.note(ME, DISK, b"/a", "h2", 0.0)
    known.note(ME, DISK, b"/a", "h3", 0.0)
    known.shares(ME, DISK, b"/a/b", "h2")
    assert known.hosts(ME, DISK, b"/a/b", 1.0) == {"h3"}


def test_the_memory_is_bounded():
    known = Unshared(60.0, limit=100)
    rng = random.Random(4)
    for step in range(2000):
        known.note(ME, DISK, b"/%d" % rng.randrange(400), f"h{rng.randrange(5)}", step / 100)
        assert len(known._until) <= 100
        assert sum(map(len, known._hosts.values())) == len(known._until)
        assert all(known._hosts.values())
