"""Debian packages of other releases than this one, for upgrades from and to them."""

import os
import subprocess

NEXT_RELEASE = """
set -eu
cd "$1"
if git rev-parse HEAD >/dev/null 2>&1; then git ls-files -z; else find . -type f -print0; fi |
    tar -c --null --files-from=- --ignore-failed-read | tar -x -C "$2"
cd "$2"
grep -A 2 '^## Unreleased' CHANGELOG.md | grep -q '^[^#]' ||
    sed -i 's/^## Unreleased/&\\n\\n- Nothing.\\n/' CHANGELOG.md
export GIT_CONFIG_GLOBAL="$2/.gitconfig" GIT_CONFIG_NOSYSTEM=1
git config --global user.name release
git config --global user.email release@localhost
git init --quiet
git add --all
git commit --quiet --message "what is here"
deploy/release patch --do >/dev/null

# To build all of it once more would take a minute; only the version is another.
version=$(sed -n 's/^__version__ = "\\(.*\\)"$/\\1/p' lbd/__init__.py)
dpkg-deb -R "$3" root
cp lbd/__init__.py root/opt/lbd/lib/python3*/site-packages/lbd/__init__.py
python3 -m compileall -q -f --invalidation-mode unchecked-hash -s root -p / \\
    root/opt/lbd/lib/python3*/site-packages/lbd/__init__.py
sed -i "s/^Version: [^+]*/Version: $version/" root/DEBIAN/control
(cd root && find . -type f ! -path './DEBIAN/*' -printf '%P\\0' |
    sort -z | xargs -0 md5sum) >md5sums
mv md5sums root/DEBIAN/md5sums
dpkg-deb --root-owner-group -Znone --build root next.deb >/dev/null
"""


def package_of_next_release(source, package, tree):
    """Builds in `tree` the package of the next release: `package` with the changes that
    `deploy/release` makes to the source. It needs neither tag nor history, so a shallow clone will
    do, or no repository."""
    built("sh", "-c", NEXT_RELEASE, "sh", source, tree, package)
    return tree / "next.deb"


def last_release(source):
    """The commit of the last release, or what $LBD_UPGRADE_FROM names instead; "" if there is no
    tag, as in a shallow clone."""
    words = ("git", "-C", source, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")
    found = subprocess.run(words, capture_output=True, text=True)
    return os.environ.get("LBD_UPGRADE_FROM") or found.stdout.strip()


def package_of_commit(source, commit, tree):
    script = 'git -C "$1" archive "$2" | tar -x && deploy/deb made'
    return tree / built("sh", "-c", script, "sh", source, commit, cwd=tree)


def built(*words, **options):
    made = subprocess.run(words, stdout=subprocess.PIPE, text=True, **options)
    assert made.returncode == 0
    return made.stdout.strip()
