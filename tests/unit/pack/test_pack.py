"""Files to a stream and back: everything that belongs to it, nothing that does not."""

import io
import os
import random
import resource
import socket
from contextlib import ExitStack, chdir, suppress

import pytest

from lbd.local import frames
from lbd.pack.clear import clear_away
from lbd.pack.pack import (
    DATA,
    DIRECTORY,
    END,
    FILE,
    LINK,
    MISSING,
    MODE,
    MODIFIED,
    PATH,
    SIZE,
    TARGET,
    Allowance,
    BadPack,
    Packer,
    Unpacker,
)
from lbd.pack.places import note, open_parent

PLENTY = (1 << 40, 1 << 20)


def pack(root, paths, *, follow=False, allowance=PLENTY):
    output = io.BytesIO()
    with chdir(root):
        noted = note(paths) if follow else None
        Packer(output, Allowance(*allowance), noted=noted).pack(paths)
    return output.getvalue()


def unpack(root, data, paths, *, allowance=PLENTY, allows_link=lambda path, target: True):
    def place(number):
        parent = open_parent(paths[number], make=True)
        parents.callback(os.close, parent)
        return parent, os.path.basename(paths[number])

    with chdir(root), ExitStack() as parents:
        return Unpacker(io.BytesIO(data), Allowance(*allowance), place, allows_link, paths).unpack()


def tree_of(root):
    """Returns everything that is to be kept, by path."""
    found = {}
    for directory, below, names in os.walk(os.fsencode(root)):
        for name in below + names:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            content = None
            if os.path.islink(path):
                content = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    content = file.read()
            about = (status.st_mode, status.st_mtime_ns, content)
            found[os.path.relpath(path, os.fsencode(root))] = about
    return found


@pytest.fixture
def roots(tmp_path):
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    return tmp_path / "from", tmp_path / "to"


def grow(directory, rng, depth=0):
    for number in range(rng.randrange(1, 6)):
        path = os.path.join(directory, rng.choice([b"n%d", b"\xff%d", b" %d\n", b"-%d"]) % number)
        kind = rng.random()
        if kind < 0.3 and depth < 4:
            os.mkdir(path)
            grow(path, rng, depth + 1)
            os.chmod(path, rng.choice([0o755, 0o700, 0o555, 0o777]))
        elif kind < 0.45:
            os.symlink(rng.choice([b"n1", b"/etc/passwd", b"../..", b"\xfe"]), path)
        else:
            with open(path, "wb") as file:
                file.write(rng.randbytes(rng.choice([0, 1, 1000, 700_000])))
            os.chmod(path, rng.choice([0o644, 0o600, 0o755, 0o400, 0o000]))
        when = rng.randrange(1 << 60)
        os.utime(path, ns=(when, when), follow_symlinks=False)


@pytest.mark.parametrize("seed", range(8))
def test_a_tree_is_unpacked_as_it_was_packed(roots, seed):
    source, target = roots
    root = os.path.join(os.fsencode(source), b"tree")
    os.mkdir(root)
    grow(root, random.Random(seed))
    assert unpack(target, pack(source, [b"tree"]), [b"tree"]).arrived == {0}
    assert tree_of(target) == tree_of(source)
    clear_away(os.path.join(os.fsencode(target), b"tree"))
    assert os.listdir(target) == []


@pytest.mark.parametrize("is_root", [True, False])
def test_a_tree_of_any_depth_is_removed(tmp_path, monkeypatch, is_root):
    """Its path is too long for any system call, and there is no descriptor for each level."""
    monkeypatch.setattr(os, "geteuid", lambda: 0 if is_root else 1)
    tree = tmp_path / "tree"
    tree.mkdir()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, limits[1]))
    try:
        grow_down(tree, 5000, mode=0o700 if is_root else 0o500)
        clear_away(os.fsencode(tree))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not tree.exists()


