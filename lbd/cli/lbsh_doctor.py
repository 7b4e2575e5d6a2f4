"""What `lbctl doctor` says of lbsh: its shims, its shell, whether it is compiled."""

import os
import sysconfig
from collections.abc import Iterator

from lbd.cli.doctor_checks import FAULT, OK, WARN, Check
from lbd.cli.lbsh_build import refresh
from lbd.cli.lbsh_shims import Place
from lbd.config import Config
from lbd.errors import LbdError


def check_lbsh(config: Config) -> Iterator[Check]:
    """As the caller's own lbsh would find things, from the caller's PATH."""
    scripts = os.path.realpath(sysconfig.get_path("scripts"))
    lbsh, front = (os.path.join(scripts, name) for name in ("lbsh", "lbrun"))
    if not os.access(lbsh, os.X_OK) or not os.access(front, os.X_OK):
        yield Check("lbsh", WARN, f"not in {scripts}", "deploy/setup installs it")
        return
    environment = {os.fsencode(name): os.fsencode(text) for name, text in os.environ.items()}
    if config.path:
        environment[b"LBD_CONFIG"] = os.fsencode(config.path)
    place = Place(environment, os.fsencode(front))
    try:
        stamp = refresh(place)
    except (OSError, LbdError) as problem:
        mend = f"make {os.fsdecode(place.base)} one that is yours alone, or mend what it says"
        yield Check("lbsh", FAULT, f"no shims: {problem}", mend)
        return
    if stamp is None:
        return
    shims = os.path.join(place.directory, stamp.set_number)
    names = len(os.listdir(shims))
    yield Check("lbsh", OK, f"{names} shims in {os.fsdecode(shims)}; {os.fsdecode(stamp.shell)}")
    slow = [name for name in (lbsh, front) if is_script(name)]
    if slow:
        mend = "install a C compiler (Debian: gcc libc6-dev), then deploy/setup"
        says = f"{' and '.join(map(os.path.basename, slow))}: not compiled, so slow to start"
        yield Check("compiled clients", WARN, says, mend)


def is_script(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"
