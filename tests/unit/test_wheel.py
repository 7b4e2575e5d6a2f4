"""What `pip install` makes of the wheel and of the source distribution."""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from deploy.describe.source_date import IN_SDIST
from deploy.wheel import CLIENTS, is_static

ROOT = Path(__file__).resolve().parents[2]
ELF, SCRIPT = b"\x7fELF", b"#!python\n"


def build(source, made, target, **environment):
    made.mkdir()
    words = ("-m", "hatchling", "build", "-t", target, "-d", made)
    subprocess.run(
        [sys.executable, *words], cwd=source, env={**os.environ, **environment},
        stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    (path,) = made.iterdir()
    return path


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    return build(ROOT, tmp_path_factory.mktemp("wheel") / "compiled", "wheel")


@pytest.fixture(scope="module")
def pure(tmp_path_factory):
    """Builds where there is no compiler."""
    tools = tmp_path_factory.mktemp("tools")
    for name in ("sh", "rm"):
        (tools / name).symlink_to(shutil.which(name))
    made = tmp_path_factory.mktemp("wheel") / "pure"
    return build(ROOT, made, "wheel", PATH=str(tools), CC="none")


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: (info, archive.read(info)) for info in archive.infolist()}


def script(found, name):
    (path,) = (path for path in found if path.endswith(f".data/scripts/{name}"))
    return found[path][1]


def test_the_wheel_has_the_compiled_programs_beside_their_python_clients(compiled):
    found = contents(compiled)
    for name in CLIENTS:
        assert script(found, name).startswith(ELF)
        assert script(found, f"{name}-python").startswith(SCRIPT)
    info, spare = found["lbd/keeper/spare"]
    assert spare.startswith(ELF)
    assert info.external_attr >> 16 & 0o111


def test_static_programs_are_for_every_linux_on_that_processor(compiled):
    static = is_static(script(contents(compiled), "lbrun"))
    platforms = compiled.stem.rpartition("-")[2].split(".")
    assert [name.startswith("linux_") for name in platforms] == ([False] * 3 if static else [True])


def test_a_program_that_needs_a_loader_is_not_static():
    assert not is_static(Path("/bin/sh").read_bytes())


def test_without_a_compiler_the_wheel_is_pure(pure):
    assert pure.name.endswith("-py3-none-any.whl")
    found = contents(pure)
    assert all(script(found, name).startswith(SCRIPT) for name in CLIENTS)
    assert not [path for path in found if path.endswith(("-python", "keeper/spare"))]


@pytest.mark.parametrize("kind", ["compiled", "pure"])
def test_manual_and_completion_are_included(request, kind):
    found = contents(request.getfixturevalue(kind))
    shared = {path.partition("/data/share/")[2] for path in found}
    for name in ("lbd", "lbctl", "lbrun", "lbsh"):
        assert f"bash-completion/completions/{name}" in shared
        assert f"zsh/vendor-completions/_{name}" in shared
        assert f"fish/vendor_completions.d/{name}.fish" in shared
    pages = {"man1/lbctl.1", "man1/lbrun.1", "man1/lbsh.1", "man5/lbd.toml.5", "man8/lbd.8"}
    assert {f"man/{page}" for page in pages} <= shared


def test_the_metadata_names_no_path_of_this_machine(compiled):
    (text,) = (data for path, (_, data) in contents(compiled).items() if path.endswith("/METADATA"))
    said = text.decode()
    assert str(ROOT) not in said
    for field in ("License-Expression: Apache-2.0", "Summary: ", "Requires-Python: >=3.11"):
        assert f"\n{field}" in said
    assert "\nClassifier: Operating System :: POSIX :: Linux\n" in said


def test_the_source_distribution_alone_gives_the_same_wheel(compiled, tmp_path):
    archive = build(ROOT, tmp_path / "sdist", "sdist")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert (source / IN_SDIST).read_text().strip().isdecimal(), "else the day of the build counts"
    for part in ("proto", "docs", "tests/run", "deploy/quickstart", ".ci/run", "CHANGELOG.md"):
        assert (source / part).exists()
    wheel = build(source, tmp_path / "again", "wheel")
    assert wheel.name == compiled.name
    # By digests: pytest would take an hour to say where megabytes differ.
    assert digests(wheel) == digests(compiled)
    whole = [hashlib.sha256(one.read_bytes()).hexdigest() for one in (wheel, compiled)]
    assert whole[0] == whole[1]


def digests(wheel):
    return {path: hashlib.sha256(data).hexdigest() for path, (_, data) in contents(wheel).items()}


def install(wheel, venv):
    """Installs it, with lbd's dependencies from the environment we run in."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    words = ("install", "--quiet", "--no-deps", "--no-index", wheel)
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", venv / "bin/python", *words], check=True
    )
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return venv


@pytest.fixture(scope="module")
def venv(compiled, tmp_path_factory):
    """Makes one with a blank in its name, which the first line of a script cannot have."""
    return install(compiled, tmp_path_factory.mktemp("venv") / "with blank")


@pytest.mark.parametrize("name", CLIENTS)
def test_the_compiled_programs_start_their_python_clients_without_site(venv, name):
    for program in (venv / "bin" / name, venv.parent / name):
        if not program.exists():
            program.symlink_to(venv / "bin" / name)
        for path in ("/usr/bin:/bin", ""):
            said = subprocess.run(
                [program, "--version"], capture_output=True, text=True,
                env={"PATH": path, "PYTHONHOME": "/nowhere", "PYTHONPATH": "/nowhere"},
            )  # fmt: skip
            assert (said.stdout.split()[0], said.returncode) == (name, 0), said


@pytest.mark.root
@pytest.mark.parametrize("name", CLIENTS)
def test_they_find_their_python_clients_without_proc(venv, name):
    words = ("unshare", "--mount", "sh", "-c", 'umount -l /proc && exec "$0" --version')
    if os.geteuid() != 0 or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("needs root on Linux")
    said = subprocess.run([*words, venv / "bin" / name], capture_output=True, text=True)
    assert (said.stdout.split()[0], said.returncode) == (name, 0), said


@pytest.mark.parametrize("name", CLIENTS)
def test_a_missing_client_is_named(venv, tmp_path, name):
    alone = shutil.copy(venv / "bin" / name, tmp_path)
    (tmp_path / "work").mkdir()
    shutil.copy(venv / "bin" / f"{name}-python", tmp_path / "work")
    said = subprocess.run(
        [alone, "--version"], capture_output=True, text=True, cwd=tmp_path / "work",
        env={"PATH": ".::"},
    )  # fmt: skip
    assert said.stderr == f"{name}: {alone}-python: No such file or directory\n"
    assert said.returncode == 126


@pytest.mark.parametrize("name", CLIENTS)
def test_a_single_copy_finds_its_client_on_path(venv, tmp_path, name):
    alone = shutil.copy(venv / "bin" / name, tmp_path)
    path = f"/nowhere:{venv / 'bin'}"
    said = subprocess.run([alone, "--version"], capture_output=True, text=True, env={"PATH": path})
    assert (said.stdout.split()[0], said.returncode) == (name, 0), said


def test_the_pure_wheel_runs(pure, tmp_path):
    venv = install(pure, tmp_path / "venv")
    for name in CLIENTS:
        said = subprocess.run([venv / "bin" / name, "--version"], capture_output=True, text=True)
        assert said.stdout.split()[0] == name, said
