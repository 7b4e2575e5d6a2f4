"""`lbd slurm install`: where the commands are put, and which options they are to ignore."""

import os
import subprocess

import pytest

from lbd.cli.slurm import main as slurm_main
from lbd.slurm.options import LET_BE
from lbd.slurm.program import NAMES, install


def test_the_commands_are_put_where_they_overwrite_nothing_of_others(tmp_path):
    made = install(tmp_path / "bin")
    assert [path.name for path in made] == list(NAMES)
    assert all(path.stat().st_mode & 0o777 == 0o755 for path in made)
    install(tmp_path / "bin")  # once more, over our own
    (tmp_path / "bin/sinfo").write_text("somebody's\n")
    with pytest.raises(FileExistsError):
        install(tmp_path / "bin")
    assert (tmp_path / "bin/sinfo").read_text() == "somebody's\n"


def test_they_are_installed_with_the_options_to_be_ignored(tmp_path, monkeypatch, capsys):
    (tmp_path / "job.sh").write_text(
        "#!/bin/sh\n#SBATCH -p big\n#SBATCH --mail-type=END -A x\n"
        "#SBATCH --kill-on-invalid-dep=no\n"
    )

    def refusal(variable):
        words = [str(tmp_path / "bin/sbatch"), "--nice", str(tmp_path / "job.sh")]
        environment = {**os.environ, **({LET_BE: variable} if variable else {})}
        return subprocess.run(words, capture_output=True, text=True, env=environment).stderr

    assert slurm_main(["install", str(tmp_path / "bin")]) == 0
    assert (
        "/bin --ignore account,partition,qos,mail-type,mail-user,hint,wckey\n"
        in capsys.readouterr().out
    )
    assert (
        "--mail-type END (line 3), --nice, --kill-on-invalid-dep no (line 4), --partition big "
        "(line 2) are" in refusal("account")
    )
    ignored = "partition,--mail-type,kill-on-invalid-dep"
    assert slurm_main(["install", "--ignore", ignored, str(tmp_path / "bin")]) == 0
    assert (
        "--account x (line 3), --nice are not supported by lbd; for --nice N, use --priority=-N; "
        f"take --account, --nice out, or set {LET_BE}=account,nice\n"
    ) in refusal("")
    assert refusal("account").endswith(f"or set {LET_BE}=account,nice\n")


def test_needs_cannot_be_ignored_except_those_that_only_srun_refuses(tmp_path, capsys):
    """Jobs were queued without their GPUs."""
    with pytest.raises(SystemExit):
        slurm_main(["install", "--ignore", "gpus-per-task", str(tmp_path / "bin")])
    assert "'gpus-per-task' cannot be ignored: use --gres gpu:N" in capsys.readouterr().err
    assert slurm_main(["install", "--ignore", "mpi", str(tmp_path / "bin")]) == 0


@pytest.mark.parametrize(("name", "answer"), [("acount", '"account"'), ("time", "")])
def test_only_refused_options_can_be_ignored(name, answer, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        slurm_main(["install", "--ignore", f"qos,{name}", str(tmp_path / "bin")])
    assert ended.value.code == 2
    assert f"sbatch does not refuse {name!r}" in (said := capsys.readouterr().err)
    assert answer in said
    assert not (tmp_path / "bin").exists()


def test_links_where_commands_are_installed_are_not_written_through(tmp_path):
    """For example in a directory of a group, where another member left links at guessable names."""
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "bin").mkdir()
    for name in NAMES:
        (tmp_path / f"bin/.{name}.new").symlink_to(tmp_path / "precious")
    install(tmp_path / "bin")
    assert (tmp_path / "precious").read_text() == "mine"
    assert all((tmp_path / "bin" / name).stat().st_mode & 0o777 == 0o755 for name in NAMES)
