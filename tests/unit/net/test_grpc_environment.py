"""What is known of gRPC before its import, and what idle daemons do without."""

import subprocess
import sys
from importlib import metadata

import pytest

from lbd.net.grpc_environment import EVENT_ENGINE_RELEASES, installed, settle

# Each costs every daemon hundreds of KiB permanently.
SELDOM_NEEDED = {
    "difflib",
    "email",
    "google.protobuf.json_format",
    "importlib.metadata",
    "lbd.process.supervise",
    "shutil",
    "tempfile",
}


def test_the_release_is_known_without_importing_grpc():
    assert installed() == metadata.version("grpcio")


def test_settings_of_the_user_are_respected():
    environment = {"GRPC_EXPERIMENTS": "mine", "GRPC_VERBOSITY": "DEBUG"}
    settle(environment)
    assert environment == {"GRPC_EXPERIMENTS": "mine", "GRPC_VERBOSITY": "DEBUG"}


def test_the_event_engine_is_left_out_where_possible():
    environment: dict[str, str] = {}
    settle(environment)
    release = tuple(int(part) for part in metadata.version("grpcio").split(".")[:2])
    first, next_after = EVENT_ENGINE_RELEASES
    assert ("GRPC_EXPERIMENTS" in environment) == (first <= release < next_after)


@pytest.mark.parametrize("daemon", ["lim", "lbm"])
def test_a_daemon_imports_nothing_it_rarely_needs(daemon: str):
    code = (
        "import os, sys, lbd.cli.main\n"
        "lbd.cli.main.settle(os.environ)\n"
        f"import lbd.cli.daemons.{daemon}\n"
        "print(*sys.modules)"
    )
    argv = [sys.executable, "-P", "-c", code]
    told = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert not SELDOM_NEEDED & set(told.stdout.split())
