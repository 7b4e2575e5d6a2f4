"""Under --json an error is one object on standard error, in every program that takes it."""

import json
import subprocess
import sys

import pytest

from lbd.cli import lbctl, main


def error_in(text):
    found = json.loads(text)  # all of it
    assert found["schema"] == 1
    return found["error"]


@pytest.mark.parametrize(
    ("words", "status", "kind"),
    [
        (["sim", "balance", "--hosts", "0", "--json"], 2, "usage"),
        (["sim", "balance", "--workload", "/none.csv", "--json"], 2, "usage"),
        (["sim", "--json", "balence"], 2, "usage"),
        (["lab", "status", "--json", "--dir", "/nolab"], 1, "failed"),
        (["lab", "status", "--json", "--bogus"], 2, "usage"),
    ],
)
def test_errors_of_lbd(words, status, kind, capsys):
    assert main.main(words) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert error_in(err)["kind"] == kind


def test_the_json_of_a_command_in_a_lab_is_not_the_labs(capsys):
    assert main.main(["lab", "exec", "--dir", "/nolab", "h1", "lbctl", "--json"]) == 1
    assert capsys.readouterr().err.startswith("lbd lab: there is no lab")


def test_sim_takes_json_before_its_command(capsys):
    assert main.main(["sim", "--json", "list"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"]


@pytest.mark.parametrize(
    ("options", "kind", "fix"),
    [
        ([], "unavailable", "start it with: lbd up"),
        (["-n", "2"], "usage", None),
        (["--bogus"], "usage", "see lbrun --help"),
    ],
)
def test_errors_of_lbrun_explain(tmp_path, options, kind, fix):
    (tmp_path / "lbd.toml").write_text(f'[host]\nruntime_dir = "{tmp_path}/run"\n')
    config = f"--config={tmp_path}/lbd.toml"
    program = "import sys; from lbd.client.lbrun import main; main(sys.argv[1:])"
    lbrun = [sys.executable, "-c", program, config, "--explain"]
    found = subprocess.run([*lbrun, "--json", *options, "true"], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (125, "")
    error = error_in(found.stderr)
    assert (error["kind"], error["fix"]) == (kind, fix)
    plain = subprocess.run([*lbrun, *options, "true"], capture_output=True, text=True)
    advice = f"; {fix}" if fix else ""
    assert plain.stderr == f"lbrun: {error['message']}{advice}\n"


@pytest.mark.parametrize("words", [["echo"], ["--name", "--json", "echo"], ["--", "echo"]])
def test_the_json_of_the_users_command_is_not_lbruns(tmp_path, words):
    (tmp_path / "lbd.toml").write_text(f'[host]\nruntime_dir = "{tmp_path}/run"\n')
    program = "import sys; from lbd.client.lbrun import main; main(sys.argv[1:])"
    lbrun = [sys.executable, "-c", program, f"--config={tmp_path}/lbd.toml", "-H", "nohost"]
    found = subprocess.run([*lbrun, *words, "--explain", "--json"], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (125, "")
    assert found.stderr.startswith("lbrun: no lbm is running here"), found.stderr


def test_a_fault_in_the_file_is_part_of_an_error(tmp_path, capsys):
    """Its own line before the object made both unreadable for a program."""
    file = tmp_path / "lbd.toml"
    file.write_text(f'nonsense = 1\n[host]\nruntime_dir = "{tmp_path}"\n')
    assert lbctl.main(["status", "--json", "--config", str(file)]) == 1
    error = error_in(capsys.readouterr().err)
    assert error["message"].startswith("lim is not running")
    assert f"({file}:1: " in error["message"]
    assert error["fix"].startswith("start it with")
    assert lbctl.main(["status", "--config", str(file)]) == 1
    warning, complaint = capsys.readouterr().err.splitlines()
    assert warning.endswith("; continuing without it")
    assert "nonsense" not in complaint
