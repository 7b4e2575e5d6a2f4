"""The source of a real program, from Debian's packages."""

import subprocess
from pathlib import Path

import pytest


def fetch(package, directory: Path) -> Path:
    """Downloads and unpacks the upstream source of a Debian package; returns the unpacked tree.

    Uses its own package lists, so the machine's stay as they are. A failure shows apt's message.
    """
    lists = directory / "lists"
    (lists / "partial").mkdir(parents=True)
    (directory / "archives/partial").mkdir(parents=True)
    sources = directory / "sources"
    sources.mkdir()
    for path in (Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("debian*")):
        if path.suffix == ".sources":
            text = path.read_text().replace("Types: deb", "Types: deb-src")
            (sources / path.name).write_text(text)
        elif path.exists():
            lines = [line for line in path.read_text().splitlines() if line.startswith("deb ")]
            text = "\n".join(line.replace("deb ", "deb-src ", 1) for line in lines)
            (sources / path.name).with_suffix(".list").write_text(text + "\n")
    options = [
        "-o", "Dir::Etc::SourceList=/dev/null", "-o", f"Dir::Etc::SourceParts={sources}",
        "-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={directory}",
    ]  # fmt: skip
    for words in (["update"], ["source", "--download-only", package]):
        result = subprocess.run(
            ["apt-get", "-q", *options, *words], cwd=directory, capture_output=True, text=True,
            timeout=180,
        )  # fmt: skip
        if result.returncode != 0:
            pytest.fail(f"apt-get {words}: {result.stderr}")
    (archive,) = (path for path in directory.glob("*.orig.tar.*") if path.suffix != ".asc")
    subprocess.run(["tar", "xf", archive], cwd=directory, check=True)
    own = {"lists", "archives", "sources"}
    (tree,) = (path for path in directory.iterdir() if path.is_dir() and path.name not in own)
    return tree
