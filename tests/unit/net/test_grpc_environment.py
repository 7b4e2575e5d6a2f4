"""What is known of gRPC before it is imported, and what the daemons do without while idle."""

import subprocess
import sys
from importlib import metadata

import pytest

from lbd.net.grpc_environment import EVENT_ENGINE_RELEASES, installed, settle

# Each costs every daemon hundreds of KiB for good.
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


def test_what_the_user_has_set_stays():
    environment = {"GRPC_EXPERIMENTS": "mine", "GRPC_VERBOSITY": "DEBUG"}
    settle(environment)
    assert environment == {"GRPC_EXPERIMENTS": "mine", "GRPC_VERBOSITY": "DEBUG"}


def test_the_event_engine_is_left_out_where_there_is_a_choice():
    environment: dict[str, str] = {}
    settle(environment)
    release = tuple(int(part) for part in metadata.version("grpcio").split(".")[:2])
    first, next_after = EVENT_ENGINE_RELEASES
    assert ("GRPC_EXPERIMENTS" in environment) == (first <= release < next_after)


@pytest.mark.parametrize("daemon", ["lim", "lbm"])
def test_a_daemon_imports_nothing_it_seldom_needs(daemon: str):
    code = (
        "import os, sys, lbd.cli.main\n"
        "lbd.cli.main.settle(os.environ)\n"
        f"import lbd.cli.daemons.{daemon}\n"
        "print(*sys.modules)"
    )
    argv = [sys.executable, "-P", "-c", code]
    told = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert not SELDOM_NEEDED & set(told.stdout.split())
