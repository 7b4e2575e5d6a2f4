"""What sbatch says of faults: in its own words, each with its line of the script."""

import io

import pytest

from lbd.slurm import sbatch
from lbd.slurm.options import LET_BE, SlurmError
from lbd.slurm.sbatch import GRAMMAR
from lbd.slurm.script import in_script
from tests.unit.slurm.test_sbatch import words


def test_all_refused_options_are_named_in_one_message_with_the_variable_to_set(
    monkeypatch, tmp_path
):
    script = tmp_path / "job.sh"
    lines = "#SBATCH -p big\n#SBATCH -A phys --mail-type=END\n#SBATCH --mail-user=ann\n"
    script.write_text(f"#!/bin/sh\n{lines}true\n")

    def refusal(*given):
        with pytest.raises(SlurmError) as caught:
            sbatch.run([*given, str(script)])
        return str(caught.value)

    assert refusal("-H") == (
        "--account phys (line 3), --mail-type END (line 3), --mail-user ann (line 4), --hold, "
        "--partition big (line 2) are not supported by lbd; `lbctl hold ID` holds a job that is "
        "submitted; take --account, --mail-type, --mail-user, --partition out, or set "
        "LBD_SLURM_IGNORE=account,mail-type,mail-user,partition"
    )
    monkeypatch.setenv(LET_BE, "account,mail-type")
    assert refusal().endswith("or set LBD_SLURM_IGNORE=account,mail-type,mail-user,partition")
    monkeypatch.setenv(LET_BE, "account,mail-type,mail-user")
    assert refusal() == (
        "job.sh: line 2: --partition big: lbd has only the partition lbd; take it out, or set "
        "LBD_SLURM_IGNORE=account,mail-type,mail-user,partition"
    )


def test_a_line_that_is_too_long_to_be_read_is_refused():
    script = "#!/bin/sh\n#SBATCH -J " + "x" * 70_000 + "\n#SBATCH -n1\n"
    with pytest.raises(SlurmError, match=r"^s.sh: line 2: it has more than 65,536 characters$"):
        words(script=script)


def test_a_script_with_several_faults_has_a_line_for_each(tmp_path):
    script = tmp_path / "job.sh"
    script.write_text(
        "#!/bin/sh\n#SBATCH --nodes=2\n#SBATCH --exclusive\n#SBATCH --gres=gpu:a100:1\n"
        "#SBATCH --no-such-option\n#SBATCH -t soon\n"
    )
    with pytest.raises(SlurmError) as caught:
        sbatch.run([str(script)])
    assert [line[:33] for line in caught.value.lines] == [
        "job.sh: line 5: unrecognized opti",
        "--exclusive (line 3) is not suppo",
        "job.sh: line 2: --nodes 2 is not ",
        "job.sh: line 4: --gres gpu:a100:1",
        "job.sh: line 6: Invalid --time sp",
    ]


def test_each_fault_of_a_script_names_its_line(tmp_path):
    script = tmp_path / "job.sh"
    for line, fault in (
        ("-o new/%5j", "--output new/%5j: %5j is not"),
        ("-e x.%q", "--error x.%q: %q is not"),
        ("-c 0", "Invalid numeric value '0' for --cpus"),
        ("-n 4 --ntasks-per-node=2", "--ntasks and"),
        ("-a 5-1", "--array 5-1: 5-1 is backwards"),
        ("-b now+2moons", "--begin 'now+2moons'"),
        ("-d afterany:", "--dependency afterany::"),
        ("-p batch", "--partition batch: lbd has only"),
    ):
        script.write_text(f"#!/bin/sh\n\n#SBATCH {line}\ntrue\n")
        with pytest.raises(SlurmError) as caught:
            sbatch.run([str(script)])
        assert str(caught.value).startswith(f"job.sh: line 3: {fault}")


@pytest.mark.parametrize(
    ("script", "lbrun", "fault"),
    [
        ("-o no/x", "--output no/x: No such file or directory", ""),
        ("-d afterany:x", "--after-any x: 'x' is not", "--dependency x: 'x' is not"),
        ("-d afterok:9", "--after: no job 9 of yours", "--dependency: no job 9 of yours"),
        ("-D /no/such", "--output slurm-%j.out: No such file or directory",
         "--chdir /no/such: No such file or directory"),
        ("-D /", "--output slurm-%j.out: Permission denied", None),  # of no line
    ],
)  # fmt: skip
def test_a_fault_that_lbrun_finds_is_named_as_typed_with_its_line(
    script, lbrun, fault, monkeypatch
):
    def submit(words, script):
        raise SlurmError(lbrun)

    monkeypatch.setattr(sbatch, "submit", submit)
    given = in_script(f"#!/bin/sh\n#SBATCH {script}\n", "s.sh", [], GRAMMAR)
    with pytest.raises(SlurmError) as caught:
        sbatch.submitted([], b"", given, "s.sh")
    expected = lbrun if fault is None else f"s.sh: line 2: {fault or lbrun}"
    assert str(caught.value).startswith(expected)


def test_a_hint_for_several_options_is_given_once():
    with pytest.raises(SlurmError) as caught:
        words("--tmp=1G", "-L", "x:1", "--exclusive")
    assert str(caught.value) == (
        "--tmp 1G, --licenses x:1, --exclusive are not supported by lbd; for --tmp and --licenses, "
        "use --gres NAME:N for what hosts have as [resources] NAME; take --exclusive out, or set "
        "LBD_SLURM_IGNORE=exclusive"
    )


def test_a_script_from_a_pipe_has_no_name(monkeypatch):
    for script, fault in (
        (b"echo\n", "This does not look like a batch script."),
        (b"#!/bin/sh\n#SBATCH -N 2\n", "standard input: line 2: --nodes 2 is not"),
    ):
        monkeypatch.setattr(sbatch.sys, "stdin", io.TextIOWrapper(io.BytesIO(script)))
        with pytest.raises(SlurmError) as caught:
            sbatch.run([])
        assert str(caught.value).startswith(fault)
