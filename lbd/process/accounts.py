"""The accounts that this host's daemons run as."""

DEFAULT = "lbd"
ROOT = "root"

# The same as deploy/systemd/sysusers.conf, for hosts without the package.
USERADD = (
    "useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/var/lib/lbd",
    "--shell", "/usr/sbin/nologin", DEFAULT,
)  # fmt: skip
