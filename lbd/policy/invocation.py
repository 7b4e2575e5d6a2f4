"""What a command line is: the key under which its CPU time is learnt, and whether it must stay.
Pure.

The thesis filters jobs by their names (section 4.2), "a very rough approximation" of their CPU
time. A name is still most of what can be known beforehand, but some programs do very different
things: a compiler that only preprocesses is not a compilation, and `python` is whatever script it
runs. So the key is the name and, for the programs in the tables below, the kind of invocation.

`STAYS` lists what stays at any cost; users override it with their lists (`eligibility.always`).
"""

import re
from collections.abc import Callable, Sequence
from itertools import islice

KEY_CHARACTERS = 80
# A command line may have hundreds of thousands of words; what it does is among the first.
LOOKED_AT = 1000

# These never leave by themselves, whatever was learnt: reason, and names.
STAYS = {
    "it is built into the shell": """
        . : alias bg break builtin cd command continue declare dirs disown echo eval exec exit
        export false fc fg getopts hash help history jobs let local logout popd printf pushd pwd
        read readonly return set shift shopt source suspend test [ times trap true type typeset
        ulimit umask unalias unset wait""",
    "it starts other commands, which may leave": """
        ash bash busybox chroot csh dash env fakeroot find fish flock ionice ksh mksh nice nohup
        parallel posh script sem setarch setsid sh stdbuf strace ltrace tcsh time timeout watch
        xargs yash zsh
        automake autoreconf autoconf bazel bmake buck cargo ccache ccmake cmake configure ctest
        distcc entr git gmake gradle hg icecc just lerna libtool make meson mvn ninja npm npx pnpm
        pre-commit rake sccache scons svn task tox tup waf yarn""",
    "it concerns this host, its processes or its users": """
        at atq atrm batch blkid chage chsh crontab date df dmesg docker fdisk finger free fuser
        gdb groups halt hostname hostnamectl id iostat ip ipcrm ipcs journalctl kill killall
        kubectl last ldconfig loginctl logger login lpq lpr lsblk lscpu lsof mail mount mpstat
        netstat nproc perf pgrep pidof ping pkill podman poweroff ps pstree reboot renice service
        shutdown sleep ss stty su sudo doas sync sysctl systemctl taskset tty udevadm umount uname
        uptime users vmstat w who whoami write""",
    "it is interactive, or controls the terminal": """
        aptitude bluetoothctl cfdisk dialog elinks emacs emacsclient ftp fzf gpg gpg2 helix htop
        hx irssi jed joe kak less links lynx man mc micro more most mosh mutt nano ncdu neomutt
        nnn nvim passwd pico pinentry ranger reset rlogin screen sftp ssh ssh-add ssh-keygen
        telnet tig tmux top tput tset vi view vim vimdiff vipw visudo whiptail zellij""",
    "it only copies files or bytes, which costs more from another host": """
        basename cat chgrp chmod chown cp cut dd dirname expr head install ln ls mkdir mkfifo
        mknod mktemp mv nl paste readlink realpath rm rmdir rsync scp seq stat tail tee touch tr
        truncate uniq unlink wc which yes""",
    "it is a compiler stage whose intermediate files are on this host": """
        as cc1 cc1obj cc1plus collect2 gas ld ld.bfd ld.gold ld.lld lto-wrapper lto1 mold""",
}
WHY_STAYS = {name: why for why, names in STAYS.items() for name in names.split()}
OURS = frozenset({"lbctl", "lbd", "lbrun", "lbsh"})  # these never leave, whatever any list says

# Places whose files differ from host to host under the same name. A command that names such a file
# stays, unless it runs below the same place: whether its directory is the same elsewhere is checked
# later.
LOCAL_PLACE = re.compile(rb"/(?:tmp|var/tmp|dev|proc|sys|run)(?=/|$)")
SAME_EVERYWHERE = (b"/dev/null", b"/dev/zero", b"/dev/full", b"/dev/random", b"/dev/urandom")

VERSION = re.compile(r"-?[0-9][0-9.]*$")
OPTION = re.compile(rb"-[A-Za-z]$")
# Options of gcc, clang and rustc: the result may not run on, or not be meant for, another host's
# processor.
NATIVE = re.compile(rb"(?:-m(?:arch|cpu|tune)|(?:-C)?target-cpu)=native$")
QUESTIONS = {b"--version", b"--help", b"-V", b"-h", b"-v", b"-vV", b"-version", b"-help"}
# Parts of the names of what `configure` and cmake compile to test the compiler: not the real work.
TRIALS = (b"conftest", b"cmTC_", b"CMakeScratch", b"CMakeTmp")


def compiling(words: Sequence[bytes]) -> str:
    """Returns the stage a compiler is asked for; without such an option it links."""
    line = b"\n".join((b"", *words))
    if line.count(b"\n-") == len(words):
        return "-v"
    stages = (("-E", (b"-E", b"-M", b"-MM")), ("-S", (b"-S",)), ("-c", (b"-c", b"-fsyntax-only")))
    found = next((kind for kind, flags in stages if any(f in words for f in flags)), "link")
    return f"{found} of a configure test" if any(mark in line for mark in TRIALS) else found