def grow_down(tree, levels, mode):
    """Makes a chain of nested directories, each with a file and a link leading out."""
    above = os.open(tree, os.O_DIRECTORY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=above)
        os.symlink("/", "link", dir_fd=above)
        os.close(os.open("file", os.O_CREAT, dir_fd=above))
        below = os.open("d", os.O_DIRECTORY, dir_fd=above)
        os.fchmod(above, mode)
        os.close(above)
        above = below
    os.close(above)


def test_no_link_is_followed_as_a_tree_is_cleared_away(tmp_path, monkeypatch):
    """A user's process put one in place of a directory just before its mode was changed."""
    tree, others = tmp_path / "tree", tmp_path / "others"
    inner = tree / "inner"
    (inner / "below").mkdir(parents=True)
    others.mkdir(mode=0o555)
    change = os.chmod

    def late(path, mode, **where):
        if os.path.lexists(inner) and os.path.samestat(os.stat(path), inner.lstat()):
            inner.rename(tree / "away")
            inner.symlink_to(others)
        change(path, mode, **where)

    monkeypatch.setattr(os, "chmod", late)
    monkeypatch.setattr(os, "geteuid", lambda: 1)  # root changes no modes
    clear_away(os.fsencode(tree))
    assert others.stat().st_mode & 0o777 == 0o555
    assert not tree.exists()


def test_listed_paths_are_placed_where_the_receiver_says(roots):
    source, target = roots
    (source / "a/b").mkdir(parents=True)
    (source / "a/b/c").write_text("c")
    (source / "d").write_text("d")
    data = pack(source, [b"a/b/c", b"none", b"d", b"a/none", b"none/x"])
    result = unpack(target, data, [b"x/y", b"-", b"z", b"-", b"-"])
    assert (result.arrived, result.missing) == ({0, 2}, {1, 3, 4})
    assert (target / "x/y").read_text() + (target / "z").read_text() == "cd"
    assert sorted(os.listdir(target)) == ["x", "z"]


def test_the_directory_itself(roots):
    source, target = roots
    (source / "sub").mkdir()
    (source / "sub/file").write_text("x")
    unpack(target, pack(source, [b"."]), [b"."])
    assert (target / "sub/file").read_text() == "x"


@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_only_regular_files_are_accepted(roots, kind):
    source, _ = roots
    (source / "d").mkdir()
    if kind == "fifo":
        os.mkfifo(source / "d/x")
    else:
        with chdir(source), socket.socket(socket.AF_UNIX) as sock:
            sock.bind("d/x")
    with pytest.raises(BadPack, match="d/x: not a file"):
        pack(source, [b"d"])


def test_no_symbolic_link_is_followed_on_the_way(roots, tmp_path):
    source, _ = roots
    (tmp_path / "secret").write_text("s")
    (source / "out").symlink_to(tmp_path)
    with pytest.raises(BadPack, match="out/secret"):
        pack(source, [b"out/secret"])
    assert b"s" in pack(source, [b"out/secret"], follow=True)  # a user's own link on their own host
    assert b"secret" not in pack(source, [b"out"], follow=True).replace(bytes(tmp_path), b"")


def test_setuid_is_not_transferred(roots):
    source, target = roots
    (source / "tool").write_text("x")
    (source / "tool").chmod(0o4755)
    unpack(target, pack(source, [b"tool"]), [b"tool"])
    assert (target / "tool").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(("allowance", "name"), [((5, 100), "max_bytes"), ((100, 2), "max_files")])
def test_both_ends_respect_their_allowance(roots, allowance, name):
    source, target = roots
    (source / "d").mkdir()
    (source / "d/a").write_text("abc")
    (source / "d/b").write_text("def")
    with pytest.raises(BadPack, match=name):
        pack(source, [b"d"], allowance=allowance)
    with pytest.raises(BadPack, match=name):
        unpack(target, pack(source, [b"d"]), [b"d"], allowance=allowance)


def test_a_truncated_stream_is_refused_wherever_it_ends(roots, tmp_path):
    source, _ = roots
    (source / "d").mkdir()
    (source / "d/f").write_bytes(b"12345")
    (source / "d/l").symlink_to("f")
    data = pack(source, [b"d", b"none"])
    for end in range(len(data)):
        place = tmp_path / f"cut{end}"
        place.mkdir()
        with pytest.raises(BadPack, match="cut short"):
            unpack(place, data[:end], [b"d", b"none"])


