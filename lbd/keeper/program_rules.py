"""The owner's rules for programs, applied in the child that is about to become one.

Where the owner limits programs (`admission.programs`, `deny_programs`), a command does not get the
variables below, since with LD_PRELOAD `true` is any program. This is not airtight: an allowed
program may read such settings from its arguments and from its user's home directory.
"""

import fnmatch
import os
import re

from lbd.launch.directory_look import find_program
from lbd.launch.exec import DEFAULT_PATH
from lbd.text.program_names import is_listed

PATTERNS = (
    "LD_*", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "GETCONF_DIR",  # C libraries
    "BASH_ENV", "ENV", "BASH_FUNC_*", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND",  # shells
    "ZDOTDIR", "FPATH", "KSH_VERSION", "LESSOPEN", "LESSCLOSE", "*PAGER", "EDITOR", "VISUAL",
    "PYTHON*", "PERL*", "RUBY*", "GEM_*", "BUNDLE_*", "NODE_*", "LUA_*", "PHP*", "TCL*",
    "JAVA_*", "_JAVA_*", "JDK_*", "CLASSPATH", "JULIA_*", "R_*", "GUILE_*", "ERL_*", "OCAML*",
    "CAML_*", "DOTNET_*", "CORECLR_*", "COMPLUS_*", "MONO_*", "GHC*",
    "GCC_EXEC_PREFIX", "COMPILER_PATH", "MAKEFILES", "GIT_*", "SSH_ASKPASS", "SUDO_ASKPASS",
    "OPENSSL_*", "SASL_PATH", "KRB5_CONFIG", "GTK_*", "GIO_*", "GST_*", "QT_*", "VK_*", "OCL_*",
    "LIBGL_*", "CUDA_INJECTION*", "NVIDIA_*_PATH", "PROJ_LIB", "GDAL_DRIVER_PATH", "HDF5_PLUGIN_*",
    "OMPI_MCA_*", "PMIX_MCA_*", "I_MPI_*",
)  # fmt: skip
NAMES = re.compile("|".join(map(fnmatch.translate, PATTERNS)))


def program_found(name: bytes, path: bytes = DEFAULT_PATH) -> bytes:
    """Returns the path that exec would run, which may be a link; b"" if it would find nothing."""
    candidates = [name]
    if b"/" not in name:
        candidates = [(directory or b".") + b"/" + name for directory in path.split(b":")]
    return next((one for one in candidates if find_program(one, b"") == 0), b"")


def rule_against(program: bytes, allowed: list[str], denied: list[str]) -> str:
    """Returns the rule that forbids the program, "" if none does."""
    path = os.fsdecode(program)
    if is_listed(denied, path):
        return "deny_programs"
    if allowed and not is_listed(allowed, path):
        return "programs"
    return ""


def without_code(environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Returns the environment that a command gets where the owner limits programs."""
    return {name: value for name, value in environment.items() if not is_code(name)}


def is_code(name: bytes) -> bool:
    """Returns whether a variable of that name can inject code into a program."""
    return NAMES.match(name.decode("utf-8", "surrogateescape")) is not None