def interpreting(inline: bytes, valued: bytes) -> Callable[[Sequence[bytes]], str]:
    """Returns a function that finds the script's name. `inline`: letters of options that hold the
    program itself; `valued`: letters of options that take the next word as their value."""

    def kind(words: Sequence[bytes]) -> str:
        rest = islice(words, LOOKED_AT)
        for word in rest:
            if word == b"-":
                break
            if word in (b"-m", b"-jar") and (what := next(rest, None)) is not None:
                return f"{word.decode()} {text_of(what.rpartition(b'/')[2])}"
            if not word.startswith(b"-"):
                return text_of(word.rpartition(b"/")[2])
            if word.startswith(b"--"):
                continue
            if any(letter in inline for letter in word[1:]):
                return f"-{inline[:1].decode()}"
            if len(word) == 2 and word[1:] in valued:
                next(rest, None)
        return PROMPT

    return kind


PROMPT = "-"  # the program comes from standard input, perhaps from a person


def archiving(words: Sequence[bytes]) -> str:
    """Returns the mode of a tar command and its compression."""
    long = {b"--create": "c", b"--extract": "x", b"--get": "x", b"--list": "t"}
    packers = {b"--gzip": "z", b"--bzip2": "j", b"--xz": "J", b"--zstd": "zstd"}
    words = words[:LOOKED_AT]
    options = [word[1:] for word in words if word[:1] == b"-" and word[:2] != b"--"]
    letters = text_of(b"".join(options or list(words[:1])))
    mode = next((m for m in "cxtruA" if m in letters), "")
    mode = next((long[word] for word in words if word in long), mode)
    packer = next((p for p in "zjJ" if p in letters), "")
    return mode + next((packers[word] for word in words if word in packers), packer)


def packing(words: Sequence[bytes]) -> str:
    """Returns "-d" if a program like gzip decompresses, else ""."""
    undoing = {b"-d", b"-t", b"-l", b"--decompress", b"--uncompress", b"--test", b"--list"}
    return "-d" if undoing & set(words) else ""


def commanding(words: Sequence[bytes]) -> str:
    """Returns the first word that is not an option: the command to run."""
    seen = islice(words, LOOKED_AT)
    return next((text_of(word) for word in seen if not word.startswith(b"-")), "")


COMPILERS = "cc gcc g++ c++ clang clang++ c89 c99 gfortran gdc icx icpx nvcc tcc"
PACKERS = "gzip pigz bzip2 pbzip2 lbzip2 xz zstd lz4 brotli lzip"
KINDS: dict[str, Callable[[Sequence[bytes]], str]] = {
    **dict.fromkeys(COMPILERS.split(), compiling),
    "python": interpreting(b"c", b"WX"),
    "pypy": interpreting(b"c", b"WX"),
    "perl": interpreting(b"eE", b"I"),
    "ruby": interpreting(b"e", b"IrC"),
    "node": interpreting(b"ep", b"r"),
    "php": interpreting(b"r", b"cd"),
    "lua": interpreting(b"e", b"l"),
    "Rscript": interpreting(b"e", b""),
    "java": interpreting(b"", b""),
    "tar": archiving,
    **dict.fromkeys(PACKERS.split(), packing),
    **dict.fromkeys(("openssl", "go", "dotnet", "7z"), commanding),
}


def text_of(word: bytes) -> str:
    """A word as text that can be shown and stored, whatever bytes it holds."""
    text = word.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else ascii(text)[1:-1]


def name_of(argv: Sequence[bytes]) -> str:
    """Returns the program's base name, which is what the lists contain."""
    return text_of(argv[0].rpartition(b"/")[2])[:KEY_CHARACTERS] if argv else ""


def family_of(name: str) -> str | None:
    """Returns the entry of KINDS for a name; python3.11 and x86_64-linux-gnu-gcc-12 have one
    too."""
    if name in KINDS:
        return name
    stem = VERSION.sub("", name)
    for candidate in (stem, stem.rpartition("-")[2]):
        if candidate in KINDS:
            return candidate
    return None


def key_of(argv: Sequence[bytes]) -> str:
    """Returns the name, and the kind of invocation where the kinds differ in cost."""
    name, words = name_of(argv), argv[1:]
    if len(words) == 1 and words[0] in QUESTIONS:
        return f"{name} --version"[:KEY_CHARACTERS]
    family = family_of(name)
    kind = KINDS[family](words) if family else ""
    return f"{name} {kind}"[:KEY_CHARACTERS] if kind else name


def why_stays(argv: Sequence[bytes], key: str, directory: bytes) -> str:
    """Returns why this command must not leave by itself, whatever it costs; "" if it may."""
    name = name_of(argv)
    if why := WHY_STAYS.get(name):
        return why
    if key == f"{name} {PROMPT}":
        return "it reads its program from standard input, perhaps interactively"
    for word in argv[1:]:
        if word.endswith(b"=native") and NATIVE.match(word):
            return f"{word.decode()} refers to this host's processor"
        if b"/" in word and (place := local_place(word, directory)):
            return f"it names a file below {place.decode()}, which is local to each host"
    return ""


def local_place(word: bytes, directory: bytes) -> bytes:
    """Returns the host-local place that `word` names a file in: /tmp/x, -I/tmp/x, of=/tmp/x. Empty
    if it names none."""
    before, slash, rest = word.partition(b"/")
    if not slash or not (before in (b"", b"@") or before[-1:] in b"=:" or OPTION.match(before)):
        return b""
    path = slash + rest
    found = LOCAL_PLACE.match(path)
    if found is None or path in SAME_EVERYWHERE:
        return b""
    place = found.group()
    return b"" if directory == place or directory.startswith(place + b"/") else place