def entry(tag, path, **more):
    given = {PATH: path, MODE: b"420", MODIFIED: b"0", **more.get("more", {})}
    return frames.pack(tag, b"".join(frames.field(*pair) for pair in given.items()))


def file_entry(path, content=b"evil", size=None):
    more = {SIZE: b"%d" % (len(content) if size is None else size)}
    return entry(FILE, path, more=more) + frames.pack(DATA, content)


TOP = entry(DIRECTORY, b"0")
FORGED = {
    "up": TOP + file_entry(b"0/../evil"),
    "up and up": TOP + file_entry(b"0/../../../tmp/evil"),
    "absolute": file_entry(b"/tmp/evil"),
    "empty step": TOP + file_entry(b"0//evil"),
    "dot": TOP + file_entry(b"0/./evil"),
    "not asked for": file_entry(b"7"),
    "no number": file_entry(b"evil"),
    "before its directory": file_entry(b"0/evil"),
    "twice": file_entry(b"0") + file_entry(b"0"),
    "twice below": TOP + file_entry(b"0/x") + file_entry(b"0/x"),
    "through a link": TOP + entry(LINK, b"0/l", more={TARGET: b"/tmp"}) + file_entry(b"0/l/evil"),
    "through a link up": entry(LINK, b"0", more={TARGET: b".."}) + file_entry(b"0/evil"),
    "over a link": TOP + entry(LINK, b"0/l", more={TARGET: b"/tmp/evil"}) + file_entry(b"0/l"),
    "a null byte": TOP + file_entry(b"0/a\0b"),
    "longer than it said": TOP + file_entry(b"0/x", size=2),
    "negative": TOP + file_entry(b"0/x", size=-1),
    "no mode": frames.pack(FILE, frames.field(PATH, b"0")),
    "an unknown tag": frames.pack(b"z", b""),
    "a broken field": frames.pack(FILE, b"p\xff\xff\xff\xffx"),
    "a huge head": frames.pack(FILE, b"x" * 100_000),
    "a huge number": file_entry(b"9" * 5000),
    "too deep": TOP + file_entry(b"0" + b"/d" * 300),
    "one missing that nobody asked for": frames.pack(MISSING, frames.field(PATH, b"1")),
    "one missing twice": 2 * frames.pack(MISSING, frames.field(PATH, b"0")),
    "one missing that has come": TOP + frames.pack(MISSING, frames.field(PATH, b"0")),
    "one missing below": frames.pack(MISSING, frames.field(PATH, b"0/x")),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_streams_touch_nothing_outside(tmp_path, name):
    (tmp_path / "deep/er").mkdir(parents=True)
    with pytest.raises((BadPack, IndexError)):
        unpack(tmp_path / "deep/er", FORGED[name] + frames.pack(END), [b"x"])
    assert os.listdir(tmp_path) == ["deep"]
    assert os.listdir(tmp_path / "deep") == ["er"]
    assert not os.path.exists("/tmp/evil")
    assert set(os.listdir(tmp_path / "deep/er")) <= {"x"}


@pytest.mark.parametrize("seed", range(200))
def test_garbage_is_a_bad_pack(tmp_path, seed):
    rng = random.Random(seed)
    data = bytearray(TOP + file_entry(b"0/x") + entry(LINK, b"0/l", more={TARGET: b"x"}))
    data += frames.pack(END)
    for _ in range(rng.randrange(1, 6)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    with suppress(BadPack, IndexError):
        unpack(tmp_path, bytes(data), [b"x"])
    assert set(os.listdir(tmp_path)) <= {"x"}


def test_links_may_be_rejected(tmp_path):
    data = entry(LINK, b"0", more={TARGET: b"/etc/passwd"}) + frames.pack(END)
    with pytest.raises(BadPack, match=r"^x: .* pointing outside"):  # by the name that its user gave
        unpack(tmp_path, data, [b"x"], allows_link=lambda path, target: False)
    assert os.listdir(tmp_path) == []
