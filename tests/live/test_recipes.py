"""The recipes of docs/how-to/builds.md, by the real tools, on projects of a few lines.

One lab for all of them, whose h1 is busy. Each command is as the page has it; `lbctl jobs` says
where it ran.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import PATIENT, Lab

from tests.book import DOCS

BUSY = Path(__file__).with_name("busy.py")
PAGE = DOCS / "how-to/builds.md"
C = {
    "main.c": '#include "part.h"\nint main(void) { return part(); }\n',
    "part.c": '#include "part.h"\nint part(void) { return 0; }\n',
    "part.h": "int part(void);\n",
    "Makefile": "prog: main.o part.o\n\t$(CC) -o $@ main.o part.o\n",
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.18)\nproject(x C CXX)\n"
    "add_executable(prog main.c part.c)\n",
}
RUST = {
    "Cargo.toml": '[package]\nname = "prog"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/main.rs": "fn main() {}\n",
}


@pytest.fixture(scope="module")
def lab():
    """A lab whose h1 is busy, so that commands started there go to h2 and h3."""
    lab = Lab.up(3, "none", settings=(*PATIENT, "lbm.slots=4", "lim.local_threshold=0.2"))
    burner = lab.popen("h1", "lbrun", "--local", sys.executable, BUSY, "processes", 4,
                       start_new_session=True)  # fmt: skip
    try:
        lab.wait_until(
            lambda: [host for host, load in loads(lab).items() if load > 1] == ["h1"],
            "h1 is seen to be busy, the others to be at rest",
        )
        yield lab
    finally:
        os.killpg(burner.pid, signal.SIGKILL)
        burner.wait()
        lab.down()


def loads(lab):
    return {row["name"]: row["index"] for row in lab.ask("h2", "lim", "status")["hosts"]}


def needed(*programs):
    for program in programs:
        if shutil.which(program) is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no {program}")


def project(directory, files):
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return directory


def follow(lab, directory, recipe, **environment):
    """Runs a line of the page from h1; returns the commands that it ran on other hosts."""
    assert recipe in PAGE.read_text(), f"{PAGE.name} has no {recipe!r}"
    before = {job["id"] for job in jobs(lab)}
    result = lab.run(
        "h1", "sh", "-c", recipe, cwd=directory, timeout=120,
        env={"HOME": str(directory), **environment},
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    new = [job for job in jobs(lab) if job["id"] not in before]
    return [os.path.basename(job["command"][0]) for job in new if job["host"] != "h1"]


def jobs(lab):
    return lab.lbctl_json("h1", "jobs", "--all")


def test_make(lab, tmp_path):
    needed("make", "gcc")
    assert (
        follow(lab, project(tmp_path, C), 'make -j40 CC="lbrun gcc" CXX="lbrun g++"').count("gcc")
        == 3
    )
    subprocess.run([tmp_path / "prog"], check=True)


def test_cmake_and_ninja(lab, tmp_path):
    needed("cmake", "ninja", "gcc")
    project(tmp_path, C)
    configure = "cmake -B build -G Ninja -DCMAKE_C_COMPILER_LAUNCHER=lbrun"
    both = f"{configure} -DCMAKE_CXX_COMPILER_LAUNCHER=lbrun"
    follow(lab, tmp_path, both)
    away = follow(lab, tmp_path, "ninja -C build -j40")
    assert len(away) == 2, away
    subprocess.run([tmp_path / "build/prog"], check=True)


def test_ccache_in_front(lab, tmp_path):
    needed("ccache", "make", "gcc")
    project(tmp_path, C)
    recipe = 'CCACHE_PREFIX=lbrun make -j40 CC="ccache gcc"'
    settings = {"CCACHE_DIR": str(tmp_path / "cache")}
    assert follow(lab, tmp_path, recipe, **settings).count("gcc") >= 2
    for path in tmp_path.glob("*.o"):
        path.unlink()
    assert follow(lab, tmp_path, recipe, **settings).count("gcc") <= 1, (
        "only the link is not cached"
    )


def test_cargo(lab, tmp_path):
    needed("cargo", "rustc")
    project(tmp_path, RUST)
    homes = {name: os.environ[name] for name in ("CARGO_HOME", "RUSTUP_HOME") if name in os.environ}
    homes = {"RUSTUP_HOME": os.path.expanduser("~/.rustup"), **homes}
    away = follow(lab, tmp_path, "RUSTC_WRAPPER=lbrun cargo build", **homes)
    assert any(name.startswith("rustc") for name in away), away
    subprocess.run([tmp_path / "target/debug/prog"], check=True)


def test_pytest_xdist(lab, tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import os, pytest\n"
        "@pytest.mark.parametrize('n', range(8))\n"
        "def test_where(n):\n"
        "    assert os.environ['LBD_HOST'] in ('h2', 'h3')\n"
    )
    recipe = "pytest --tx '4*popen//python=lbrun python3' --dist load --max-worker-restart 0"
    quick = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    quick |= {"PATH": f"{os.path.dirname(sys.executable)}:{lab.environment('h1')['PATH']}"}
    # pytest removes old directories beside its own: these tests have left very many files there.
    quick |= {"PYTEST_DEBUG_TEMPROOT": str(tmp_path)}
    assert follow(lab, tmp_path, recipe, **quick).count("python3") == 4


def test_gnu_parallel(lab, tmp_path):
    needed("parallel")
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    assert follow(lab, tmp_path, "parallel -j40 lbrun gzip -k {} ::: *.txt") == ["gzip", "gzip"]
    assert (tmp_path / "a.txt.gz").exists()


def test_xargs(lab, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    recipe = "printf '%s\\n' *.txt | xargs -P40 -I@ lbrun gzip -k @"
    assert follow(lab, tmp_path, recipe) == ["gzip"]


def test_git_bisect(lab, tmp_path):
    needed("git", "make", "gcc")

    def git(*words):
        name = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        found = subprocess.run(
            ["git", *name, *words], cwd=tmp_path, check=True, capture_output=True, text=True,
            env={**os.environ, "HOME": str(tmp_path)},
        )  # fmt: skip
        return found.stdout

    project(tmp_path, C)
    (tmp_path / "Makefile").write_text("test: prog\n\t./prog\n" + C["Makefile"])
    git("init", "-q")
    for number in range(6):
        part = (
            f'#include "part.h"\nint part(void) {{ return {int(number >= 4)} /* {number} */; }}\n'
        )
        (tmp_path / "part.c").write_text(part)
        git("add", "-A")
        git("commit", "-q", "-m", f"number {number}")
    git("bisect", "start", "HEAD", "HEAD~5")
    away = follow(lab, tmp_path, "git bisect run lbrun sh -c 'git clean -fdxq && make test'")
    assert "sh" in away
    assert "number 4" in git("log", "-1", "--format=%s", "refs/bisect/bad")
