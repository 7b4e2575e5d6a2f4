"""The page of lbd.toml: every field of lbd/config with its comment, by section."""

from itertools import groupby

from deploy.describe.settings import Setting, settings
from deploy.reference.markdown import prose, table

SECTIONS = {
    "cluster": "which hosts belong together",
    "host": "this host: name, address, directories, cores, speed",
    "load": "how load is measured",
    "lim": "how load is exchanged and where commands go",
    "lbm": "how commands are carried and run",
    "stage": "files that travel with `--send` and `--fetch`",
    "environment": "which variables travel",
    "eligibility": "which commands may leave a shell",
    "users": "as whom commands of other hosts run",
    "admin": "who administers",
    "admission": "the owner's rules: whose commands run here, and when",
    "limits": "what commands of other hosts may use",
    "resources": "what this host hands out to commands that ask for it (`--need`)",
    "daemons": "as whom the daemons run",
    "dispatch": "the queue",
    "tags": "tiers and cutoffs of the `tags` and `sita-e` disciplines",
    "stats": "how long ended jobs stay on record",
    "metrics": "whether and where metrics are shown",
    "log": "what daemons log",
    "shell": "the shell behind `lbsh`",
    "tls": "certificates",
    "security": "a lab's shared key",
    "up": "how `lbd up` restarts daemons",
}
INTRODUCTION = """\
`lbd` reads TOML. It looks for a file in this order: `--config FILE`, `$LBD_CONFIG`,
`~/.config/lbd/lbd.toml`, `/etc/lbd/lbd.toml`; without any, built-in defaults describe one host on
loopback. A `~/.config/lbd/lbd.toml` that has nothing but `[eligibility]` adds your own lists, and
everything else is read from `/etc`.

The same file may serve every host: each finds itself in `cluster.hosts` by `host.name`.
`--set section.key=value` overrides a single value for a daemon. An unknown key or a bad value stops
the program with one line: file, line, key, what is allowed, and the closest known spelling.

A name that ends with `_s` is in seconds, one with `_days` in days, and one with `_bytes` in bytes:
write `4294967296` for 4 GiB, since `"4G"` is refused here.

`lbctl param NAME VALUE` changes most of `[lim]`, some of `[load]` and `log.level` at run time, for
the whole cluster, until the last LIM has ended. `lbctl reload` reads `[admission]`, `[limits]`,
`[resources]`, `host.features` and `host.memory` of this host again. Everything else needs a
[restart](../how-to/upgrade.md#after-a-change-in-lbdtoml) of this host's daemons.

The same as text: `man lbd.toml`."""


def settings_page() -> str:
    parts = ["# lbd.toml", INTRODUCTION]
    for name, group in groupby(settings(), key=section_of):
        rows = [(f"`{s.key}`", f"`{s.default}`", s.allowed, prose(s.meaning)) for s in group]
        parts += [f"## `[{name}]`", f"{prose(SECTIONS[name])}"]
        parts.append(table(("key", "default", "allowed", "meaning"), rows))
    return "\n\n".join(part.rstrip() for part in parts)


def section_of(setting: Setting) -> str:
    return setting.key.partition(".")[0]
