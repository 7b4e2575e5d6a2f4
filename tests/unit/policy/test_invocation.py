"""The key under which a command is learnt, and which commands never leave by themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.policy.invocation import (
    KEY_CHARACTERS,
    LOOKED_AT,
    STAYS,
    WHY_STAYS,
    key_of,
    text_of,
    why_stays,
)

KEYS = {
    "ls -l": "ls",
    "/usr/bin/ls": "ls",
    "gcc -c x.c -o x.o": "gcc -c",
    "gcc -Wall -O2 x.c": "gcc link",
    "gcc -E x.c": "gcc -E",
    "gcc -c -MM x.c": "gcc -E",
    "g++ -S x.cc": "g++ -S",
    "cc --version": "cc --version",
    "cc -dumpmachine": "cc -v",
    "gcc-12 -c x.c": "gcc-12 -c",
    "x86_64-linux-gnu-gcc-12 -c x.c": "x86_64-linux-gnu-gcc-12 -c",
    "clang++ -c conftest.cpp": "clang++ -c of a configure test",
    "cc -o CMakeFiles/cmTC_12ab.dir/x.o -c x.c": "cc -c of a configure test",
    "python3 tools/gen.py --fast": "python3 gen.py",
    "python3.11 -W error -X dev gen.py": "python3.11 gen.py",
    "python -m pytest -q": "python -m pytest",
    "python -c pass x.py": "python -c",
    "python -IS gen.py": "python gen.py",
    "python -WX gen.py": "python gen.py",
    "python -u gen.py x": "python gen.py",
    "python --check gen.py": "python gen.py",
    "python -W": "python -",
    "python": "python -",
    "python - x": "python -",
    "perl -pe s/a/b/ x": "perl -e",
    "perl -I lib gen.pl": "perl gen.pl",
    "java -jar build/x.jar": "java -jar x.jar",
    "java -jar": "java -",
    "python -m": "python -",
    "ruby gen.rb": "ruby gen.rb",
    "ruby -e 1": "ruby -e",
    "ruby -I lib gen.rb": "ruby gen.rb",
    "pypy -c 1": "pypy -c",
    "pypy3 -X dev gen.py": "pypy3 gen.py",
    "node -p 1": "node -e",
    "node -r mod gen.js": "node gen.js",
    "php -r 1": "php -r",
    "php -d a=1 gen.php": "php gen.php",
    "lua5.4 -e 1": "lua5.4 -e",
    "lua -l mod gen.lua": "lua gen.lua",
    "Rscript -e 1": "Rscript -e",
    "Rscript gen.R": "Rscript gen.R",
    "go build ./...": "go build",
    "dotnet --info build": "dotnet build",
    "7z a x.7z x": "7z a",
    "gfortran-12 -c x.f": "gfortran-12 -c",
    "zstd --test x": "zstd -d",
    "tar czf x.tgz .": "tar cz",
    "tar cjf x.tbz .": "tar cj",
    "tar -cJf x.txz .": "tar cJ",
    "tar tf x.tar": "tar t",
    "tar rf x.tar y": "tar r",
    "tar uf x.tar y": "tar u",
    "tar Af x.tar y.tar": "tar A",
    "tar --create --gzip --file x": "tar cz",
    "tar --create --bzip2 --file x": "tar cj",
    "tar": "tar",
    "tar -C src -xf x.tar": "tar x",
    "tar --extract --xz --file x": "tar xJ",
    "tar --get --file x": "tar x",
    "tar --list --file=az": "tar t",
    "tar xf cats.tar": "tar x",
    "tar --create --zstd --file x.tar .": "tar czstd",
    "xz -9 x": "xz",
    "xz -d x.xz": "xz -d",
    "openssl speed rsa": "openssl speed",
    "rustc -vV": "rustc --version",
    "rustc lib.rs": "rustc",
    "./build.sh all": "build.sh",
}


def test_unprintable_characters_are_escaped():
    assert [text_of(word) for word in (b"a b", b"a\n", b"\xff", "é".encode())] == [
        "a b", "a\\n", "\\xff", "é"
    ]  # fmt: skip


@pytest.mark.parametrize(("command", "key"), KEYS.items(), ids=KEYS)
def test_the_key(command, key):
    assert key_of(command.encode().split()) == key


STAYING = {
    "make -j8": "starts other commands", "bash -c true": "starts other commands",
    "cd /": "built into the shell",
    "sudo true": "this host", "vim x": "is interactive", "ssh h2": "is interactive",
    "/bin/kill 1": "this host", "as x.s": "a compiler stage", "cat x": "copies files",
    "python3": "standard input", "sort /dev/tty": "/dev", "cc -c /tmp/x.c": "/tmp",
    "cc -I/tmp/inc -c x.c": "/tmp", "cc @/tmp/args": "/tmp", "prog of=/var/tmp/x": "/var/tmp",
    "diff /dev/fd/63 x": "/dev", "prog --out=/proc/self/fd/3": "/proc",
}  # fmt: skip
LEAVING = (
    "cc -c x.c", "sort x", "prog /dev/null", "prog /home/x", "cc -Isrc/tmp/inc -c x.c",
    "prog --form=native", "prog tmp/x", "prog /tmpfile", "prog -o../tmp/x", "prog",
)  # fmt: skip


def stays(command, directory):
    argv = command.encode().split()
    return why_stays(argv, key_of(argv), directory)


@pytest.mark.parametrize(("command", "why"), STAYING.items(), ids=STAYING)
def test_a_command_that_stays_says_why(command, why):
    assert why in stays(command, b"/home/ann")


@pytest.mark.parametrize("command", LEAVING)
def test_commands_that_may_leave(command):
    assert stays(command, b"/home/ann") == ""


@pytest.mark.parametrize(
    "command",
    ["gcc -O2 -march=native -c x.c", "clang -mcpu=native x.c", "cc -mtune=native -c x.c",
     "rustc -Ctarget-cpu=native x.rs", "rustc -C target-cpu=native x.rs"],
)  # fmt: skip
def test_what_is_compiled_for_this_processor_is_compiled_here(command):
    assert "refers to this host's processor" in stays(command, b"/home/ann")
    assert stays(command.replace("=native", "=x86-64-v3"), b"/home/ann") == ""


def test_files_below_a_place_of_this_host_are_named_relative_to_it():
    """Only the directory is checked to be the same elsewhere, and with it what lies beside it."""
    assert stays("cc -c /tmp/build/x.c", b"/tmp/build/sub") == ""
    assert "/dev" in stays("cc /dev/stdin", b"/tmp/build")


def test_no_name_is_listed_twice():
    listed = [name for names in STAYS.values() for name in names.split()]
    assert sorted(listed) == sorted(WHY_STAYS)


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=6), st.binary(max_size=50))
def test_any_bytes_have_a_printable_key(argv, directory):
    key = key_of(argv)
    assert len(key) <= KEY_CHARACTERS
    assert key.isprintable()
    assert key == key_of(argv)
    why_stays(argv, key, directory)


@given(st.sampled_from(["gcc", "python3", "tar", "xz", "java", "perl", "openssl"]),
       st.lists(st.binary(max_size=8), max_size=6))  # fmt: skip
def test_any_arguments_have_a_key_that_begins_with_the_name(name, words):
    assert key_of([name.encode(), *words]).split(" ")[0] == name


def test_a_directory_with_a_similar_name_is_not_that_of_this_host():
    assert "/tmp" in stays("cc -c /tmp/x.c", b"/tmpfiles/build")


@pytest.mark.parametrize("option", [b"-x", b"-O", b"--x", b"-W"])
@pytest.mark.parametrize("program", [b"python", b"openssl", b"tar"])
def test_what_a_command_is_about_is_among_its_first_words(program, option):
    """With 150,000 options a look at all of them took an LBM an eighth of a second each time, and
    those of an interpreter half a minute."""

    class Word(bytes):
        looks = 0

        def startswith(self, *prefix):
            Word.looks += 1
            return super().startswith(*prefix)

        def __getitem__(self, index):
            Word.looks += 1
            return super().__getitem__(index)

    key_of([program, *[Word(option)] * 100_000])
    assert Word.looks < 5 * LOOKED_AT
