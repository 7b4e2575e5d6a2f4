"""The package's units, which systemd starts; nothing happens without them."""

import subprocess
from pathlib import Path

from lbd.config.load import SYSTEM_FILE
from lbd.console.starting import enabled_units

SYSTEMD = Path("/run/systemd/system")
TARGET = "lbd.target"


def are_used(file: Path) -> bool:
    """Returns whether systemd runs the daemons that have this lbd.toml."""
    return SYSTEMD.is_dir() and file == SYSTEM_FILE


def run_authority(verb: str, file: Path) -> None:
    """Starts or stops the process that holds the authority's key. Its errors are in its journal."""
    if are_used(file):
        words, null = ("systemctl", verb, "lbd-authority.service"), subprocess.DEVNULL
        subprocess.run(words, check=False, stdout=null, stderr=null)


def stop_for_good() -> None:
    """Stops the daemons, also for the host's next start. The socket of the status page is started
    without the target, too."""
    units = dict.fromkeys((TARGET, *enabled_units()))
    subprocess.run(("systemctl", "disable", "--now", *units), check=False)


def enable(file: Path) -> str:
    """Undoes `stop_for_good`, but starts nothing. Returns what was done, for people; "" if nothing
    had to be, or the unit is masked or missing."""
    if not are_used(file):
        return ""
    ask = ("systemctl", "is-enabled", TARGET)
    state = subprocess.run(ask, check=False, capture_output=True, text=True).stdout.strip()
    if state != "disabled":
        return ""
    done = subprocess.run(("systemctl", "--quiet", "enable", TARGET), check=False).returncode == 0
    return f"{TARGET} is enabled: the daemons start with this machine" if done else ""
