"""The sources of the image if nothing can be pulled: a tree of Debian's, and wheels.

Making the tree takes half a minute. $LBD_TEST_CACHE names a directory to keep it in.
"""

import hashlib
import os
import shutil
import sys
import tomllib
from pathlib import Path

from lbd.process.self_start import PACKAGE_PARENT
from tests.cluster.engine import need, run, succeeds

SOURCE = Path(PACKAGE_PARENT)
PUBLIC = "debian:bookworm-slim"  # as in docker-compose.yml
SUITE, PYTHON = "bookworm", "3.11"
INCLUDE = "python3-venv,tini"
UNUSED = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "var/cache/apt",
    "var/lib/apt/lists",
)
FILES = ("docker-compose.yml", ".dockerignore", "pyproject.toml", "README.md", "LICENSE")


def base(engine, work):
    """The name of an image to build on."""
    if "LBD_BASE" in os.environ:
        return os.environ["LBD_BASE"]
    if not engine.private and succeeds("docker", "pull", PUBLIC):
        return PUBLIC
    recipe = hashlib.sha256(f"{SUITE} {INCLUDE} {UNUSED}".encode()).hexdigest()[:12]
    name = f"lbd-test-base:{recipe}"
    if engine.docker("image", "inspect", name, check=False).returncode:
        cache = Path(os.environ.get("LBD_TEST_CACHE", work))
        archive = cache / f"base-{recipe}.tar"
        if not archive.exists():
            make_tree(work / "tree", archive)
        engine.docker("import", archive, name)
    return name


def make_tree(tree, archive):
    need("debootstrap", "--variant=minbase", f"--include={INCLUDE}", SUITE, tree, timeout=600)
    excluded = [f"--exclude=./{path}/*" for path in UNUSED]
    part = archive.with_suffix(f".{os.getpid()}")
    run("tar", "-C", tree, *excluded, "-cf", part, ".", timeout=120)
    part.rename(archive)
    shutil.rmtree(tree)


def project(directory):
    """The sources that docker-compose.yml needs, with the wheels that the setup would fetch."""
    directory.mkdir()
    for name in FILES:
        shutil.copy(SOURCE / name, directory)
    for name in ("lbd", "deploy"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SOURCE / name, directory / name, ignore=ignore)
    declared = tomllib.loads((SOURCE / "pyproject.toml").read_text())
    needed = [*declared["build-system"]["requires"], *declared["project"]["dependencies"]]
    fetch = ("pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:")
    wheels = directory / "deploy/wheels"
    run(
        sys.executable, "-m", *fetch, "--python-version", PYTHON, "-d", wheels, *needed, timeout=300
    )
