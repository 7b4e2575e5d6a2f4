"""A process with the name of a daemon, for tests of code that waits for one."""

import subprocess
from contextlib import contextmanager


@contextmanager
def lbd_up_in(runtime_dir):
    """Starts a fake `lbd up`, with its name and its pid file."""
    script = "echo; read -r word"  # the line says that it has its name
    process = subprocess.Popen(["sh", "-c", script, "lbd", "up"], stdin=-1, stdout=-1)
    process.stdout.readline()
    (runtime_dir / "up.pid").write_text(f"{process.pid}\n")
    yield process
    process.communicate()
