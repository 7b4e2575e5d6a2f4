"""A process that goes by the name of a daemon, for tests of those who wait for one."""

import subprocess
from contextlib import contextmanager


@contextmanager
def lbd_up_in(runtime_dir):
    """`lbd up`, as far as its name and its pid file say so."""
    script = "echo; read -r word"  # it says once that it has its name
    process = subprocess.Popen(["sh", "-c", script, "lbd", "up"], stdin=-1, stdout=-1)
    process.stdout.readline()
    (runtime_dir / "up.pid").write_text(f"{process.pid}\n")
    yield process
    process.communicate()
