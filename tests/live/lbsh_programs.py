"""Programs for lbsh to find, in a directory of their own."""

import os


def make_commands(tmp_path):
    """A directory of programs, first on PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()

    def add(name, *lines, shell="/bin/sh"):
        path = directory / name
        path.write_text("\n".join((f"#!{shell}", *lines)) + "\n")
        path.chmod(0o755)
        return path

    add("shows", 'printf "<%s>" "$@"')
    add("fails", "exit 3")
    add("dies", "kill -TERM $$")
    # These are not called often enough to be known as short, which would cost them their shims.
    add("seldom", 'printf "<%s>" "$@"')
    (directory / "plain-text").write_text("echo a script without a first line: $1\n")
    (directory / "plain-text").chmod(0o755)
    (directory / "locked").write_text("#!/bin/sh\n")
    (directory / "wrong").write_text("#!/no/such/interpreter\n")
    (directory / "wrong").chmod(0o755)
    (directory / "folder").mkdir()
    add.path = f"{directory}:{os.environ['PATH']}"
    add.directory = directory
    return add
